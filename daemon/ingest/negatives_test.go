package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
)

// chosen is a model of choices whose items have a genre.
func chosen(size int) *config.Model {
	m := ingesttest.Ratings(size)
	m.Schema = config.Schema{
		Task:         config.Implicit,
		Label:        "event",
		EventWeights: []config.EventWeight{{Event: "view", Weight: 1}, {Event: "buy", Weight: 5}},
		Time:         "ts",
		TimeUnit:     "ms",
		Categorical:  []string{"user", "item", "genre"},
		Of:           map[string]string{"genre": "item"},
	}
	m.Train.Loss, m.Train.FoldIn.By, m.Evaluate.BaselineBy, m.Sample.MaxBytes = config.Auto, nil, "", 0
	m.Resolve()
	return m
}

// choiceBatch returns n choices of a partition from base on. Item k is chosen about k times as often as item 1.
func choiceBatch(seed uint64, p int32, base int64, n int) *consumer.Batch {
	r := rand.New(rand.NewPCG(seed, uint64(p)))
	b := &consumer.Batch{Topic: "t", Partition: p, Base: base, Next: base + int64(n), HighWatermark: base + int64(n)}
	for i := range n {
		item := 1 + int(30*math.Sqrt(r.Float64()))
		value := fmt.Appendf(nil, `{"user":"u%d","item":"i%d","genre":"g%d","event":%q,"ts":%d}`, r.IntN(200), item,
			item%3, []string{"view", "view", "buy"}[r.IntN(3)], 1700000000000+base+int64(i))
		b.Records = append(b.Records,
			consumer.Record{Offset: base + int64(i), Value: value, Timestamp: 1700000000000 + base, CRC: r.Uint32()})
	}
	return b
}

// TestNegativesOfSamples: the rows of a refit are a function of the set of events, however they were cut and in which
// order partitions came, and again after a restart. A negative is its choice with another item and what belongs to
// that.
func TestNegativesOfSamples(t *testing.T) {
	tier.NotUnderRace(t)
	m := chosen(500)
	take := func(size, first int) *encode.Sample {
		g, store := newIngest(t, m, "")
		for _, p := range []int{first, 1 - first} {
			whole := choiceBatch(1, int32(p), 0, 600)
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

// TestNegativesSayNothing: to who has seen all events before, each is a choice with the same chance, after a choice as
// after any number of negatives; and names are drawn as often as they are chosen.
func TestNegativesSayNothing(t *testing.T) {
	m := chosen(500)
	c := newCandidates(m, 1000)
	few := newCandidates(m, 5)
	decoder := formats.NewDecoder(m)
	var ev event.Event
	var run []cycle.Observation
	drawn, own := make(map[string]float64), make(map[string]float64)
	for i, r := range choiceBatch(2, 0, 0, 12_000).Records {
		if rejection := decoder.Decode(&ev, r.Value, 0); rejection != nil {
			t.Fatal(rejection)
		}
		if few.note(&ev); len(few.names) != len(few.byName) || len(few.names) > 5 ||
			few.byName[ev.Categorical[1]] == nil {
			t.Fatalf("of five choices %d names", len(few.names))
		}
		from := len(run)
		kept := ev
		kept.Categorical = slices.Clone(ev.Categorical)
		run = c.observations(run,
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
	m := chosen(100)
	c := newCandidates(m, 0)
	ev := event.Event{Label: 1, Categorical: []string{"u", "i", "g"}}
	for range c.negatives(&ev, rows.Position{}) {
		t.Error("a negative of nothing")
	}
	c.note(&ev)
	for offset := range int64(100) {
		for negative := range c.negatives(&ev, rows.Position{Offset: offset}) {
			t.Fatalf("%+v", negative)
		}
	}
}

// TestNegativesHaveTheIdentity: negatives come again with their choice, and are left out with it.
func TestNegativesHaveTheIdentity(t *testing.T) {
	c, n := newCandidates(chosen(100), KeptChoices), 0
	for _, item := range []string{"i", "j"} {
		c.note(&event.Event{Label: 1, Categorical: []string{"u", item, "g"}})
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

// TestNegativesAfterRestart: a process that starts on a state draws among the choices that it finds there.
func TestNegativesAfterRestart(t *testing.T) {
	m := chosen(500)
	g, store := newIngest(t, m, "")
	if err := g.Apply(t.Context(), choiceBatch(3, 0, 0, 400)); err != nil {
		t.Fatal(err)
	}
	again := newCandidates(m, KeptChoices)
	if err := again.fill(store, nil); err != nil {
		t.Fatal(err)
	}
	ev := event.Event{Label: 1, Weight: 1, Categorical: []string{"u1", "i30", "g0"}}
	names := func(c *candidates) (all []string) {
		for offset := range int64(50) {
			for n := range c.negatives(&ev, rows.Position{Topic: "t", Offset: 1000 + offset}) {
				all = append(all, n.Categorical[1])
			}
		}
		return all
	}
	if got, want := names(again), names(g.choices); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("drawn after a restart %q, without one %q", got, want)
	}
}
