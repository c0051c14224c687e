package cycle

import (
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// TestMixtureGivesProbabilities: they are between 0 and 1 and those of exclusive classes add up to 1; outputs lead back
// to them.
func TestMixtureGivesProbabilities(t *testing.T) {
	c := newCycle(t, cycletest.ClassesModel(event.Multiclass, nil))
	for _, ev := range cycletest.ClassStream(event.Multiclass, 500) {
		c.Observe(&ev, true, rows.Position{}, nil, nil)
		sum := 0.0
		for _, p := range c.ensemble.mixture.Mixed {
			if !(p >= 0 && p <= 1) {
				t.Fatalf("probability %g", p)
			}
			sum += p
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("probabilities add up to %g", sum)
		}
		outputs, back := make([]float64, len(c.ensemble.mixture.Mixed)), make([]float64, len(c.ensemble.mixture.Mixed))
		c.ensemble.mixture.Outputs(outputs)
		evaluate.SoftmaxTo(back, outputs)
		for i, p := range c.ensemble.mixture.Mixed {
			if math.Abs(back[i]-p) > 1e-6 {
				t.Fatalf("probability %g comes back from its output as %g", p, back[i])
			}
		}
	}
}

// TestBaselinesByDefinition compares the conditional means and frequencies with counts.
func TestBaselinesByDefinition(t *testing.T) {
	target := targetOf(t, "ordinal")
	mean := &baselines.Conditional{
		Title:  "x",
		Target: target,
		Field:  0,
		Fade:   1,
		Width:  1,
		Slots:  rows.NewSlots(100),
		Before: rows.NewSlots(100),
	}
	after := &baselines.Conditional{
		Title:  "y",
		Target: target,
		Field:  0,
		Fade:   1,
		Last:   true,
		Width:  1,
		Slots:  rows.NewSlots(100),
		Before: rows.NewSlots(100),
	}
	events := cycletest.Stream(3, 400)
	got := make([]float64, 1)
	lastOf := func(i int) (float64, bool) {
		for j := i - 1; j >= 0; j-- {
			if events[j].Categorical[0] == events[i].Categorical[0] {
				return events[j].Label, true
			}
		}
		return 0, false
	}
	for i := range events {
		all, sum, n, sumAfter, nAfter := 0.0, 0.0, 0.0, 0.0, 0.0
		label, known := lastOf(i)
		for j := range i {
			all += events[j].Label / float64(i)
			if events[j].Categorical[0] == events[i].Categorical[0] {
				sum, n = sum+events[j].Label, n+1
			}
			if l, ok := lastOf(j); ok && l == label {
				sumAfter, nAfter = sumAfter+events[j].Label, nAfter+1
			}
		}
		if ok := mean.Predict(got, &events[i]); ok != (i > 0) ||
			ok && math.Abs(got[0]-(baselines.BaselinePrior*all+sum)/(baselines.BaselinePrior+n)) > 1e-9 {
			t.Fatalf("event %d: mean of the name %g (%v), by definition %g", i, got[0], ok,
				(baselines.BaselinePrior*all+sum)/(baselines.BaselinePrior+n))
		}
		if ok := after.Predict(got, &events[i]); ok != known ||
			ok && math.Abs(got[0]-(baselines.BaselinePrior*all+sumAfter)/(baselines.BaselinePrior+nAfter)) > 1e-9 {
			t.Fatalf("event %d: mean after the entity's last label %g (%v), by definition %g", i, got[0], ok,
				(baselines.BaselinePrior*all+sumAfter)/(baselines.BaselinePrior+nAfter))
		}
		mean.Learn(&events[i], nil, nil)
		after.Learn(&events[i], nil, nil)
	}
}

// TestLossOfLiveNumbers: the reported squared loss of live predictions of numbers is that of the mixture, half of its
// mean square.
func TestLossOfLiveNumbers(t *testing.T) {
	c := newCycle(t, regressionModel())
	observeAll(c, cycletest.Stream(5, 1500))
	live := c.Progressive().All.Live
	if got, want := float64(*live.Loss), float64(*live.RMSE)*float64(*live.RMSE)/2; math.Abs(got-want) > 1e-12 {
		t.Errorf("loss %g with RMSE %g, want %g", got, float64(*live.RMSE), want)
	}
}
