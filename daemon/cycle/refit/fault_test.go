package refit_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// TestTimeBudget (G1): a refit that would take far longer is over within a tenth of its time budget, with the best
// model so far or, before the first, without one; a refit without the budget is not cut short. The machine may be
// busy: the best of some tries counts.
func TestTimeBudget(t *testing.T) {
	tier.NotUnderRace(t)
	const budget = 400 * time.Millisecond
	events := cycletest.Stream(9, 20_000)
	m := cycletest.RatingsModel(
		func(m *config.Model) { m.Train.MaxBasis, m.Train.TimeBudget = 60, config.Duration(budget) })
	best := time.Hour
	for range 8 {
		c := newCycle(t, m)
		sample := sampleOf(events)
		began := time.Now()
		ch, err := c.Refit(context.Background(), sample)
		took := time.Since(began)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err == nil && ch.CutShort == nil { // the chosen λ may have been solved to its end; then another one was not
			t.Fatalf("the refit ended before its budget, after %v (%s): give it more to do", took, ch.Version.Status)
		}
		if best = min(best, took); best <= budget*11/10 {
			break
		}
	}
	t.Logf("over after %v of %v", best, budget)
	if best > budget*11/10 {
		t.Errorf("over after %v: at most a tenth more than %v is allowed", best, budget)
	}
}

// TestDegenerateData (G5): labels that are all the same, one class, one user, one item, numbers at the end of their
// range. None of them is an error, and nothing that is not finite comes of them. After the first champion, only what is
// no worse than it on the same rows is promoted.
func TestDegenerateData(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	n := tier.Size(600, 1000)
	classes, binary := cycletest.ClassesModel(event.Multiclass,
		func(m *config.Model) { m.Train.MaxBasis = 2 }), switchModel()
	binary.Publish.Gate.MinRows, binary.Train.MaxBasis = 20, 4
	for name, c := range map[string]struct {
		model  *config.Model
		events []event.Event
		change func(*event.Event)
	}{
		"constant labels": {cycletest.RatingsModel(nil), cycletest.Stream(10, n), func(ev *event.Event) { ev.Label = 3 }},
		"lowest level":    {cycletest.RatingsModel(nil), cycletest.Stream(10, n), func(ev *event.Event) { ev.Label = 1 }},
		"one user": {cycletest.RatingsModel(nil), cycletest.Stream(10, n), func(
			ev *event.Event) {
			ev.Categorical[0] = "u"
		}},
		"one item": {cycletest.RatingsModel(nil), cycletest.Stream(10, n), func(
			ev *event.Event) {
			ev.Categorical[1] = "i"
		}},
		"one of each": {cycletest.RatingsModel(nil), cycletest.Stream(10, n), func(
			ev *event.Event) {
			ev.Categorical[0], ev.Categorical[1] = "u", "i"
		}},
		"one binary class": {binary, cycletest.Numbers(10, n), func(ev *event.Event) { ev.Label = 1 }},
		"one class": {classes, cycletest.ClassStream(event.Multiclass, 600), func(
			ev *event.Event) {
			ev.Classes = []string{"b"}
		}},
		"huge numbers": {binary, cycletest.Numbers(10, n), func(ev *event.Event) {
			ev.Numeric[0] = math.Copysign(1e15,
				ev.Numeric[0])
		}},
		"one huge number": {binary, cycletest.Numbers(10, n), func(ev *event.Event) {
			if ev.Label == 1 && ev.Numeric[0] > 2 {
				ev.Numeric[0] = 1e15
			}
		}},
		"one number": {binary, cycletest.Numbers(10, n), func(ev *event.Event) { ev.Numeric[0], ev.Numeric[1] = 7, 7 }},
	} {
		t.Run(name, func(t *testing.T) {
			bad := slices.Clone(c.events)
			for i := range bad {
				bad[i].Categorical, bad[i].Numeric = slices.Clone(bad[i].Categorical), slices.Clone(bad[i].Numeric)
				bad[i].Time = int64(i) // no copies of one event
				c.change(&bad[i])
			}
			for _, champion := range []bool{false, true} {
				learning := newCycle(t, c.model)
				if champion {
					observeAll(learning, c.events)
					learning.Install(mustRefit(t, learning, sampleOf(c.events)))
				}
				observeAll(learning, bad)
				ch := mustRefit(t, learning, sampleOf(bad))
				v := &ch.Version
				if !ch.Model.IsFinite() || v.Reason == "" || fitted.Causes[ch.Cause] != v.Decision {
					t.Fatalf("finite %v, %s (%s): %s", ch.Model.IsFinite(), v.Decision, ch.Cause, v.Reason)
				}
				noWorse := func(g *report.Metrics) bool {
					return g != nil && (*v.Gate.Loss <= *g.Loss*1.01+0.01 || // a difference that 100 rows cannot show
						v.Gate.RMSE != nil && *v.Gate.RMSE <= *g.RMSE*1.01)
				}
				if g := v.ChampionGate; champion && v.Decision == "promoted" && !noWorse(g) {
					t.Errorf("promoted with %+v, the champion has %+v: %s", v.Gate, g, v.Reason)
				}
				if champion && v.Decision == "kept" && learning.Champion() == ch {
					t.Error("what was kept back is the champion")
				}
			}
		})
	}
}

// TestLabelFlips (D13): five users in a hundred who turn their ratings round do little harm to what others get, and
// what does more harm than the gate's tolerance is kept back.
func TestLabelFlips(t *testing.T) {
	tier.NotUnderRace(t)
	m := cycletest.RatingsModel(nil)
	events := cycletest.Stream(11, 8000)
	liars := func(users map[string]bool, rows func(i int) bool) []event.Event {
		out := slices.Clone(events)
		for i := range out {
			if users[out[i].Categorical[0]] && rows(i) {
				out[i].Label = 6 - out[i].Label
			}
		}
		return out
	}
	all, few := make(map[string]bool), make(map[string]bool)
	for i := range events {
		if u := events[i].Categorical[0]; !all[u] {
			if all[u] = true; len(few) < 3 { // of 60
				few[u] = true
			}
		}
	}
	c := newCycle(t, m)
	c.Install(mustRefit(t, c, sampleOf(events)))
	honest := c.Champion()
	loss := func(ch *fitted.Fitted) float64 {
		s, out, sum := fitted.NewScorer(ch.Model, ch.Vocabulary), make([]float64, honest.Target.Outputs()), 0.0
		for i := range events {
			s.Outputs(out, &events[i])
			e := honest.Target.Value(out) - events[i].Label
			sum += e * e
		}
		return sum / float64(len(events))
	}
	attacked := newCycle(t, m)
	ch := mustRefit(t, attacked, sampleOf(liars(few, func(int) bool { return true })))
	before, after := loss(honest), 0.0
	s, out, n := fitted.NewScorer(ch.Model, ch.Vocabulary), make([]float64, honest.Target.Outputs()), 0
	for i := range events {
		if !few[events[i].Categorical[0]] {
			s.Outputs(out, &events[i])
			e := honest.Target.Value(out) - events[i].Label
			after, n = after+e*e, n+1
		}
	}
	if after /= float64(n); after > 1.25*before {
		t.Errorf("mean squared error %.4f for the honest with liars, %.4f without", after, before)
	}
	t.Logf("mean squared error of the honest: %.4f with liars, %.4f without", after, before)
	worse := mustRefit(
		t,
		c,
		sampleOf(liars(all, func(i int) bool { return i%10 > 1 && i%3 > 0 })),
	) // the gate rows are honest
	if worse.Version.Decision != "kept" || worse.Cause != "worse" || c.Champion() != honest {
		t.Errorf("%s (%s): %s", worse.Version.Decision, worse.Cause, worse.Version.Reason)
	}
}
