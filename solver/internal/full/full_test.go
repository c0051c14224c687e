package full

import (
	"math"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// TestUnitBallProjection checks the variational inequality ⟨W(h − P), z − P⟩ ≤ 0 of the projection in a
// weighted metric.
func TestUnitBallProjection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(t, "d")
		h, z := solvertest.DrawMatrix(t, 1, d, "h"), solvertest.DrawMatrix(t, 1, d, "z")
		weight := make([]float64, d)
		for j := range weight {
			weight[j] = math.Pow(10, float64(rapid.IntRange(-5, 5).Draw(t, "weight")))
		}
		got := append([]float64(nil), h...)
		outside := projectUnitBall(got, weight)
		if outside != (dense.Norm2(h) > 1) || !outside && !floats.Same(got, h) {
			t.Fatalf("%v of length %g moved to %v (%v)", h, dense.Norm2(h), got, outside)
		}
		if norm := dense.Norm2(got); norm > 1+1e-15 || outside && norm < 1-1e-9 {
			t.Fatalf("projection %v has length %g", got, norm)
		}
		if norm := dense.Norm2(z); norm > 1 {
			floats.Scale(1/norm, z)
		}
		inner, size := 0.0, 0.0
		for j := range h {
			inner += weight[j] * (h[j] - got[j]) * (z[j] - got[j])
			size += weight[j] * math.Abs(h[j]-got[j])
		}
		if inner > 1e-9*size {
			t.Fatalf("⟨W(h − P), z − P⟩ = %g > 0 at P = %v for h = %v, z = %v", inner, got, h, z)
		}
	})
}
