package cycle

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// choicesWithDeltas returns a cycle whose consumers have an update with deltas, of popularity alone unless users
// have a taste, with the model that they have.
func choicesWithDeltas(t *testing.T, taste bool) (*Cycle, *snapshot.Model, *event.Event) {
	t.Helper()
	m := cycletest.ChoicesModel(t)
	m.Publish.Deltas.Every = config.Duration(time.Second)
	c := newCycle(t, m)
	events := chosenRows(3000, taste)
	ch := mustRefit(t, c, choicesSample(events))
	if ch.PopularOnly == taste {
		t.Fatalf("taste %t: popularity alone %t", taste, ch.PopularOnly)
	}
	c.Install(ch)
	for i := range events {
		c.Observe(&events[i], true, rows.Position{Topic: "choices", Offset: int64(i)}, nil, nil)
	}
	c.publisher.comparison,
		c.publisher.updates = updates.UpdateComparison{Scale: evaluate.Fading{Rate: updates.UpdateFade}, N: 1}, true
	u, reason := c.NextUpdate()
	if u == nil {
		t.Fatal(reason)
	}
	c.publisher.PublishUpdate(u)
	if c.publisher.Following() == nil {
		t.Fatal("deltas do not follow the update")
	}
	consumer, err := scorer.NewModel(updates.ContentsOf(u, m))
	if err != nil {
		t.Fatal(err)
	}
	return c, consumer, &events[0]
}

// K8b: deltas bring the popularity of their cut, of names whose popularity has moved and of new ones, to versions of
// popularity alone as to others.
func TestDeltasBringPopularity(t *testing.T) {
	for _, taste := range []bool{false, true} {
		c, consumer, _ := choicesWithDeltas(t, taste)
		offset := int64(10_000)
		choose := func(user int, item string) {
			ev := &event.Event{Label: 1, Weight: 1, Time: offset, Categorical: []string{fmt.Sprint("u", user%80), item}}
			of := Observation{
				Event:    ev,
				Learn:    true,
				Position: rows.Position{Topic: "choices", Offset: offset},
				First:    item == "new" && user == 0,
			}
			c.ObserveAll([]Observation{of}, nil)
			offset++
		}
		for k := range 400 {
			choose(k, "new")
			choose(k+1, "i7")
		}
		if whole := c.TakeDelta(time.Unix(1, 0)); whole != "" {
			t.Fatal(whole)
		}
		d := c.publisher.Delta()
		if d == nil {
			t.Fatalf("taste %t: no delta", taste)
		}
		consumer, err := consumer.Apply(d)
		if err != nil {
			t.Fatal(err)
		}
		c.publisher.PublishDelta()
		items, err := consumer.TopK(nil,
			&snapshot.Query{Input: snapshot.Input{Categorical: []string{"u1", ""}}, Over: "item", K: 2},
			&snapshot.Scratch{})
		if err != nil {
			t.Fatal(err)
		}
		if len(items) != 2 || items[0].Name != "new" && items[1].Name != "new" {
			t.Errorf("taste %t: the list begins with %v", taste, items)
		}
		if taste {
			continue
		}
		score, now := make([]float64, 1), c.ensemble.popular.Weights().As(c.champion.Popular)
		for _, of := range c.ensemble.popular.List {
			in := snapshot.Input{Categorical: []string{"u1", of.Name}}
			consumer.Score(score, &in, &snapshot.Scratch{})
			if off := math.Abs(score[0] - now.Shared - now.Names[of.Name]); off > fitted.PopularityMoves*now.Scale {
				t.Errorf("%s has %g, its popularity is %g", of.Name, score[0], now.Shared+now.Names[of.Name])
			}
		}
		choose(3, "i7")
		if whole := c.TakeDelta(time.Unix(2, 0)); whole != "" {
			t.Fatal(whole)
		}
		if d = c.publisher.Delta(); d == nil || len(d.Columns) != 0 {
			t.Errorf("a delta has rows of names whose popularity has not moved: %+v", d)
		}
	}
}

// Deltas of a learned model keep what was learned of names of which only the popularity has moved, and what they are
// judged by is that model without popularity.
func TestDeltasKeepWhatWasLearned(t *testing.T) {
	c, consumer, like := choicesWithDeltas(t, true)
	before := make([]float64, 1)
	in := fitted.InputOf(&c.schema, like)
	consumer.Score(before, &in, &snapshot.Scratch{})
	own := before[0] - c.publisher.deltas.Popular.Of(like)
	for k := range 3000 { // counted, not learned
		c.ensemble.popular.Choose(&event.Event{Label: 1, Categorical: []string{"u1", fmt.Sprint("i", k%3)}})
	}
	if whole := c.TakeDelta(time.Unix(1, 0)); whole != "" {
		t.Fatal(whole)
	}
	c.publisher.PublishDelta()
	popular, model := c.publisher.deltas.Added, c.publisher.Following()
	after := make([]float64, 1)
	model.Score(after, &in, &snapshot.Scratch{})
	if d := after[0] - popular.Of(like) - own; math.Abs(d) > 1e-6 || math.Abs(after[0]-before[0]) < 0.1 {
		t.Errorf("the model says %g without popularity, it said %g; with it %g, it said %g", own+d, own, after[0],
			before[0])
	}
	scored := make([]float64, 1)
	fitted.NewFrozenScorer(&c.publisher.published.Load().Update).Outputs(scored, like)
	if math.Abs(scored[0]-own) > 1e-6 {
		t.Errorf("updates are judged by %g, learned was %g", scored[0], own)
	}
}

// K8b: a user who chooses one name over and over does not put it above the names that many users choose.
func TestOneUserDoesNotMakeANamePopular(t *testing.T) {
	c := newCycle(t, cycletest.ChoicesModel(t))
	offset := int64(0)
	choose := func(user, item string) {
		offset++
		ev := event.Event{Label: 1, Weight: 1, Time: offset, Categorical: []string{user, item}}
		c.Observe(&ev, true, rows.Position{Topic: "choices", Offset: offset}, nil, nil)
	}
	for i := range 3000 {
		choose(fmt.Sprint("u", i%500), fmt.Sprint("i", i%20))
	}
	for range 3000 {
		choose("flooder", "flooded")
	}
	weights := c.ensemble.popular.Weights()
	flooded, ok := weights.Names["flooded"]
	if !ok {
		t.Fatal("the name is not counted at all")
	}
	for i := range 20 {
		if name := fmt.Sprint("i", i); !(weights.Names[name] > flooded) {
			t.Errorf("%s counts for %.2f, the name of one user for %.2f", name, weights.Names[name], flooded)
		}
	}
}
