package ingest

import (
	"fmt"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
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
	m := clicks(100)
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
