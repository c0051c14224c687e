package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// slowTensor returns T_c as a d×d×d array by its definition, one entry for each triple of columns.
func slowTensor(g *gamma.Gamma, c int) []float64 {
	d := g.X.NumColumns
	tensor := make([]float64, d*d*d)
	for i := range g.X.NumRows() {
		x, w := denseRow(g.X, i), g.Grad[i*g.Outputs+c]
		for at := range tensor {
			j, l, p := at/(d*d), at/d%d, at%d
			switch {
			case g.Kernel == Homogeneous3:
				tensor[at] += w * x[j] * x[l] * x[p]
			case j != l && l != p && j != p:
				tensor[at] += w / 6 * x[j] * x[l] * x[p]
			}
		}
	}
	return tensor
}

// slowContract returns T(a, b, ·).
func slowContract(tensor, a, b []float64) []float64 {
	d := len(a)
	out := make([]float64, d)
	for at, w := range tensor {
		out[at%d] += w * a[at/(d*d)] * b[at/d%d]
	}
	return out
}

// TestTrilinear compares products with sums over triples, and the values of the criterion with those and with the
// kernel of a model.
func TestTrilinear(t *testing.T) {
	for _, kernel := range cubics {
		for _, s := range []int{1, 3, 5} {
			rng := rand.New(rand.NewPCG(7, uint64(s)))
			const d, m = 5, 3
			g := randomGamma(rng, kernel, 1500, d, m, 0.6)
			a, b, coef := make([]float64, d*s), make([]float64, d*s), make([]float64, m*s)
			for _, part := range [][]float64{a, b, coef} {
				for i := range part {
					part[i] = rng.NormFloat64()
				}
			}
			tensors := make([][]float64, m)
			for c := range tensors {
				tensors[c] = slowTensor(g, c)
			}
			got, q := make([]float64, d*s), make([]float64, s*m)
			compare := func(what string, weight func(c, t int) float64, a, b []float64) {
				for col := range s {
					want := make([]float64, d)
					for c, tensor := range tensors {
						floats.AddScaled(want, weight(c, col),
							slowContract(tensor, gamma.ColumnOf(a, s, col), gamma.ColumnOf(b, s, col)))
					}
					if have := gamma.ColumnOf(got, s, col); floats.Distance(have, want,
						math.Inf(1)) > 1e-10*(1+dense.NormInf(want)) {
						t.Fatalf("%v: %s of column %d of %d is %v, want %v", kernel, what, col, s, have, want)
					}
				}
			}
			mixed := func(c, t int) float64 { return coef[c*s+t] }
			g.TrilinearTo(got, a, b, s, coef)
			compare("T(a, b, ·)", mixed, a, b)
			g.MulBlockTo(got, a, s, coef)
			compare("T(a, a, ·)", mixed, a, a)
			if s == m {
				g.MulBlockTo(got, a, s, nil)
				compare("T_t(a, a, ·)", func(c, t int) float64 {
					if c == t {
						return 1
					}
					return 0
				}, a, a)
			}
			g.QuadraticTo(q, a, s)
			for col := range s {
				h := gamma.ColumnOf(a, s, col)
				for c, tensor := range tensors {
					if want := floats.Dot(h, slowContract(tensor, h, h)); !solvertest.Near(q[col*m+c], want, 1e-10,
						1e-9) {
						t.Errorf("%v: q[%d,%d] = %v, want %v", kernel, col, c, q[col*m+c], want)
					}
				}
			}
		}
	}
}

// slowMaximum climbs the criterion over the explicit tensors from many random starts, by gradient steps of a length
// that halves when it fails.
func slowMaximum(rng *rand.Rand, tensors [][]float64, d int, omega Penalty) float64 {
	best := 0.0
	evaluate := func(h []float64) (value float64, gradient []float64) {
		q, products := make([]float64, len(tensors)), make([][]float64, len(tensors))
		for c, tensor := range tensors {
			products[c] = slowContract(tensor, h, h)
			q[c] = floats.Dot(h, products[c])
		}
		value, gradient = omega.RowDual(q), make([]float64, d)
		for c, x := range q {
			weight := math.Copysign(1, x)
			switch {
			case omega == L1 && math.Abs(x) < value:
				weight = 0
			case omega == L1L2 && value > 0:
				weight = x / value
			}
			floats.AddScaled(gradient, 3*weight, products[c])
		}
		return value, gradient
	}
	for range 30 {
		h := make([]float64, d)
		for j := range h {
			h[j] = rng.NormFloat64()
		}
		eigen.NormalizeColumns(h, 1)
		value, gradient := evaluate(h)
		for step := 1.0; step > 1e-9; {
			trial := append([]float64(nil), h...)
			floats.AddScaled(trial, step/(1e-300+dense.Norm2(gradient)), gradient)
			eigen.NormalizeColumns(trial, 1)
			if now, next := evaluate(trial); now > value {
				h, value, gradient, step = trial, now, next, 1.5*step
			} else {
				step /= 2
			}
		}
		best = max(best, value)
	}
	return best
}

// TestCubicSelection compares selections with brute force on random tensors of few columns, whose local maxima are many
// and close to each other: the careful one is among the best, the quick one not far from it in the mean. Of one output
// and of a joint penalty.
func TestCubicSelection(t *testing.T) {
	const d, problems = 6, 3
	for _, kernel := range cubics {
		for _, c := range []struct {
			penalty Penalty
			outputs int
		}{{L1, 1}, {L1, 3}, {L1L2, 3}, {L1Linf, 3}} {
			t.Run(fmt.Sprintf("%v/%v/%d", kernel, c.penalty, c.outputs), func(t *testing.T) {
				quick := 0.0
				for seed := range uint64(problems) {
					rng := rand.New(rand.NewPCG(seed, 11))
					g := randomGamma(rng, kernel, 60, d, c.outputs, 0.8)
					tensors := make([][]float64, c.outputs)
					for o := range tensors {
						tensors[o] = slowTensor(g, o)
					}
					want := slowMaximum(rng, tensors, d, c.penalty)
					fine := g.SelectBasis(c.penalty, nil, gamma.FineOracle, seed)
					if fine.Criterion < want*(1-2e-2) || fine.Criterion > want*(1+1e-2) {
						t.Errorf("problem %d: criterion %v, brute force %v", seed, fine.Criterion, want)
					}
					if length := dense.Norm2(fine.Basis); math.Abs(length-1) > 1e-12 || fine.Factor != 0 {
						t.Errorf("problem %d: length %v, factor %v", seed, length, fine.Factor)
					}
					q := make([]float64, c.outputs)
					for o, tensor := range tensors {
						q[o] = floats.Dot(fine.Basis, slowContract(tensor, fine.Basis, fine.Basis))
						if !solvertest.Near(q[o], fine.Gradient[o], 1e-9, 1e-9) {
							t.Errorf("problem %d: gradient %v, recomputed %v", seed, fine.Gradient, q)
						}
					}
					quick += g.SelectBasis(c.penalty, nil, gamma.QuickOracle, seed).Criterion / want / problems
				}
				t.Logf("quick selections reach %.4f of the maximum in the mean", quick)
				if quick < 0.95 {
					t.Errorf("quick selections reach %.4f of the maximum in the mean", quick)
				}
			})
		}
	}
}

// threeFields returns n rows of one name in each of three fields.
func threeFields(rng *rand.Rand, field, n int) *Rows {
	x := NewRows(3*field, n, 3*n)
	for range n {
		x.Append([]int32{int32(rng.IntN(field)), int32(field + rng.IntN(field)), int32(2*field + rng.IntN(field))},
			[]float64{1, 1, 1})
	}
	return x
}

// TestCubicSelectionOfNames checks that the strongest of several planted vectors is found among many one-hot columns,
// where random starts see noise.
func TestCubicSelectionOfNames(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 12))
		const field, n = 60, 6000
		x := threeFields(rng, field, n)
		planted := make([][]float64, 3)
		for p := range planted {
			planted[p] = make([]float64, 3*field)
			for j := range planted[p] {
				planted[p][j] = rng.NormFloat64()
			}
		}
		g := gamma.NewGamma(x, ANOVA3, 1, solvertest.TestWorkers(1))
		for i := range n {
			index, _ := x.Row(i)
			g.Grad[i] = 0.5 * rng.NormFloat64()
			for p, h := range planted {
				g.Grad[i] += []float64{1, -0.8, 0.6}[p] * h[index[0]] * h[index[1]] * h[index[2]]
			}
		}
		best := 0.0
		q := make([]float64, 1)
		for _, h := range planted {
			h = append([]float64(nil), h...)
			for f := range 3 { // a vector of fields is best with parts of one length
				part := h[f*field : (f+1)*field]
				floats.Scale(1/(math.Sqrt(3)*dense.Norm2(part)), part)
			}
			g.QuadraticTo(q, h, 1)
			best = max(best, math.Abs(q[0]))
		}
		if found := g.SelectBasis(L1, nil, gamma.QuickOracle, seed); found.Criterion < best {
			t.Errorf("seed %d: criterion %v, planted vectors have %v", seed, found.Criterion, best)
		}
	}
}
