package dense

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// positive returns n rows of stride numbers that hold a positive definite matrix and, in the columns after it, others.
// Its diagonal spans the given number of powers of ten.
func positive(random *rand.Rand, n, stride int, powers float64) []float64 {
	a := ordinary(random, n*stride)
	v := make([][]float64, 2*n)
	for k := range v {
		v[k] = ordinary(random, n)
	}
	scale := make([]float64, n)
	for i := range scale {
		scale[i] = math.Pow(10, powers*(random.Float64()-0.5))
	}
	for i := range n {
		for j := range n {
			a[i*stride+j] = 0
			for _, row := range v {
				a[i*stride+j] += scale[i] * row[i] * row[j] * scale[j]
			}
		}
	}
	return a
}

// TestSweep compares with gonum's Cholesky: the inverse, the solutions and the determinant.
func TestSweep(t *testing.T) {
	forEachLevel(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 3))
		for n := 1; n <= 34; n++ {
			stride := (n + 1 + 7) / 8 * 8
			a := positive(random, n, stride, float64(n%7))
			symmetric, right := mat.NewSymDense(n, nil), mat.NewDense(n, stride-n, nil)
			for i := range n {
				for j := range i + 1 {
					symmetric.SetSym(i, j, a[i*stride+j])
				}
				right.SetRow(i, a[i*stride+n:i*stride+stride])
			}
			var factor mat.Cholesky
			if !factor.Factorize(symmetric) {
				t.Fatal("not positive definite")
			}
			var solution mat.Dense
			var inverse mat.SymDense
			if err := factor.SolveTo(&solution, right); err != nil {
				t.Fatal(err)
			}
			if err := factor.InverseTo(&inverse); err != nil {
				t.Fatal(err)
			}
			pivots := make([]float64, n)
			Sweep(a, stride, pivots)
			logDet := 0.0
			for _, p := range pivots {
				if !(p > 0) {
					t.Fatalf("n = %d: pivots %v", n, pivots)
				}
				logDet += math.Log(p)
			}
			if want := factor.LogDet(); math.Abs(logDet-want) > 1e-9*float64(n) {
				t.Errorf("n = %d: log det %v, want %v", n, logDet, want)
			}
			for i := range n {
				for j := range stride {
					want, size := 0.0, 0.0
					if j < n {
						want, size = inverse.At(i, j), math.Sqrt(inverse.At(i, i)*inverse.At(j, j))
					} else {
						want = solution.At(i, j-n)
						for l := range n {
							size += math.Abs(inverse.At(i, l) * right.At(l, j-n))
						}
					}
					if got := a[i*stride+j]; !(math.Abs(got-want) <= 1e-8*size) {
						t.Fatalf("n = %d: element %d, %d is %v, want %v (of terms of size %v)", n, i, j, got, want,
							size)
					}
				}
			}
		}
	})
}

// TestSweepIndefinite: a matrix that is not positive definite shows it in its pivots.
func TestSweepIndefinite(t *testing.T) {
	forEachLevel(t, func(t *testing.T) {
		for _, a := range [][4]float64{{1, 2, 2, 1}, {-1, 0, 0, 1}, {0, 1, 1, 0}, {math.NaN(), 0, 0, 1}} {
			pivots := make([]float64, 2)
			padded := make([]float64, 16)
			copy(padded, a[:2])
			copy(padded[8:], a[2:])
			Sweep(padded, 8, pivots)
			if pivots[0] > 0 && pivots[1] > 0 {
				t.Errorf("%v: pivots %v", a, pivots)
			}
		}
	})
}

func BenchmarkSweep(b *testing.B) {
	for _, n := range []int{6, 12, 21, 30} {
		stride := (n + 1 + 7) / 8 * 8
		a, at := positive(rand.New(rand.NewPCG(1, 2)), n, stride, 2), make([]float64, n*stride)
		pivots := make([]float64, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for b.Loop() {
				copy(at, a)
				Sweep(at, stride, pivots)
			}
			rate(b, 2*n*n*stride)
		})
	}
}

// TestSolvePair compares with gonum's Cholesky.
func TestSolvePair(t *testing.T) {
	forEachLevel(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(4, 4))
		work := make([]float64, PairWork)
		for n := 1; n <= MaxPair; n++ {
			var x, a, b [2][]float64
			var want [2]mat.VecDense
			d := make([]float64, n)
			for i := range d {
				d[i] = random.Float64()
			}
			for s := range a {
				full := positive(random, n, n, float64(n%5))
				symmetric := mat.NewSymDense(n, nil)
				for i := range n {
					a[s] = append(a[s], full[i*n:i*n+i+1]...)
					for j := range i + 1 {
						symmetric.SetSym(i, j, full[i*n+j])
					}
					symmetric.SetSym(i, i, symmetric.At(i, i)+d[i])
				}
				x[s], b[s] = make([]float64, n), ordinary(random, n)
				var factor mat.Cholesky
				if !factor.Factorize(symmetric) {
					t.Fatal("not positive definite")
				}
				if err := factor.SolveVecTo(&want[s], mat.NewVecDense(n, b[s])); err != nil {
					t.Fatal(err)
				}
			}
			if least := SolvePair(x, a, b, d, work); !(least > 0) {
				t.Errorf("n = %d: least pivot %v", n, least)
			}
			for s := range x {
				for i, got := range x[s] {
					if w := want[s].AtVec(i); math.Abs(got-w) > 1e-9*mat.Norm(&want[s], 2) {
						t.Errorf("n = %d, system %d: x[%d] = %v, want %v", n, s, i, got, w)
					}
				}
			}
			a[1][0] = -1e9
			if least := SolvePair(x, a, b, d, work); least > 0 {
				t.Errorf("n = %d: least pivot %v of an indefinite matrix", n, least)
			}
		}
	})
}

func BenchmarkSolvePair(b *testing.B) {
	for _, n := range []int{6, 12, 16} {
		random := rand.New(rand.NewPCG(1, 2))
		var x, a, right [2][]float64
		for s := range a {
			full := positive(random, n, n, 2)
			for i := range n {
				a[s] = append(a[s], full[i*n:i*n+i+1]...)
			}
			x[s], right[s] = make([]float64, n), ordinary(random, n)
		}
		d, work := make([]float64, n), make([]float64, PairWork)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for b.Loop() {
				SolvePair(x, a, right, d, work)
			}
		})
	}
}
