package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// runs draws binary events in runs of about 40 equal labels, with two numbers that say nothing: what was learned from the last events is right
// for the next ones, and says nothing of those a while later.
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

// newcomers draws ratings of users who come for 50 events each, with a mean of their own.
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

// TestUpdatesAtTheLagOfConsumers: updates are published where they predict the events after them better than the last refit does, and are not
// where they predict them worse, as after runs of equal labels; where they come to that, consumers get the refit again. Losses are those of
// the models scored by themselves.
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
		"moved":     {events: moved(1, 12000), foldIn: true, worse: 1}, // the guard holds back what runs of equal labels teach
	} {
		m, every := switchModel(), 500
		if test.ratings {
			m, every = ratingsModel(nil), 20
		}
		c := newCycle(t, m)
		if test.foldIn {
			c.companions = nil
		}
		observeAll(c, test.events[:1000])
		c.Install(refit(t, c, sampleOf(test.events[:1000])))
		refitted := newScorer(c.champion.Model, c.champion.Vocabulary)
		var newest, had *scorer = nil, refitted
		var slow lag
		slow.scale.rate = updateFade
		published, again, withUpdates, without := 0, 0, 0.0, 0.0
		for i := 1000; i < len(test.events); i++ {
			if i%every == 0 {
				u, reason := c.NextUpdate()
				if (u == nil) == (reason == "") {
					t.Fatalf("%s: update %v, reason %q", name, u, reason)
				}
				frozen := c.Update()
				newest = newScorer(frozen.Model, frozen.Vocabulary)
				if u != nil {
					had = newScorer(u.Model, u.Vocabulary)
					c.PublishUpdate(u)
					published++
					if u.Model == c.champion.Model {
						again++
					}
				}
			}
			loss := func(s *scorer) float64 {
				if s == nil {
					return math.NaN()
				}
				if !c.target.Encode(c.targets, &test.events[i]) {
					t.Fatal("event without a target")
				}
				s.outputs(c.outputs, &test.events[i])
				o := c.target.outcome(&test.events[i], c.outputs, c.targets)
				if c.target.IsNumeric() {
					return o.square
				}
				return o.loss
			}
			a, b := loss(newest), loss(refitted)
			if newest != nil {
				limit := 0.0
				if !c.target.IsNumeric() {
					limit = c.guard.limit
				}
				slow.add(a, b, limit)
			}
			withUpdates, without = withUpdates+loss(had), without+b
			c.Observe(&test.events[i], true, Position{Topic: "t", Offset: int64(i)}, nil, nil)
		}
		if !closeTo(c.lag.sum, slow.sum) || !closeTo(c.lag.n, slow.n) {
			t.Errorf("%s: compared %g over %g, by the models themselves %g over %g", name, c.lag.sum, c.lag.n, slow.sum, slow.n)
		}
		if published < test.least || published > test.most || again != test.again || withUpdates > test.worse*without {
			t.Errorf("%s: %d updates, of these the refit %d times again, loss %g, of the refit alone %g", name, published, again, withUpdates, without)
		}
	}
}

// TestUpdatesInTheFormThatPredictsBetter: updates of ordinal labels are made of the fold-in or of that of levels as numbers, by the losses of both as they
// were when the last update was made, which are those of the models scored by themselves.
func TestUpdatesInTheFormThatPredictsBetter(t *testing.T) {
	events, every := newcomers(2, 3000), 50
	c := newCycle(t, ratingsModel(nil))
	observeAll(c, events[:1000])
	c.Install(refit(t, c, sampleOf(events[:1000])))
	slow, kinds := lag{scale: fading{rate: updateFade}}, [numForms]int{}
	var numbers, foldIn *scorer
	pair := &c.race.pairs[formNumbers][formFoldIn]
	for i := 1000; i < len(events); i++ {
		if i == 2000 { // in favour of the other form
			if slow.sum = 10 * slow.n; c.race.chosen == formFoldIn {
				slow.sum = -slow.sum
			}
			*pair = slow
		}
		if i%every == 0 {
			want := c.race.chosen
			if better := 1 - want; slow.n >= updateEvents && slow.prefers(want == formNumbers) != (want == formNumbers) {
				want = better
			}
			u, _ := c.NextUpdate()
			forms := c.forms(false)
			if c.race.chosen != want || u != nil && !u.again && !slices.Equal(u.Model.Bias, forms[want].model.Bias) {
				t.Fatalf("event %d: of %s, want %s", i, formParts[c.race.chosen], formParts[want])
			}
			foldIn = newScorer(forms[formFoldIn].model, forms[formFoldIn].vocab)
			numbers = newScorer(forms[formNumbers].model, forms[formNumbers].vocab)
			if u != nil {
				if !u.again {
					kinds[c.race.chosen]++
				}
				c.PublishUpdate(u)
				if !u.Model.IsFinite() || u.Model.NumOutputs != 4 {
					t.Fatalf("an update with %d outputs", u.Model.NumOutputs)
				}
			}
		}
		loss := func(s *scorer) float64 {
			c.target.Encode(c.targets, &events[i])
			s.outputs(c.outputs, &events[i])
			return c.target.outcome(&events[i], c.outputs, c.targets).square
		}
		slow.add(loss(numbers), loss(foldIn), 0)
		c.Observe(&events[i], true, Position{Topic: "t", Offset: int64(i)}, nil, nil)
		if !closeTo(pair.sum, slow.sum) || pair.n != slow.n {
			t.Fatalf("event %d: compared %g over %g, by the models themselves %g over %g", i, pair.sum, pair.n, slow.sum, slow.n)
		}
	}
	if kinds[formFoldIn] == 0 || kinds[formNumbers] == 0 {
		t.Errorf("%d updates of the fold-in, %d of that of numbers", kinds[formFoldIn], kinds[formNumbers])
	}
	for _, p := range c.Progressive().Parts {
		blended := c.race.chosen == formBlend && (p.Name == "sgd_bias" || p.Name == "first_mean" || p.Name == "second_mean" || c.blend.has(p.Name))
		if want := p.Name == "published" || p.Name == formParts[c.race.chosen] || blended; p.InVersions != want {
			t.Errorf("part %s is in versions: %t", p.Name, p.InVersions)
		}
	}
}

// TestUpdatesGoOnAfterARefit: while updates have predicted better consumers get the next one after a refit, too, and need no new proof.
func TestUpdatesGoOnAfterARefit(t *testing.T) {
	events := newcomers(3, 3000)
	c := newCycle(t, ratingsModel(nil))
	observeAll(c, events[:1000])
	c.Install(refit(t, c, sampleOf(events[:1000])))
	for i := 1000; i < 2000; i++ {
		if i%50 == 0 {
			if u, _ := c.NextUpdate(); u != nil {
				c.PublishUpdate(u)
			}
		}
		c.Observe(&events[i], true, Position{Topic: "t", Offset: int64(i)}, nil, nil)
	}
	c.Install(refit(t, c, sampleOf(events[:2000])))
	c.lag.sum, c.lag.squares = 0, c.lag.n // no better and no worse
	if u, reason := c.NextUpdate(); u == nil || u.again {
		t.Errorf("no update after a refit: %s", reason)
	}
	c.lag.sum = c.lag.n
	if u, reason := c.NextUpdate(); u != nil {
		t.Errorf("an update that predicts worse, or the refit again, though consumers have it: %s", reason)
	}
	c.lag.sum = 0
	if u, _ := c.NextUpdate(); u != nil {
		t.Error("an update that is not shown to be better is taken up again")
	}
}

// TestOneEventDoesNotDecideOnUpdates: after any number of events that prefer the refit or updates, an error beyond all bounds changes nothing, and its
// unit is of use again soon; while consumers have updates these may be worse by chance.
func TestOneEventDoesNotDecideOnUpdates(t *testing.T) {
	for _, outlier := range []float64{1e18, worstError} {
		l := lag{scale: fading{rate: updateFade}}
		r := rand.New(rand.NewPCG(3, 3))
		worse := func(by float64, n int) {
			for range n {
				e := r.NormFloat64()
				l.add(e*e+by*r.Float64(), e*e, 0)
			}
		}
		worse(0, updateEvents-1)
		if !l.prefers(true) || !l.prefers(false) {
			t.Error("updates need to prove themselves")
		}
		worse(0.2, 1000)
		l.add(0, outlier, 0)
		worse(0.2, 1000)
		if l.prefers(true) || l.prefers(false) {
			t.Errorf("an outlier of %g lets updates be published that are worse", outlier)
		}
		worse(-0.2, 5000)
		l.add(outlier, 0, 0)
		worse(-0.2, 100)
		if !l.prefers(true) || !l.prefers(false) {
			t.Errorf("an outlier of %g lets updates be held back that are better: %+v", outlier, l)
		}
	}
	l := lag{scale: fading{rate: updateFade}}
	for i := range 2000 {
		l.add(1+0.5*float64(1-2*(i%2)), 1, 0)
	}
	l.add(1.2, 1, 0)
	if !l.prefers(true) || l.prefers(false) {
		t.Errorf("worse by chance: %v with updates, %v without", l.prefers(true), l.prefers(false))
	}
	l.add(0.6, 1, 0)
	if !l.prefers(true) || l.prefers(false) {
		t.Errorf("better by chance: %v with updates, %v without", l.prefers(true), l.prefers(false))
	}
}

// TestUpdatesOnCorrelatedLosses: updates that are neither better nor worse, by losses that stay for 40 events each, are taken for better by one standard
// error about as often as such an error says, 16 % of the time: single events would have it at nearly a half.
func TestUpdatesOnCorrelatedLosses(t *testing.T) {
	const seeds = 300
	taken := 0
	for seed := range uint64(seeds) {
		l, r, d := lag{scale: fading{rate: updateFade}}, rand.New(rand.NewPCG(seed, 9)), 0.0
		for i := range 8000 {
			if i%40 == 0 {
				d = 0.3 * r.NormFloat64()
			}
			l.add(1+d, 1, 0)
		}
		if l.prefers(false) {
			taken++
		}
	}
	if taken < seeds/20 || taken > seeds/4 {
		t.Errorf("taken for better in %d of %d cases", taken, seeds)
	}
}
