package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/problem"
	"github.com/refitd/refitd/solver/solvertest"
)

var cubics = []Kernel{ANOVA3, Homogeneous3}

// slowCubic is K(h, x) by its definition: the sum over all triples of different columns, or over all triples.
func slowCubic(kernel Kernel, h, x []float64) float64 {
	sum := 0.0
	for i := range x {
		for j := range x {
			for l := range x {
				if kernel == Homogeneous3 || i < j && j < l {
					sum += h[i] * x[i] * h[j] * x[j] * h[l] * x[l]
				}
			}
		}
	}
	return sum
}

// randomRows returns n rows of d columns of which the given part is not 0.
func randomRows(rng *rand.Rand, n, d int, share float64) *Rows {
	x := NewRows(d, n, n*d)
	for range n {
		var index []int32
		var value []float64
		for j := range d {
			if rng.Float64() < share {
				index, value = append(index, int32(j)), append(value, rng.NormFloat64())
			}
		}
		x.Append(index, value)
	}
	return x
}

// denseRow returns row i with its zeros.
func denseRow(x *Rows, i int) []float64 {
	row := make([]float64, x.NumColumns)
	index, value := x.Row(i)
	for e, j := range index {
		row[j] = value[e]
	}
	return row
}

func column(block []float64, s, t int) []float64 {
	var h []float64
	for i := t; i < len(block); i += s {
		h = append(h, block[i])
	}
	return h
}

// TestCubicActivations compares kernels of degree 3 with sums over triples, for numbers of basis vectors around the
// size of a block.
func TestCubicActivations(t *testing.T) {
	for _, kernel := range cubics {
		for _, k := range []int{1, 3, problem.CubicBlock, problem.CubicBlock + 1, 2*problem.CubicBlock + 5} {
			rng := rand.New(rand.NewPCG(1, uint64(k)))
			const d = 7
			x := randomRows(rng, 20, d, 0.6)
			x.Append(nil, nil)
			x.Append([]int32{2, 5}, []float64{0.3, 1e8})
			m := &Model{
				Kernel:      kernel,
				NumFeatures: d,
				NumOutputs:  1,
				NumBasis:    k,
				Basis:       make([]float64, d*k),
				Bias:        []float64{0.5},
			}
			m.Weights = make([]float64, k)
			for i := range m.Basis {
				m.Basis[i] = rng.NormFloat64()
			}
			for r := range m.Weights {
				m.Weights[r] = rng.NormFloat64()
			}
			phi, out, work := make([]float64, k), make([]float64, 1), make([]float64, 2*k)
			for i := range x.NumRows() {
				index, value := x.Row(i)
				m.Activations(phi, work, index, value)
				m.Predict(out, work, index, value)
				sum, scale := 0.5, 0.5
				for r, got := range phi {
					want := slowCubic(kernel, column(m.Basis, k, r), denseRow(x, i))
					if !solvertest.Near(got, want, 1e-12, 1e-12) || kernel == ANOVA3 && len(index) < 3 && got != 0 {
						t.Fatalf("%v of %d vectors: K(h_%d, x_%d) = %v, want %v", kernel, k, r, i, got, want)
					}
					sum += want * m.Weights[r]
					scale += math.Abs(want * m.Weights[r])
				}
				if math.Abs(out[0]-sum) > 1e-12*scale {
					t.Errorf("%v: o(x_%d) = %v, want %v", kernel, i, out[0], sum)
				}
			}
		}
	}
}

// TestModelNormalize checks that predictions stay, also of vectors that point the other way, and that lengths become 1.
func TestModelNormalize(t *testing.T) {
	for _, kernel := range []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3} {
		rng := rand.New(rand.NewPCG(2, uint64(kernel)))
		const d, k, m = 6, 4, 2
		model := NewModel(kernel, d, m, false)
		model.NumBasis, model.Basis, model.Weights = k, make([]float64, d*k), make([]float64, k*m)
		for i := range model.Basis {
			model.Basis[i] = rng.NormFloat64() * []float64{1e-3, 1, 20, 0}[i%k]
		}
		for i := range model.Weights {
			model.Weights[i] = rng.NormFloat64()
		}
		unit := model.Clone()
		unit.Normalize()
		for r := range k {
			length := dense.Norm2(column(unit.Basis, k, r))
			if r < 3 && math.Abs(length-1) > 1e-14 || r == 3 && dense.NormInf(unit.Weights[r*m:r*m+m]) > 0 {
				t.Errorf("%v: vector %d has length %g and weights %v", kernel, r, length, unit.Weights[r*m:r*m+m])
			}
		}
		x := randomRows(rng, 10, d, 0.8)
		was, now, work := make([]float64, m), make([]float64, m), make([]float64, 2*k)
		for i := range x.NumRows() {
			index, value := x.Row(i)
			model.Predict(was, work, index, value)
			unit.Predict(now, work, index, value)
			for c := range was {
				if !solvertest.Near(now[c], was[c], 1e-11, 1e-11) {
					t.Errorf("%v: o(x_%d) = %v, was %v", kernel, i, now, was)
				}
			}
		}
	}
}

// BenchmarkActivations reports the time of a kernel value for each entry of a row and basis vector: about the same for
// all sizes.
func BenchmarkActivations(b *testing.B) {
	for _, kernel := range []Kernel{ANOVA, ANOVA3, Homogeneous3} {
		for _, size := range []struct{ entries, k int }{{3, 20}, {3, 80}, {30, 20}, {30, 80}} {
			b.Run(fmt.Sprintf("%v%d/%d/%d", kernel, kernel.Degree(), size.entries, size.k), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(4, 4))
				x := randomRows(rng, 1, size.entries, 2)
				m := Model{Kernel: kernel, NumBasis: size.k, Basis: make([]float64, size.entries*size.k)}
				for i := range m.Basis {
					m.Basis[i] = rng.NormFloat64()
				}
				phi, work := make([]float64, size.k), make([]float64, size.k)
				index, value := x.Row(0)
				for b.Loop() {
					m.Activations(phi, work, index, value)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size.entries*size.k), "ns/product")
			})
		}
	}
}
