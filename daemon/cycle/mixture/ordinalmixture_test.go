package mixture_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// TestLevelMixtureIsNeverBehind: over any interval the loss of the mixed chances is at most that of the best part and a
// little, the best being another after half of the events; a part that is not there does not count.
func TestLevelMixtureIsNeverBehind(t *testing.T) {
	t.Parallel()
	target := targetOf(t, "ordinal")
	m := mixture.NewOrdinalMixture(target)
	r := rand.New(rand.NewPCG(3, 4))
	n := target.Outputs()
	targets, good, bad := make([]float64, n), make([]float64, n), make([]float64, n)
	link := &encode.LevelLink{Threshold: make([]float64, n), Slope: 2}
	for c := range link.Threshold {
		link.Threshold[c] = 2 * (float64(c) + 1.5)
	}
	const half = 5000
	for interval := range 3 {
		var mixed, best float64
		for range half {
			number := 1 + 4*r.Float64()
			level := min(max(math.Round(number+.4*r.NormFloat64()), 1), 5)
			for c := range n {
				if targets[c] = 1; level > float64(c+1) {
					targets[c] = -1
				}
				good[c], bad[c] = link.Threshold[c]-link.Slope*number, 6*r.NormFloat64()
			}
			switch interval {
			case 0:
				m.Predict(good, bad, 3, nil)
			case 1:
				m.Predict(bad, good, 3, nil)
			default:
				m.Predict(bad, nil, number, link)
			}
			mixed += m.Loss(targets) / half
			best += target.Loss.Eval(nil, good, targets) / half
			m.Learn(targets)
		}
		if !(mixed <= 1.01*best+.001) {
			t.Errorf("interval %d: loss %.4f, of the best part %.4f", interval, mixed, best)
		}
	}
}

// TestLevelMixtureOfOnePart is that part.
func TestLevelMixtureOfOnePart(t *testing.T) {
	t.Parallel()
	m := mixture.NewOrdinalMixture(targetOf(t, "ordinal"))
	alone := []float64{-2, -1, .5, 3}
	m.Predict(alone, nil, 3, nil)
	targets := []float64{-1, -1, 1, 1}
	if got, want := m.Loss(targets), targetOf(t, "ordinal").Loss.Eval(nil, alone, targets); math.Abs(got-want) > 1e-12 {
		t.Errorf("loss %g, that of the part %g", got, want)
	}
	if mixture.NewOrdinalMixture(experts.GaussianTarget(targetOf(t, "ordinal"))) != nil {
		t.Error("levels of a number")
	}
}
