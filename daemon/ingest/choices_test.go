package ingest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/daemon/ingest/negatives"
)

// TestNegativesOfSamples: the rows of a refit are a function of the set of events, however they were cut and in which
// order partitions came, and again after a restart. A negative is its choice with another item and what belongs to
// that.
func TestNegativesOfSamples(t *testing.T) {
	tier.NotUnderRace(t)
	m := ingesttest.Choices(500)
	take := func(size, first int) *encode.Sample {
		g, store := newIngest(t, m, "")
		for _, p := range []int{first, 1 - first} {
			whole := ingesttest.ChoiceBatch(1, int32(p), 0, 600)
			for at := 0; at < 600; at += size {
				b := *whole
				b.Base, b.Next, b.Records = int64(at), int64(at+size), whole.Records[at:at+size]
				if err := g.Apply(t.Context(), &b); err != nil {
					t.Fatal(err)
				}
			}
		}
		s, err := TakeSample(m, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Lineage = ""
		return s
	}
	s := take(600, 0)
	for _, other := range []*encode.Sample{take(50, 0), take(200, 1)} {
		if !reflect.DeepEqual(other, s) {
			t.Error("another order of the same events, other rows")
		}
	}
	if len(s.Weights) != len(s.Train) || len(s.TrainAge) != len(s.Train) ||
		len(s.HeldOutWeights) != len(s.Select)+len(s.Gate) {
		t.Fatalf("%d rows with %d weights and %d ages", len(s.Train), len(s.Weights), len(s.TrainAge))
	}
	positives, negatives, before := 0, 0, []event.Event{}
	for i, row := range s.Train {
		var ev event.Event
		if err := rows.DecodeEvent(&ev, row, make(map[string]string)); err != nil {
			t.Fatal(err)
		}
		var item int
		if _, err := fmt.Sscanf(ev.Categorical[1], "i%d", &item); err != nil ||
			ev.Categorical[2] != fmt.Sprintf("g%d", item%3) {
			t.Fatalf("row %d: %q has no such genre (%v)", i, ev.Categorical, err)
		}
		if ev.Label == 0 {
			negatives++
			before = append(before, ev)
			continue
		}
		for k, n := range before {
			if n.Categorical[0] != ev.Categorical[0] || n.Categorical[1] == ev.Categorical[1] ||
				n.Weight != ev.Weight ||
				n.Time != ev.Time ||
				s.Weights[i-len(before)+k] != s.Weights[i] {
				t.Fatalf("%+v is a negative of %+v", n, ev)
			}
		}
		positives, before = positives+1, before[:0]
	}
	if share := float64(negatives) / float64(positives); positives != 500 || math.Abs(share-4) > 0.5 {
		t.Errorf("%d choices, %g negatives for each", positives, share)
	}
}

// TestNegativesAfterRestart: a process that starts on a state draws among the choices that it finds there.
func TestNegativesAfterRestart(t *testing.T) {
	m := ingesttest.Choices(500)
	g, store := newIngest(t, m, "")
	if err := g.Apply(t.Context(), ingesttest.ChoiceBatch(3, 0, 0, 400)); err != nil {
		t.Fatal(err)
	}
	again := negatives.New(m, negatives.Kept)
	if err := again.Fill(store, nil); err != nil {
		t.Fatal(err)
	}
	ev := event.Event{Label: 1, Weight: 1, Categorical: []string{"u1", "i30", "g0"}}
	names := func(c *negatives.Candidates) (all []string) {
		for offset := range int64(50) {
			at := rows.Position{Topic: "t", Offset: 1000 + offset}
			run := c.Observations(nil, cycle.Observation{Event: &ev, Position: at})
			for _, o := range run[:len(run)-1] {
				all = append(all, o.Event.Categorical[1])
			}
		}
		return all
	}
	if got, want := names(again), names(g.choices); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("drawn after a restart %q, without one %q", got, want)
	}
}
