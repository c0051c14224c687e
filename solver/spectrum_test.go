package solver

import (
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// TestSettleWeights: a linear term that is all but free ends with its part of the gap below what was asked, at the
// minimum that a solve of the linear term alone reaches, and what it says about predictions and gradients is true.
func TestSettleWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	for _, loss := range []Loss{Squared{}, BinaryLogistic{}, BinarySquaredHinge{}} {
		p := interactions(5, loss, 700, 6)
		for _, ridges := range [][2]float64{{1e-9, 0}, {0.5, 1e-6}, {0, 1e-6}, {1e-6, 1e-9}} {
			f := linear.NewLinearFit(p, ridges[0], ridges[1], solvertest.TestWorkers(2))
			pred, grad, offset := make([]float64, 700), make([]float64, 700), make([]float64, 700)
			for i := range offset {
				offset[i] = rng.NormFloat64()
			}
			copy(pred, offset)
			start := linear.RowLosses(f.Workers, p, pred, grad)
			const tolerance = 1e-7
			value := f.SettleWeights(pred, grad, start, tolerance)
			f.PredictTo(offset, f.Theta) // offset is now what the linear term adds
			again, gradient := make([]float64, 700), make([]float64, len(f.Theta))
			if want := linear.RowLosses(f.Workers, p, pred, again); !solvertest.Near(value, want, 1e-12, 0) ||
				!floats.EqualApprox(again, grad, 1e-12) {
				t.Errorf("%s %v: loss %v of predictions of loss %v", loss.Name(), ridges, value, want)
			}
			f.GradientTo(gradient, grad)
			if part := f.RidgePart(gradient); part > linear.SettleShare*tolerance*value || !(value < start) {
				t.Errorf("%s %v: %v of the gap is left of a loss of %v, %v at the start", loss.Name(), ridges, part,
					value, start)
			}
			for j, x := range f.Theta {
				if (ridges[0] == 0 && j < 6 || ridges[1] == 0 && j == 6) != (x == 0) {
					t.Errorf("%s %v: weight %d is %v", loss.Name(), ridges, j, x)
				}
			}
		}
	}
}
