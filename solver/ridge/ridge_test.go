package ridge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/lapack/gonum"
)

// TestSolve: a times the solution is the right side, whatever is above the diagonal, and what is not positive definite
// leaves the right side.
func TestSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 7, 12, 100} {
		a, want := make([]float64, n*n), make([]float64, n)
		for range n {
			row := make([]float64, n)
			for i := range row {
				row[i] = rng.NormFloat64()
			}
			for i := range row {
				floats.AddScaled(a[i*n:i*n+n], row[i], row)
			}
		}
		for i := range n {
			a[i*n+i] += 20
			want[i] = rng.NormFloat64()
		}
		lower, x := slices.Clone(a), slices.Clone(want)
		for i := range n {
			for j := i + 1; j < n; j++ {
				lower[i*n+j] = rng.NormFloat64()
			}
		}
		factor, same := slices.Clone(lower), slices.Clone(x)
		if !Solve(lower, x) {
			t.Fatalf("%d: not solved", n)
		}
		var lapack gonum.Implementation
		lapack.Dpotrf(blas.Lower, n, factor, n)
		if lapack.Dpotrs(blas.Lower, n, 1, factor, n, same, 1); !slices.Equal(x, same) {
			t.Errorf("%d: not to the bit what gonum solves", n)
		}
		for i := range n {
			if got := floats.Dot(a[i*n:i*n+n], x); !scalar.EqualWithinAbs(got, want[i], 1e-9) {
				t.Errorf("%d: row %d gives %v, want %v", n, i, got, want[i])
			}
		}
	}
	x := []float64{3, 4}
	if Solve([]float64{1, 0, 2, 1}, x) || !slices.Equal(x, []float64{3, 4}) {
		t.Errorf("an indefinite matrix gives %v", x)
	}
}

// TestDowndate: the matrix and the product are those by definition, with and without a step.
func TestDowndate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 9, 40} {
		for _, f := range []float64{0, 0.3} {
			a, x, u := make([]float64, n*n), make([]float64, n), make([]float64, n)
			for i := range n {
				x[i], u[i] = rng.NormFloat64(), rng.NormFloat64()
				for j := range i + 1 {
					a[i*n+j] = rng.NormFloat64()
					a[j*n+i] = a[i*n+j]
				}
			}
			want, got, y := slices.Clone(a), slices.Clone(a), make([]float64, n)
			y[0] = 7 // what was there is gone
			Downdate(y, got, x, f, u)
			for i := range n {
				product := 0.0
				for j := range n {
					want[i*n+j] -= f * u[i] * u[j]
					product += want[i*n+j] * x[j]
					if j <= i && !scalar.EqualWithinAbs(got[i*n+j], want[i*n+j], 1e-12) {
						t.Fatalf("%d numbers, %g: a[%d, %d] is %g, not %g", n, f, i, j, got[i*n+j], want[i*n+j])
					}
				}
				if !scalar.EqualWithinAbs(y[i], product, 1e-12) {
					t.Fatalf("%d numbers, %g: product %d is %g, not %g", n, f, i, y[i], product)
				}
			}
		}
	}
}

// BenchmarkSolve solves for the parts of a mixture. An operation is one system.
func BenchmarkSolve(b *testing.B) {
	const n = 12
	rng := rand.New(rand.NewPCG(5, 6))
	a, x := make([]float64, n*n), make([]float64, n)
	for i := range a {
		a[i] = rng.NormFloat64()
	}
	for i := range n {
		a[i*n+i] += 20
	}
	factor := make([]float64, n*n)
	for b.Loop() {
		copy(factor, a)
		x[0] = 1
		Solve(factor, x)
	}
}
