package cycle

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestLevelsOfTargets: levels gives back the labels that Encode took.
func TestLevelsOfTargets(t *testing.T) {
	target := targetOf(t, "ordinal")
	m := target.Outputs()
	e := &encode.Encoded{Targets: make([]float64, 5*m)}
	for i := range 5 {
		if !target.Encode(e.Targets[i*m:i*m+m], &event.Event{Label: float64(1 + i)}) {
			t.Fatalf("level %d is no label", 1+i)
		}
	}
	for i, level := range experts.Levels(e, m) {
		if level != float64(1+i) {
			t.Errorf("level %d comes back as %g", 1+i, level)
		}
	}
}

// TestGaussianExpert: with it a change of all items is learned faster than by the ordinal fold-in alone. It is never
// published, and its posterior is carried from refit to refit.
func TestGaussianExpert(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	events := append(cycletest.Stream(5, 4000), cycletest.Stream(77, 4000)...)
	run := func(gaussian bool) float64 {
		c := newCycle(t, cycletest.RatingsModel(nil))
		for to := 1000; to <= len(events); to += 1000 {
			if !gaussian {
				c.ensemble.experts = nil
			}
			observeAll(c, events[to-1000:to])
			s := sampleOf(events[:to])
			setAges(s, to, 20) // refits find out that rows fade
			ch := mustRefit(t, c, s)
			if ch.Gaussian == nil || len(ch.Gaussian.Bias) != 1 || ch.Model.NumOutputs != 4 {
				t.Fatalf("%d events: the expert is not refitted, or published", to)
			}
			c.Install(ch)
			if !slices.ContainsFunc(c.ensemble.experts,
				func(of *experts.Expert) bool { return of.Name == experts.PartGaussian }) {
				t.Fatalf("%d events: none of %d experts is the Gaussian one", to, len(c.ensemble.experts))
			}
		}
		all := c.progress.progressive.Sums.All
		return all[evaluate.Live].Rmse()
	}
	with, without := run(true), run(false)
	if !(with < 0.995*without) || math.IsNaN(without) {
		t.Errorf("RMSE %.4f with the expert, %.4f without", with, without)
	}
}
