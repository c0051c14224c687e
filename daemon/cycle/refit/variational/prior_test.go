package variational

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// TestPriorOfLabelsAllAlike: labels that are all alike have no scale, whatever their weights round to; labels that
// differ by little have theirs.
func TestPriorOfLabelsAllAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(48, 30))
	for n := range 50 {
		label := []float64{0, 3, 0.1, -1e9, 1e-9}[n%5]
		p := &solver.Problem{X: solver.NewRows(1, 71, 71), Outputs: 1, Loss: solver.Squared{}}
		for range 71 {
			p.X.Append([]int32{0}, []float64{1})
			p.Targets, p.Weights = append(p.Targets, label), append(p.Weights, 0.97+0.05*r.Float64())
		}
		one := posterior.PriorFor(posterior.Gaussian, 1)
		if got := PriorFor(posterior.Gaussian, p); got != one {
			t.Errorf("labels of %g: %+v, want %+v", label, got, one)
		}
		p.Targets[7] += 1e-6 * math.Abs(label)
		if got := PriorFor(posterior.Gaussian, p); label != 0 && !(got.Linear > one.Linear) && label > -1e3 {
			t.Errorf("labels about %g: %+v", label, got)
		}
	}
}
