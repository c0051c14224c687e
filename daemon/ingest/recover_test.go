package ingest

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// TestPanicOnOneRecord (A6) has the decoder panic on one record for ever and on another once, and the cycle on a third.
// The first is rejected with its reason after a second try, and kept for the dead-letter topic; the other two are
// applied. The state is that of an ingest that learns nothing, such as verify's, which knows of the first panic only.
func TestPanicOnOneRecord(t *testing.T) {
	m := ingesttest.Ratings(1000)
	c, err := cycle.New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	b := batch(rand.New(rand.NewPCG(1, 1)), 0, 0, 100)
	poison, fickle := b.Records[3].Value, b.Records[5].Value
	failed := false
	var reported []int64
	var counts Counts
	run := func(c *cycle.Cycle) *sketch.Store {
		o := StoreOptions(m)
		o.OutboxRows = 100
		store, err := sketch.NewMemory(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := store.Begin("t", 0, 0); err != nil {
			t.Fatal(err)
		}
		g := New(m, store, c)
		decode, observe := g.readers[0].decode, g.observe
		g.readers[0].decode = func(ev *event.Event, value []byte, at int64) *event.Rejection {
			if bytes.Equal(value, poison) || c != nil && bytes.Equal(value, fickle) && !failed {
				failed = failed || bytes.Equal(value, fickle)
				panic("decode")
			}
			return decode(ev, value, at)
		}
		if c != nil {
			g.observe = func(events []cycle.Observation, panicked func(int, any)) {
				for i := range events {
					if events[i].Position.Offset == 7 {
						panicked(i, "observe")
						continue
					}
					observe(events[i:i+1], panicked)
				}
			}
			g.OnPanic = func(_ string, _ int32, offset int64, _ any) { reported = append(reported, offset) }
			g.OnApplied = func(c Counts) { counts = c }
		}
		if err := g.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := run(c)
	if n := counts.Rejected[event.Cause{Reason: event.Panicked}]; n != 1 || counts.Applied != 100-10-1 ||
		counts.Unlearned != 1 {
		t.Errorf("%d rejected for a panic, %d applied, %d of them not learned", n, counts.Applied, counts.Unlearned)
	}
	if !slices.Equal(reported, []int64{3, 3, 5, 7}) {
		t.Errorf("reported %v", reported)
	}
	state, want := stateOf(t, store), stateOf(t, run(nil))
	if p := state.Partitions[0]; p.Next != 100 || p.Applied != 89 || p.Rejected != 11 ||
		state.RejectedByReason["panic"] != 1 ||
		store.OutboxLen() != 11 {
		t.Errorf("ledger %+v, reasons %v, %d letters", p, state.RejectedByReason, store.OutboxLen())
	}
	if state.SampleDigest != want.SampleDigest || !reflect.DeepEqual(state.Partitions, want.Partitions) ||
		!reflect.DeepEqual(state.RejectedByReason, want.RejectedByReason) {
		t.Errorf("the state depends on what was learned:\n%+v, without learning\n%+v", state, want)
	}
	if n := c.Progressive().N; n != 88 {
		t.Errorf("%d events scored", n)
	}
}

// TestPanicAhead: an event on which scoring ahead panics is reported once, when it is observed; the process and the
// other events do not notice.
func TestPanicAhead(t *testing.T) {
	m := ingesttest.Ratings(1000)
	g, store := newIngest(t, m, "")
	r := rand.New(rand.NewPCG(1, 1))
	if err := g.Apply(t.Context(), batch(r, 0, 0, 1000)); err != nil {
		t.Fatal(err)
	}
	sample, err := TakeSample(m, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	champion, err := g.cycle.Refit(t.Context(), sample)
	if err != nil {
		t.Fatal(err)
	}
	g.cycle.Install(champion)
	b := batch(r, 0, 1000, 100)
	decode, observe := g.readers[0].decode, g.observe
	g.readers[0].decode = func(ev *event.Event, value []byte, at int64) *event.Rejection {
		rejection := decode(ev, value, at)
		if bytes.Equal(value, b.Records[7].Value) {
			ev.Categorical = nil // as no decoder leaves it: there is no user to score
		}
		return rejection
	}
	ahead := 0
	g.observe = func(events []cycle.Observation, panicked func(int, any)) {
		for i := range events {
			if events[i].Prescored != nil {
				ahead++
			}
		}
		observe(events, panicked)
	}
	var reported []int64
	var counts Counts
	g.OnPanic = func(_ string, _ int32, offset int64, _ any) { reported = append(reported, offset) }
	g.OnApplied = func(c Counts) { counts = c }
	if err := g.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(reported, []int64{1007}) || counts.Applied != 90 || counts.Unlearned != 1 || ahead != 90 {
		t.Errorf("reported %v, %d applied, %d of them not learned, %d prescored", reported, counts.Applied,
			counts.Unlearned, ahead)
	}
}

// TestPanicAtTheStart: a row on which folding in panics does not keep a daemon from starting.
func TestPanicAtTheStart(t *testing.T) {
	rows := []sketch.Row{{Topic: "t", Offset: 1}, {Topic: "t", Offset: 2}}
	for _, cut := range [][]report.Cut{nil, {{Topic: "t", Next: 2}}, {{Topic: "t", Next: 3}}} {
		if n, err := Relearn(ingesttest.Ratings(100), nil, &sketch.Sample{Train: rows}, cut); n != 2 ||
			err != nil { // no cycle at all: every call panics
			t.Errorf("cut %v: %d rows panicked, error %v", cut, n, err)
		}
	}
}

func stateOf(t *testing.T, store *sketch.Store) *sketch.State {
	t.Helper()
	s, err := store.State()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
