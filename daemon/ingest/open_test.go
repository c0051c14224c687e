package ingest

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/sketch"
)

// observing has an ingest note what it has observed, as "stage time label learned".
func observing(t *testing.T, m *config.Model) (*Ingest, *sketch.Store, *[]string) {
	t.Helper()
	_, store := joinedStore(t, m)
	return observingAgain(t, m, store)
}

func observingAgain(t *testing.T, m *config.Model, store *sketch.Store) (*Ingest, *sketch.Store, *[]string) {
	t.Helper()
	c, err := cycle.New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, seen := New(m, store, c), new([]string)
	observe := g.observe
	g.observe = func(events []cycle.Observation, panicked func(int, any)) {
		for _, o := range events {
			*seen = append(*seen, fmt.Sprintf("%d %d %g %t", o.Stage, o.Event.Time, o.Event.Label, o.Learn))
		}
		observe(events, panicked)
	}
	return g, store, seen
}

// TestOpenEvents: an event is predicted when it is shown, learned when its outcome comes or its window is over,
// corrected where its label turns, and judged once: whichever of the two came first.
func TestOpenEvents(t *testing.T) {
	m := ingesttest.Clicks(100)
	seenAt := func(offset, at int64, id string) *consumer.Batch {
		return written("seen", offset, "", fmt.Sprintf(`{"id":%q,"user":"u","item":"i","ts":%d}`, id, at))
	}
	clickAt := func(offset, at int64, id string) *consumer.Batch {
		return written("clicked", offset, "", fmt.Sprintf(`{"of":%q,"ts":%d}`, id, at))
	}
	for name, of := range map[string]struct {
		batches []*consumer.Batch
		want    []string
		open    int
	}{
		"outcome": {[]*consumer.Batch{seenAt(0, 1000, "a"), clickAt(0, 3000, "a"), seenAt(1, 12_000, "b"),
			clickAt(1, 12_000, "c")},
			[]string{"1 1000 0 false", "2 1000 1 true", "1 12000 0 false", "3 1000 1 false"}, 2},
		"outcome first": {[]*consumer.Batch{clickAt(0, 3000, "a"), seenAt(0, 1000, "a")},
			[]string{"1 1000 0 false", "2 1000 1 true"}, 1},
		"none": {[]*consumer.Batch{seenAt(0, 1000, "a"), clickAt(0, 10_999, "x"), seenAt(1, 11_000, "b"),
			clickAt(1, 11_000, "y")},
			[]string{"1 1000 0 false", "2 1000 0 true", "1 11000 0 false", "3 1000 0 false"}, 3},
		"default first": {[]*consumer.Batch{seenAt(0, 1000, "a"), clickAt(0, 10_990, "x"), seenAt(1, 10_990, "b"),
			clickAt(1, 10_995, "a"), clickAt(2, 12_000, "x"), seenAt(2, 12_000, "c")},
			[]string{"1 1000 0 false", "2 1000 0 true", "1 10990 0 false", "2 1000 1 true", "3 1000 1 false",
				"1 12000 0 false"}, 3},
		"taken back": {[]*consumer.Batch{seenAt(0, 1000, "a"), clickAt(0, 3000, "a"), written("clicked", 1, "a", ""),
			clickAt(2, 4000, "a")},
			[]string{"1 1000 0 false", "2 1000 1 true", "2 1000 0 true", "2 1000 1 true"}, 1},
		"late": {[]*consumer.Batch{seenAt(0, 20_000, "a"), clickAt(0, 20_000, "a"), seenAt(1, 9000, "b")},
			[]string{"1 20000 0 false", "2 20000 1 true"}, 1},
		"again": {[]*consumer.Batch{seenAt(0, 1000, "a"), seenAt(1, 1000, "a"), clickAt(0, 3000, "a"),
			clickAt(1, 3500, "a")}, []string{"1 1000 0 false", "2 1000 1 true"}, 1},
	} {
		g, store, seen := observing(t, m)
		for _, b := range of.batches {
			if err := g.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(*seen) != fmt.Sprint(of.want) || len(g.open.held) != of.open {
			t.Errorf("%s: %v and %d are open, want %v and %d", name, *seen, len(g.open.held), of.want, of.open)
		}
		store.Close()
	}
}

// TestOpenEventsAgain: after a restart the open rows of the state wait again, and the state is the same as without one.
func TestOpenEventsAgain(t *testing.T) {
	m := ingesttest.Clicks(4000)
	const n, spacing = int64(2000), int64(10)
	var batches []*consumer.Batch
	for i := range n {
		at := 1000 + i*spacing
		batches = append(batches, written("seen", i, "", fmt.Sprintf(`{"id":"e%d","user":"u%d","item":"i","ts":%d}`, i, i%7, at)),
			written("clicked", i, "", fmt.Sprintf(`{"of":"e%d","ts":%d}`, max(0, i-i%3*40), at)))
	}
	_, straight := joinedStore(t, m)
	_, broken := joinedStore(t, m)
	defer straight.Close()
	defer broken.Close()
	g, _, _ := observingAgain(t, m, straight)
	again, _, seen := observingAgain(t, m, broken)
	for i, b := range batches {
		if i == len(batches)/2 {
			again, _, seen = observingAgain(t, m, broken)
		}
		for _, to := range []*Ingest{g, again} {
			copied := *b
			if err := to.Apply(t.Context(), &copied); err != nil {
				t.Fatal(err)
			}
		}
		if i == len(batches)/2 && (len(again.open.held) < 300 || len(again.open.held) > 1000) {
			t.Errorf("%d wait again", len(again.open.held))
		}
	}
	one, err := straight.State()
	if err != nil {
		t.Fatal(err)
	}
	other, err := broken.State()
	if err != nil {
		t.Fatal(err)
	}
	if one.SampleDigest != other.SampleDigest {
		t.Error("another state after a restart")
	}
	restored := 0
	for _, s := range *seen {
		var stage, at int64
		if fmt.Sscanf(s, "%d %d", &stage, &at); stage == int64(cycle.Final) && at < 1000+n/2*spacing {
			restored++
		}
	}
	if restored < 300 {
		t.Errorf("%d of the events from before the restart were final after it", restored)
	}
}

// TestManyOpenRowsAgain: after a restart many open rows wait again, and the state is that without one. How long the
// restart takes, and how much memory, is logged.
func TestManyOpenRowsAgain(t *testing.T) {
	n, step := tier.Size(int64(5000), 125_000), int64(1000)
	m := ingesttest.Clicks(int(2 * n))
	m.Sample.MaxBytes = 1 << 30
	m.Input.Outcomes.Window = config.Duration(time.Hour)
	log := func(from int64) (events, outcomes *consumer.Batch) {
		events, outcomes = &consumer.Batch{Topic: "seen", Base: from, Next: from + step},
			&consumer.Batch{Topic: "clicked", Base: from / 5, Next: (from + step) / 5}
		for i := from; i < from+step; i++ {
			events.Records = append(events.Records, consumer.Record{Offset: i, CRC: uint32(i),
				Value: fmt.Appendf(nil, `{"id":"e%d","user":"u%d","item":"i%d","ts":%d}`, i, i%2000, i%99, 1_700_000_000_000+i)})
			if i%5 == 0 {
				outcomes.Records = append(outcomes.Records, consumer.Record{Offset: i / 5, CRC: uint32(i),
					Value: fmt.Appendf(nil, `{"of":"e%d","ts":%d}`, i, 1_700_000_000_000+i)})
			}
		}
		return events, outcomes
	}
	states := make([]*sketch.State, 2)
	for restarts := range states {
		g, store, _ := observing(t, m)
		feed := func(from int64) {
			events, outcomes := log(from)
			for _, b := range []*consumer.Batch{events, outcomes} {
				if err := g.Apply(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
		}
		for from := int64(0); from < n; from += step {
			feed(from)
		}
		if restarts > 0 {
			g = nil
			before := heapAfterCollection()
			g, _, _ = observingAgain(t, m, store)
			began := time.Now()
			feed(n)
			took, held := time.Since(began), len(g.open.held)
			t.Logf("%d of %d rows are open again after %v, with %d bytes for each, counted as %d", held, n,
				took.Round(time.Millisecond), (heapAfterCollection()-before)/int64(held), g.open.bytes/int64(held))
			if g.open.limit == math.MaxUint64 && held < int(n)*4/5 || held < int(n)/5 {
				t.Errorf("%d of %d rows are open again", held, n)
			}
		} else {
			feed(n)
		}
		feed(n + step)
		var err error
		if states[restarts], err = store.State(); err != nil {
			t.Fatal(err)
		}
		store.Close()
	}
	if states[0].SampleDigest != states[1].SampleDigest {
		t.Error("another state after a restart")
	}
}

// heapAfterCollection returns the bytes that are in use.
func heapAfterCollection() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // pools lose what they hold in two
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// TestOpenMemory: outcomes of events that never come take no more memory than check config says.
func TestOpenMemory(t *testing.T) {
	n := 150_000
	if tier.Asked(tier.Long) {
		n = 10_000_000
	}
	m := ingesttest.Clicks(100)
	m.Input.Outcomes.Window = config.Duration(time.Hour)
	g, store, _ := observing(t, m)
	defer store.Close()
	most := int64(rows.OpenBytes(m))
	const step = 1000
	for from := 0; from < n; from += step {
		b := &consumer.Batch{Topic: "clicked", Base: int64(from), Next: int64(from + step)}
		for i := from; i < from+step; i++ {
			b.Records = append(b.Records, consumer.Record{Offset: int64(i), CRC: uint32(i),
				Value: fmt.Appendf(nil, `{"of":"o%d","ts":%d}`, i, 1000)})
		}
		if err := g.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if g.open.bytes > most || g.open.limit == math.MaxUint64 || len(g.open.held) == 0 {
		t.Fatalf("%d bytes are counted of %d, limit %x", g.open.bytes, most, g.open.limit)
	}
	with := heapAfterCollection()
	counted, keys := g.open.bytes, len(g.open.held)
	g.open.held, g.open.due = nil, nil
	takes := with - heapAfterCollection()
	runtime.KeepAlive(g)
	if takes > most || takes > counted*5/4 {
		t.Errorf("%d keys take %d bytes, counted as %d of %d", keys, takes, counted, most)
	} else {
		t.Logf("%d outcomes: %d keys take %d bytes, counted as %d of %d", n, keys, takes, counted, most)
	}
}

// TestHaltedOutcomesHoldNothingBack: a partition in which records were left, and of which nothing came for long, counts
// no more.
func TestHaltedOutcomesHoldNothingBack(t *testing.T) {
	o := newOpenEvents(ingesttest.Clicks(10), 0)
	o.noteTime("seen", 100)
	o.noteTime("clicked", 100)
	late := &sketch.Part{Topic: "clicked", Partition: 1, Outcomes: true,
		Records: []sketch.Record{{Fate: sketch.Applied, Time: 5}}}
	o.wait(late, 3)
	if o.final() != 5 || !o.behind("clicked", 1) || o.behind("clicked", 0) {
		t.Fatalf("final up to %d", o.final())
	}
	o.waiting[rows.Position{Topic: "clicked", Partition: 1}] = time.Now().Add(-2 * haltedAfter)
	o.wait(&sketch.Part{Topic: "seen"}, 0)
	if o.final() != 100 || o.behind("clicked", 1) {
		t.Errorf("final up to %d after a halt", o.final())
	}
}
