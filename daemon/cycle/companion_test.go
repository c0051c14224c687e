package cycle

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// TestLevelsOfTargets: levels gives back the labels that Encode took.
func TestLevelsOfTargets(t *testing.T) {
	target := targetOf(t, "ordinal")
	m := target.Outputs()
	e := &encoded{targets: make([]float64, 5*m)}
	for i := range 5 {
		if !target.Encode(e.targets[i*m:i*m+m], &event.Event{Label: float64(1 + i)}) {
			t.Fatalf("level %d is no label", 1+i)
		}
	}
	for i, level := range e.levels(m) {
		if level != float64(1+i) {
			t.Errorf("level %d comes back as %g", 1+i, level)
		}
	}
}

// TestOneOutputRises: the single output of a vector falls where those of thresholds rise.
func TestOneOutputRises(t *testing.T) {
	ordinal := &solver.Model{NumFeatures: 2, NumOutputs: 2, NumBasis: 2, Basis: []float64{1, 0, 0, 1}, Weights: []float64{1, 3, -2, -4}}
	if got := oneOutput(ordinal).Weights; got[0] != -2 || got[1] != 3 {
		t.Errorf("weights %v, want [-2 3]", got)
	}
}

// TestGaussianCompanion follows a change of all items faster than the ordinal fold-in alone, is never in what is published, and its posterior
// goes on from refit to refit.
func TestGaussianCompanion(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	events := append(stream(5, 4000), stream(77, 4000)...)
	run := func(beside bool) float64 {
		c := newCycle(t, ratingsModel(nil))
		for to := 1000; to <= len(events); to += 1000 {
			if !beside {
				c.companions = nil
			}
			observeAll(c, events[to-1000:to])
			s := sampleOf(events[:to])
			setAges(s, to, 20) // refits find out that rows fade
			ch := refit(t, c, s)
			if ch.gaussian == nil || len(ch.gaussian.Bias) != 1 || ch.Model.NumOutputs != 4 {
				t.Fatalf("%d events: the companion is not refitted, or published", to)
			}
			c.Install(ch)
			if !slices.ContainsFunc(c.companions, func(of *companion) bool { return of.name == partGaussian }) {
				t.Fatalf("%d events: none of %d companions is the Gaussian one", to, len(c.companions))
			}
		}
		all := c.progressive.sums.All
		return all[live].rmse()
	}
	with, without := run(true), run(false)
	if !(with < 0.995*without) || math.IsNaN(without) {
		t.Errorf("RMSE %.4f with the companion, %.4f without", with, without)
	}
}
