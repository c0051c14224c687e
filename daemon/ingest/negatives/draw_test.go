package negatives

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
)

// TestNegativesSayNothing: to who has seen all events before, each is a choice with the same chance, after a choice as
// after any number of negatives; and names are drawn as often as they are chosen.
func TestNegativesSayNothing(t *testing.T) {
	m := ingesttest.Choices(500)
	c := New(m, 1000)
	few := New(m, 5)
	decoder := formats.NewDecoder(m)
	var ev event.Event
	var run []cycle.Observation
	drawn, own := make(map[string]float64), make(map[string]float64)
	for i, r := range ingesttest.ChoiceBatch(2, 0, 0, 12_000).Records {
		if rejection := decoder.Decode(&ev, r.Value, 0); rejection != nil {
			t.Fatal(rejection)
		}
		if few.Note(&ev); len(few.names) != len(few.byName) || len(few.names) > 5 ||
			few.byName[ev.Categorical[1]] == nil {
			t.Fatalf("of five choices %d names", len(few.names))
		}
		from := len(run)
		kept := ev
		kept.Categorical = slices.Clone(ev.Categorical)
		run = c.Observations(run,
			cycle.Observation{Event: &kept, Learn: true, Position: rows.Position{Topic: "t", Offset: int64(i)}})
		for _, o := range run[from : len(run)-1] {
			drawn[o.Event.Categorical[1]]++
		}
		own[ev.Categorical[1]]++
	}
	after := make(map[int][2]float64) // negatives since the last choice: events, choices
	since := 0
	for _, o := range run {
		n := after[min(since, 8)]
		n[0]++
		n[1] += o.Event.Label
		after[min(since, 8)] = n
		since++
		if o.Event.Label == 1 {
			since = 0
		}
	}
	for since, n := range after {
		if share, spread := n[1]/n[0], math.Sqrt(0.2*0.8/n[0]); math.Abs(share-0.2) > 4*spread {
			t.Errorf("%d events after a choice %.3f of %g events are one, want 0.2 ± %.3f", since, share, n[0], spread)
		}
	}
	if len(c.chosen) != 1000 || len(c.byName) > 30 || len(c.names) != len(c.byName) {
		t.Errorf("%d choices of %d names are kept", len(c.chosen), len(c.byName))
	}
	for at, of := range c.names {
		if of.at != at || c.byName[of.name] != of {
			t.Errorf("name %d of %d is not where it says", at, len(c.names))
		}
	}
	if popular, ratio := own["i28"]/own["i7"], drawn["i28"]/drawn["i7"]; popular < 3 ||
		math.Abs(ratio/popular-1) > 0.2 {
		t.Errorf("i28, chosen %.2f times as often as i7, is drawn %.2f times as often", popular, ratio)
	}
}

// TestNegativesOfOneName: where there is no other name there are no negatives, and no search without end.
func TestNegativesOfOneName(t *testing.T) {
	m := ingesttest.Choices(100)
	c := New(m, 0)
	ev := event.Event{Label: 1, Categorical: []string{"u", "i", "g"}}
	for range c.negatives(&ev, rows.Position{}) {
		t.Error("a negative of nothing")
	}
	c.Note(&ev)
	for offset := range int64(100) {
		for negative := range c.negatives(&ev, rows.Position{Offset: offset}) {
			t.Fatalf("%+v", negative)
		}
	}
}

// TestNegativesHaveTheIdentity: negatives come again with their choice, and are left out with it.
func TestNegativesHaveTheIdentity(t *testing.T) {
	c, n := New(ingesttest.Choices(100), Kept), 0
	for _, item := range []string{"i", "j"} {
		c.Note(&event.Event{Label: 1, Categorical: []string{"u", item, "g"}})
	}
	ev := event.Event{Label: 1, Identity: "e1", Categorical: []string{"u", "i", "g"}}
	for offset := range int64(20) {
		for negative := range c.negatives(&ev, rows.Position{Offset: offset}) {
			if n++; negative.Identity != "e1" || negative.Label != 0 {
				t.Fatalf("%+v", negative)
			}
		}
	}
	if n == 0 {
		t.Error("no negatives")
	}
}
