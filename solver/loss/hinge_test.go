package loss

import (
	"math"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/solvertest"
)

// TestHingeExtremes checks the values and gradients of both hinge losses where a plain evaluation overflows or cancels.
func TestHingeExtremes(t *testing.T) {
	target := []float64{0, 1, 0}
	for _, big := range []float64{700, 1e10, 1e149} {
		pred, grad := []float64{big, -big, 0}, make([]float64, 3)
		if got := (SmoothedHinge{}).Eval(grad, pred, target); !solvertest.Near(got, 1+2*big, 1e-15, 0) ||
			!solvertest.Near(grad[0], 1, 1e-15, 0) ||
			!solvertest.Near(grad[1], -1, 1e-15, 0) {
			t.Errorf("smoothed hinge of %v is %v with gradient %v", pred, got, grad)
		}
		want := (1+2*big)*(1+2*big) + (1+big)*(1+big)
		if got := (SquaredHinge{}).Eval(grad, pred, target); !solvertest.Near(got, want, 1e-14, 0) ||
			!solvertest.Near(grad[1], -2*(2+3*big), 1e-14, 0) {
			t.Errorf("squared hinge of %v is %v, want %v, with gradient %v", pred, got, want, grad)
		}
		right := []float64{-big, big, -big}
		if got := (SquaredHinge{}).Eval(grad, right, target); got != 0 || dense.NormInf(grad) != 0 {
			t.Errorf("squared hinge of %v is %v with gradient %v, want 0", right, got, grad)
		}
	}
	// A confident, right example keeps its digits: log(1 + x) with x = e^-40 is x − x²/2.
	grad := make([]float64, 2)
	value := (SmoothedHinge{}).Eval(grad, []float64{41, 0}, []float64{1, 0})
	x := math.Exp(-40)
	if !solvertest.Near(value, x, 1e-14, 0) || !solvertest.Near(grad[0], -x, 1e-14, 0) ||
		!solvertest.Near(grad[1], x, 1e-14, 0) {
		t.Errorf("smoothed hinge %v with gradient %v, want %v", value, grad, x)
	}
}
