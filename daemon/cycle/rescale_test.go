package cycle

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver/posterior"
)

// TestNumbersAndNames: where a number says most of a numeric label, refits learn that from the first on, and continue
// from each other as its range grows.
func TestNumbersAndNames(t *testing.T) {
	events := cycletest.Trips(3, 9000)
	c := newCycle(t, cycletest.TripsModel())
	for _, n := range []int{2500, 5000, 9000} {
		ch := mustRefit(t, c, sampleOf(events[:n]))
		if rmse := float64(*ch.Version.Gate.RMSE); ch.Version.Decision != "promoted" ||
			rmse > 1.15*cycletest.TripNoise {
			t.Errorf("%d events: %s (%s) with a gate RMSE of %.3f, the noise is %.1f", n, ch.Version.Decision,
				ch.Version.Reason, rmse, cycletest.TripNoise)
		}
		c.Install(ch)
	}
}

// TestFoldInRescales: the posterior of a fold-in, and that of a version, predict the same over other scales of numbers;
// a refit on much the same rows keeps the scales.
func TestFoldInRescales(t *testing.T) {
	events := cycletest.Trips(6, 2100)
	c := newCycle(t, cycletest.TripsModel())
	ch := mustRefit(t, c, sampleOf(events[:2000]))
	c.Install(ch)
	if next := mustRefit(t, c, sampleOf(events)); !slices.Equal(next.Vocabulary.Numeric, ch.Vocabulary.Numeric) {
		t.Errorf("scales %+v, were %+v", next.Vocabulary.Numeric, ch.Vocabulary.Numeric)
	}
	to := new(encode.Vocabulary)
	*to = *ch.Vocabulary
	to.Numeric = []format.NumericField{{Name: "km", Center: 4, Scale: 100}}
	l := experts.NewFoldIn(c.config, &c.schema, c.target, ch)
	before := fitted.NewScorer(ch.Posterior.Model(), ch.Vocabulary)
	for _, s := range []*posterior.State{l.State(to, nil), variational.MapPosterior(ch.Posterior, ch.Vocabulary, to)} {
		after := fitted.NewScorer(s.Model(), to)
		x, y := make([]float64, 1), make([]float64, 1)
		for i := range events[:50] {
			before.Outputs(x, &events[i])
			after.Outputs(y, &events[i])
			if math.Abs(x[0]-y[0]) > 1e-9*(1+math.Abs(x[0])) {
				t.Errorf("event %d: %.12g, was %.12g", i, y[0], x[0])
			}
		}
	}
}

// TestFoldInBeforeHasItsScales: the previous fold-in is kept next to the new one while numbers have the scales that it
// learned by, and no longer.
func TestFoldInBeforeHasItsScales(t *testing.T) {
	for _, scale := range []float64{0, 100} {
		events := cycletest.Trips(7, 2000)
		c := newCycle(t, cycletest.TripsModel())
		for _, n := range []int{1900, 2000, 2000} {
			ch := mustRefit(t, c, sampleOf(events[:n]))
			last := n == 2000 && c.ensemble.expertOf(experts.PartBefore) != nil
			if last && scale > 0 {
				ch.Vocabulary.Numeric = []format.NumericField{{Name: "km", Center: 4, Scale: scale}}
			}
			c.watch.drift.Alarm, c.watch.drift.Events = 1, 1
			c.Install(ch)
			if got := c.ensemble.expertOf(experts.PartBefore) != nil; last && got != (scale == 0) {
				t.Errorf("new scale %g: the previous fold-in is kept: %t", scale, got)
			}
		}
	}
}
