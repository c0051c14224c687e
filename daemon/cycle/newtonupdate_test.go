package cycle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// Where Newton's learner predicts better at the lag of consumers than the fold-in updates are made of it, which score
// as it does but for the shrinkage of classes, in the trainer and as published.
func TestUpdateFromNewton(t *testing.T) {
	regression := chessModel("none")
	regression.Schema.Task, regression.Schema.Classes, regression.Train.Loss = "regression", nil, config.Auto
	regression.Train.Kernel = config.Auto
	regression.Resolve()
	for name, m := range map[string]*config.Model{"classes": chessModel("none"), "regression": regression} {
		t.Run(name, func(t *testing.T) {
			m.Without = append(m.Without, pooledVariant.name)
			events := make([]event.Event, 0, 4000)
			for _, ev := range chess(6, 4000, 1, false) {
				if ev.Classes[0] == "none" {
					continue // a number that an event lacks is another value to either
				}
				if name == "regression" {
					ev.Label, ev.Classes = 50+20*math.Sin(2*ev.Numeric[0])*math.Cos(2*(ev.Numeric[1]-100)), nil
				}
				events = append(events, ev)
			}
			c := newCycle(t, m)
			observeAll(c, events[:2000])
			ch := mustRefit(t, c, sampleOf(events[:2000]))
			ch.Version.Version = 1
			c.Install(ch)
			observeWithUpdates(c, events[2000:], 200)
			for _, p := range c.Progressive().Parts {
				if p.InVersions != (p.Name == "refit" || p.Name == experts.PartNewton) {
					t.Errorf("%s: in versions: %t", p.Name, p.InVersions)
				}
			}
			u := c.Update()
			if u.Version.FeatureMap != "fourier:200" || u.Model.NumBasis != 0 {
				t.Fatalf("the update has map %q and %d basis vectors", u.Version.FeatureMap, u.Model.NumBasis)
			}
			var l *experts.Newton
			for _, expert := range c.ensemble.experts {
				if n, ok := expert.Learner.(*experts.Newton); ok {
					l = n
				}
			}
			published, err := scorer.NewModel(u.Contents(m))
			if err != nil {
				t.Fatal(err)
			}
			scorer := fitted.NewScorer(u.Model, u.Vocabulary)
			var s snapshot.Scratch
			got, read := make([]float64, c.target.Outputs()), make([]float64, c.target.Outputs())
			for i := range events[:100] {
				ev := &events[i]
				if math.Abs(u.Vocabulary.Numeric[0].Scaled(ev.Numeric[0])) == 1 ||
					math.Abs(u.Vocabulary.Numeric[1].Scaled(ev.Numeric[1])) == 1 {
					continue // beyond the range of the sample
				}
				scorer.Outputs(got, ev)
				published.Score(read, &snapshot.Input{Numeric: ev.Numeric}, &s)
				c.ensemble.takeNumbers(ev)
				l.Gather(ev)
				want := append([]float64(nil), l.OutputsOf...)
				l.Numbers.Unscale(want, l.Scaled)
				for o := range got {
					if math.Abs(got[o]-want[o]) > 1e-6*(1+math.Abs(want[o])) ||
						math.Abs(got[o]-read[o]) > 1e-9*(1+math.Abs(read[o])) {
						t.Fatalf("event %d: the update says %v, published %v, the learner %v", i, got, read, want)
					}
				}
			}
		})
	}
}

// TestUpdateWhereWeightsAreGoing: where what separates classes moves steadily, updates are made of Newton's learner
// where its weights will be half way to the next update, which predicts better; with deltas there is no such form, and
// before a second update neither.
func TestUpdateWhereWeightsAreGoing(t *testing.T) {
	tier.NotUnderRace(t)
	const warm, n = 2000, 12_000
	r := rand.New(rand.NewPCG(3, 1))
	events := make([]event.Event, n)
	for i := range events {
		a, b := r.NormFloat64(), r.NormFloat64()
		angle := 2 * math.Pi * float64(i) / 6000
		events[i] = event.Event{Weight: 1, Numeric: []float64{a, b}}
		if a*math.Cos(angle)+b*math.Sin(angle) > 0 {
			events[i].Label = 1
		}
	}
	m := switchModel()
	c := newCycle(t, m)
	observeAll(c, events[:warm])
	c.Install(mustRefit(t, c, sampleOf(events[:warm])))
	if forms := c.ensemble.candidates(false); forms[mixture.FormNewton].Model == nil ||
		forms[mixture.FormGoing].Model != nil {
		t.Fatal("a variant of extrapolated weights before the first update, or no variant of Newton's learner")
	}
	observeWithUpdates(c, events[warm:], 300)
	units, errors := c.publisher.race.Difference(mixture.FormGoing, mixture.FormNewton)
	t.Logf("the form loses %.3f units less, %.1f standard errors", units, errors)
	if c.publisher.race.Chosen != mixture.FormGoing || !(errors > 1) {
		t.Errorf("updates are of form %d", c.publisher.race.Chosen)
	}
	for _, b := range c.ensemble.experts {
		l, ok := b.Learner.(*experts.Newton)
		if !ok {
			continue
		}
		before, now := slices.Clone(l.Before), slices.Clone(l.Weights)
		for i, w := range l.Extrapolated() {
			if want := 1.5*now[i] - .5*before[i]; math.Abs(w-want) > 1e-12*(1+math.Abs(want)) {
				t.Fatalf("weight %d goes to %g, want %g", i, w, want)
			}
		}
		if l.Reset(); l.Extrapolated() != nil {
			t.Error("weights that begin anew are extrapolated")
		}
	}
	m.Publish.Deltas.Every = config.Duration(time.Second)
	if c.ensemble.candidates(false)[mixture.FormGoing].Model != nil {
		t.Error("a form that deltas cannot follow")
	}
}
