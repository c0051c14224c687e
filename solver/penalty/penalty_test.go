package penalty

import (
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/solvertest"
	"pgregory.net/rapid"
)

// TestL1BallProjection compares the threshold with a bisection.
func TestL1BallProjection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 8).Draw(t, "m")
		v := solvertest.DrawMatrix(t, 1, m, "v")
		radius := rapid.OneOf(rapid.Float64Range(0, 6), rapid.Just(0.0)).Draw(t, "radius")
		low, high := 0.0, dense.NormInf(v)
		for range 200 {
			mid := (low + high) / 2
			z := append([]float64(nil), v...)
			if softThreshold(z, mid); dense.Norm1(z) > radius {
				low = mid
			} else {
				high = mid
			}
		}
		want := append([]float64(nil), v...)
		softThreshold(want, high)
		ProjectL1Ball(v, radius)
		if dense.Norm1(v) > radius*(1+1e-12)+1e-12 {
			t.Fatalf("‖%v‖₁ > %g", v, radius)
		}
		for c := range v {
			if !solvertest.Near(v[c], want[c], 1e-9, 1e-9) {
				t.Fatalf("projection %v, bisection %v", v, want)
			}
		}
	})
}
