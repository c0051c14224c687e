package ridge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/floats/scalar"
)

// TestSolve: a times the solution is the right side, whatever is above the diagonal, and what is not positive definite
// leaves the right side.
func TestSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 7, 100} {
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
		if !Solve(lower, x) {
			t.Fatalf("%d: not solved", n)
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
