package cycle

import (
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestEventsAreHeard: two cycles that have half of the events each and tell each other at once have the baselines of one that has all of them, and its
// mixture; one that observes nothing has the blend that updates are made of.
func TestEventsAreHeard(t *testing.T) {
	m := ratingsModel(nil)
	events := stream(3, 4400)
	cycles, _ := sharers(t, 4, m, events[:2000])
	one, trainer, shards := cycles[0], cycles[1], cycles[2:]
	for i := range events[2000:4200] {
		own := events[2000+i : 2001+i]
		partition, offset := int32(i%2), 200+int64(i/2)
		observeIn(one, partition, offset, own)
		observeIn(shards[partition], partition, offset, own)
		l := toldBy(t, shards[partition])
		for _, c := range cycles[1:] {
			if c == shards[partition] {
				continue
			}
			if missed, err := c.Apply(l); err != nil || missed > 100 { // the champion's cut is below
				t.Fatal(missed, err)
			}
		}
	}
	for i := range events[4200:] {
		ev := &events[4200+i]
		want := baselinesFor(one, ev)
		for k, c := range cycles[1:] {
			for b, v := range baselinesFor(c, ev) {
				if name := c.mixture.baselines[b].name(); math.Abs(v-want[b]) > 1e-9 || len(want) != len(c.mixture.baselines) {
					t.Fatalf("cycle %d: %s predicts %g, of one process %g", k+1, name, v, want[b])
				}
			}
		}
	}
	for i := range one.mixture.parts {
		for k, c := range cycles[1:] {
			if a, b := one.mixture.parts[i].told, c.mixture.parts[i].told; math.Abs(a.mean()-b.mean()) > 0.01*a.mean() || math.Abs(a.n-b.n) > 1e-6 {
				t.Errorf("cycle %d: loss of %s %.4f of %.1f, of one process %.4f of %.1f", k+1, one.mixture.parts[i].name, b.mean(), b.n, a.mean(), a.n)
			}
		}
	}
	if a, b := one.blend, trainer.blend; a.events != b.events || math.Abs(a.squares.mean()-b.squares.mean()) > 0.01*a.squares.mean() {
		t.Errorf("blend of %d events has mean square %.4f, of one process %d, %.4f", b.events, b.squares.mean(), a.events, a.squares.mean())
	}
}

func baselinesFor(c *Cycle, ev *event.Event) (values []float64) {
	var v [1]float64
	for _, b := range c.mixture.baselines {
		b.predict(v[:], ev)
		values = append(values, v[0])
	}
	return values
}

// TestToldEvents: events are told as they are, at most as many as asked for, and none twice; one that is cut off, or of another model, is not learned.
func TestToldEvents(t *testing.T) {
	events := stream(3, 2010)
	cycles, _ := sharers(t, 2, ratingsModel(nil), events[:2000])
	observeIn(cycles[0], 0, 100, events[2000:])
	l, _ := cycles[0].TakeLearned(1<<20, 3)
	if len(l.Events) != 3 || len(cycles[0].sharing.events) != 0 {
		t.Fatalf("%d events told of 3, %d wait", len(l.Events), len(cycles[0].sharing.events))
	}
	head, rows, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeLearned(head, rows)
	if err != nil || len(back.Events) != 3 {
		t.Fatal(len(back.Events), err)
	}
	for i := range back.Events {
		var ev event.Event
		of := &events[2000+i]
		if err := DecodeEvent(&ev, back.Events[i].Payload, interner{}); err != nil || ev.Label != of.Label || ev.Categorical[0] != of.Categorical[0] {
			t.Errorf("event %d comes back as %+v, %v", i, ev, err)
		}
		for part, out := range l.Events[i].Outputs {
			got := back.Events[i].Outputs[part]
			if len(got) != len(out) || (out == nil) != (got == nil) {
				t.Fatalf("outputs %v of part %d come back as %v", out, part, got)
			}
			for c := range out {
				if math.Abs(out[c]-got[c]) > 1e-6*math.Abs(out[c]) {
					t.Errorf("output %g of part %d comes back as %g", out[c], part, got[c])
				}
			}
		}
	}
	mixture := cycles[1].mixture
	learned := func() float64 { return mixture.parts[partFoldIn].told.n }
	last := rows[len(rows)-1]
	for n := range last {
		if cut, err := DecodeLearned(head, [][]byte{last[:n]}); err == nil {
			for i := range cut.Events {
				cycles[1].hear(&cut.Events[i], &event.Event{})
			}
		}
	}
	if learned() != 0 {
		t.Errorf("%g events that are cut off were learned", learned())
	}
	other := ToldEvent{Payload: back.Events[0].Payload, Outputs: append([][]float64{{1, 2}}, back.Events[0].Outputs[1:]...)}
	if cycles[1].hear(&other, &event.Event{}); learned() != 0 {
		t.Error("an event with outputs of another model was learned")
	}
	if cycles[1].hear(&back.Events[0], &event.Event{}); learned() != 1 {
		t.Errorf("%g events learned, want 1", learned())
	}
}

// BenchmarkHear is what an event of another process costs, beside one that is observed here, and how many bytes it takes to tell.
func BenchmarkHear(b *testing.B) {
	events := stream(3, 2010)
	t := &testing.T{}
	cycles, _ := sharers(t, 2, ratingsModel(nil), events[:2000])
	observeIn(cycles[0], 0, 100, events[2000:])
	l, _ := cycles[0].TakeLearned(1<<20, 1)
	_, rows, err := l.Encode()
	if err != nil {
		b.Fatal(err)
	}
	var ev event.Event
	b.Run("hear", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cycles[1].hear(&l.Events[0], &ev)
		}
		b.ReportMetric(float64(len(rows[len(rows)-1])), "bytes")
	})
	b.Run("observe", func(b *testing.B) {
		b.ReportAllocs()
		offset := int64(1000)
		for b.Loop() {
			offset++
			observeIn(cycles[0], 0, offset, events[2000:2001])
			cycles[0].sharing.events = nil
		}
	})
}
