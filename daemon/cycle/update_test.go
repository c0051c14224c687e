package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// runs draws binary events in runs of about 40 equal labels, with two numbers that say nothing: what was learned from
// the last events is right for the next ones, and says nothing of those a while later.
func runs(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 5))
	events, label := make([]event.Event, n), 0.0
	for i := range events {
		if r.IntN(40) == 0 {
			label = 1 - label
		}
		events[i] = event.Event{Label: label, Weight: 1, Numeric: []float64{r.NormFloat64(), r.NormFloat64()}}
	}
	return events
}

// newcomers draws ratings of users who come for 50 events each, each with a separate mean.
func newcomers(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 6))
	events, mean := make([]event.Event, n), 0.0
	for i := range events {
		if i%50 == 0 {
			mean = 1.5 + float64(r.IntN(4))
		}
		events[i] = event.Event{Label: math.Round(min(max(mean+0.4*r.NormFloat64(), 1), 5)), Weight: 1, Time: int64(i),
			Categorical: []string{fmt.Sprint("u", i/50), fmt.Sprint("i", r.IntN(20))}}
	}
	return events
}

// moved is 3,000 events whose labels are mostly 0 first, then mostly 1, and then runs.
func moved(seed uint64, n int) []event.Event {
	r, events := rand.New(rand.NewPCG(seed, 7)), runs(seed, n)
	for i := range events[:3000] {
		events[i].Label = 0
		if (r.IntN(10) > 0) == (i >= 1000) {
			events[i].Label = 1
		}
	}
	return events
}

// TestUpdatesAtTheLagOfConsumers: updates are published where they predict the events after them better than the last
// refit does, and are not where they predict them worse, as after runs of equal labels; where they come to that,
// consumers get the refit again. Losses are those of the models scored by themselves.
func TestUpdatesAtTheLagOfConsumers(t *testing.T) {
	for name, test := range map[string]struct {
		events  []event.Event
		ratings bool
		foldIn  bool // there is no other form
		least   int  // updates published, with the refit again
		most    int
		again   int
		worse   float64 // than the refit alone, at most
	}{
		"runs":      {events: runs(1, 8000), worse: 1},
		"newcomers": {events: newcomers(1, 4000), ratings: true, least: 149, most: 149, worse: 0.8},
		// the guard holds back what runs of equal labels teach
		"moved": {events: moved(1, 12000), foldIn: true, worse: 1},
	} {
		m, every := switchModel(), 500
		if test.ratings {
			m, every = cycletest.RatingsModel(nil), 20
		}
		c := newCycle(t, m)
		if test.foldIn {
			c.ensemble.experts = nil
		}
		observeAll(c, test.events[:1000])
		c.Install(mustRefit(t, c, sampleOf(test.events[:1000])))
		refitted := fitted.NewScorer(c.champion.Model, c.champion.Vocabulary)
		var newest, had *fitted.Scorer = nil, refitted
		var slow updates.UpdateComparison
		slow.Scale.Rate = updates.UpdateFade
		published, again, withUpdates, without := 0, 0, 0.0, 0.0
		for i := 1000; i < len(test.events); i++ {
			if i%every == 0 {
				chosen := c.publisher.race.Chosen
				u, reason := c.NextUpdate()
				if now := c.publisher.race.Chosen; now != chosen {
					slow = c.publisher.race.Refits[now]
				}
				if (u == nil) == (reason == "") {
					t.Fatalf("%s: update %v, reason %q", name, u, reason)
				}
				frozen := c.Update()
				newest = fitted.NewScorer(frozen.Model, frozen.Vocabulary)
				if u != nil {
					had = fitted.NewScorer(u.Model, u.Vocabulary)
					c.publisher.PublishUpdate(u)
					published++
					if u.Model == c.champion.Model {
						again++
					}
				}
			}
			loss := func(s *fitted.Scorer) float64 {
				if s == nil {
					return math.NaN()
				}
				if !c.target.Encode(c.ensemble.targets, &test.events[i]) {
					t.Fatal("event without a target")
				}
				s.Outputs(c.ensemble.outputs, &test.events[i])
				o := evaluate.Outcome(c.target, &test.events[i], c.ensemble.outputs, c.ensemble.targets)
				if c.target.IsNumeric() {
					return o.Square
				}
				return o.Loss
			}
			a, b := loss(newest), loss(refitted)
			if newest != nil {
				limit := 0.0
				if !c.target.IsNumeric() {
					limit = c.publisher.guard.Limit
				}
				slow.Add(a, b, limit)
			}
			withUpdates, without = withUpdates+loss(had), without+b
			c.Observe(&test.events[i], true, rows.Position{Topic: "t", Offset: int64(i)}, nil, nil)
		}
		if !closeTo(c.publisher.comparison.Sum, slow.Sum) || !closeTo(c.publisher.comparison.N, slow.N) {
			t.Errorf("%s: compared %g over %g, by the models themselves %g over %g", name, c.publisher.comparison.Sum,
				c.publisher.comparison.N, slow.Sum, slow.N)
		}
		if published < test.least || published > test.most || again != test.again || withUpdates > test.worse*without {
			t.Errorf("%s: %d updates, of these the refit %d times again, loss %g, of the refit alone %g", name,
				published, again, withUpdates, without)
		}
	}
}

// TestUpdatesInTheFormThatPredictsBetter: updates of ordinal labels are made of the fold-in or of that of levels as
// numbers, by the losses of both as they were when the last update was made, which are those of the models scored by
// themselves.
func TestUpdatesInTheFormThatPredictsBetter(t *testing.T) {
	events, every := newcomers(2, 3000), 50
	c := newCycle(t, cycletest.RatingsModel(nil))
	observeAll(c, events[:1000])
	c.Install(mustRefit(t, c, sampleOf(events[:1000])))
	slow, kinds := updates.UpdateComparison{Scale: evaluate.Fading{Rate: updates.UpdateFade}}, [mixture.NumForms]int{}
	var numbers, foldIn *fitted.Scorer
	pair := &c.publisher.race.Pairs[mixture.FormNumbers][mixture.FormFoldIn]
	for i := 1000; i < len(events); i++ {
		if i == 2000 { // in favour of the other form
			if slow.Sum = 10 * slow.N; c.publisher.race.Chosen == mixture.FormFoldIn {
				slow.Sum = -slow.Sum
			}
			*pair = slow
		}
		if i%every == 0 {
			want := c.publisher.race.Chosen
			if better := 1 - want; slow.N >= updates.UpdateEvents &&
				slow.Prefers(want == mixture.FormNumbers, false) != (want == mixture.FormNumbers) {
				want = better
			}
			u, _ := c.NextUpdate()
			forms := c.ensemble.candidates(false)
			if c.publisher.race.Chosen != want ||
				u != nil && !u.Again && !slices.Equal(u.Model.Bias, forms[want].Model.Bias) {
				t.Fatalf("event %d: of %s, want %s", i, variants[c.publisher.race.Chosen].name, variants[want].name)
			}
			foldIn = fitted.NewScorer(forms[mixture.FormFoldIn].Model, forms[mixture.FormFoldIn].Vocab)
			numbers = fitted.NewScorer(forms[mixture.FormNumbers].Model, forms[mixture.FormNumbers].Vocab)
			if u != nil {
				if !u.Again {
					kinds[c.publisher.race.Chosen]++
				}
				c.publisher.PublishUpdate(u)
				if !u.Model.IsFinite() || u.Model.NumOutputs != 4 {
					t.Fatalf("an update with %d outputs", u.Model.NumOutputs)
				}
			}
		}
		loss := func(s *fitted.Scorer) float64 {
			c.target.Encode(c.ensemble.targets, &events[i])
			s.Outputs(c.ensemble.outputs, &events[i])
			return evaluate.Outcome(c.target, &events[i], c.ensemble.outputs, c.ensemble.targets).Square
		}
		slow.Add(loss(numbers), loss(foldIn), 0)
		c.Observe(&events[i], true, rows.Position{Topic: "t", Offset: int64(i)}, nil, nil)
		if !closeTo(pair.Sum, slow.Sum) || pair.N != slow.N {
			t.Fatalf("event %d: compared %g over %g, by the models themselves %g over %g", i, pair.Sum, pair.N,
				slow.Sum, slow.N)
		}
	}
	if kinds[mixture.FormFoldIn] == 0 || kinds[mixture.FormNumbers] == 0 {
		t.Errorf("%d updates of the fold-in, %d of that of numbers", kinds[mixture.FormFoldIn],
			kinds[mixture.FormNumbers])
	}
	for _, p := range c.Progressive().Parts {
		blended := c.publisher.race.Chosen == mixture.FormBlend &&
			(p.Name == "sgd_bias" || p.Name == "first_mean" || p.Name == "second_mean" || c.ensemble.stacked.Has(p.Name))
		if want := p.Name == "refit" || p.Name == c.partOf(c.publisher.race.Chosen) ||
			blended; p.InVersions != want {
			t.Errorf("part %s is in versions: %t", p.Name, p.InVersions)
		}
	}
}

// TestUpdatesGoOnAfterARefit: while updates have predicted better consumers get the next one after a refit, too, and
// need no new proof.
func TestUpdatesGoOnAfterARefit(t *testing.T) {
	events := newcomers(3, 3000)
	c := newCycle(t, cycletest.RatingsModel(nil))
	observeAll(c, events[:1000])
	c.Install(mustRefit(t, c, sampleOf(events[:1000])))
	for i := 1000; i < 2000; i++ {
		if i%50 == 0 {
			if u, _ := c.NextUpdate(); u != nil {
				c.publisher.PublishUpdate(u)
			}
		}
		c.Observe(&events[i], true, rows.Position{Topic: "t", Offset: int64(i)}, nil, nil)
	}
	c.Install(mustRefit(t, c, sampleOf(events[:2000])))
	c.publisher.comparison.Sum, c.publisher.comparison.Squares = 0, c.publisher.comparison.N // no better and no worse
	if u, reason := c.NextUpdate(); u == nil || u.Again {
		t.Errorf("no update after a refit: %s", reason)
	}
	c.publisher.comparison.Sum = c.publisher.comparison.N
	if u, reason := c.NextUpdate(); u != nil {
		t.Errorf("an update that predicts worse, or the refit again, though consumers have it: %s", reason)
	}
	c.publisher.comparison.Sum = 0
	if u, _ := c.NextUpdate(); u != nil {
		t.Error("an update that is not shown to be better is taken up again")
	}
}

// The live model continues from a champion with a map, and an update of it scores alike.
func TestUpdateWithFeatureMap(t *testing.T) {
	c, events := newCycle(t, chessModel("fourier:40")), chess(4, 1500, 1, false)
	ch := mustRefit(t, c, sampleOf(events[:1000]))
	ch.Version.Version = 1
	c.Install(ch)
	observeAll(c, events[1000:])
	c.ensemble.experts = nil // an update may be made of one
	u := c.Update()
	if u.Model.Map == nil {
		t.Fatal("the update has no map")
	}
	scorer := fitted.NewScorer(u.Model, u.Vocabulary)
	got, want := make([]float64, 3), make([]float64, 3)
	for i := range events[:50] {
		scorer.Outputs(got, &events[i])
		c.ensemble.learner.Outputs(want, &events[i])
		for o := range got {
			if math.Abs(got[o]-want[o]) > 1e-9*(1+math.Abs(want[o])) {
				t.Fatalf("event %d: the update says %v, live %v", i, got, want)
			}
		}
	}
}
