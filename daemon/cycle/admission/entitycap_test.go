package admission

import (
	"fmt"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// TestNegativesCountWithTheirChoice: the negatives of a choice, which are at its place in the log, are with it one
// event of its entity and of its identity.
func TestNegativesCountWithTheirChoice(t *testing.T) {
	m := cycletest.PublicModel(func(m *config.Model) { m.Schema.Identity = "id" })
	schema := m.Schema.Event()
	limits, counts := NewEntityCap(m, &schema), new(rows.Counted)
	for _, ev := range cycletest.Public(9, 2000) {
		limits.Take(counts, &ev, rows.Position{})
	}
	for i := range 3 {
		for k := range 5 {
			ev := event.Event{
				Label:       float64(k / 4),
				Identity:    fmt.Sprint("e", i/2),
				Categorical: []string{"new", fmt.Sprint("i", 10*i+k)},
			}
			if limits.Take(counts, &ev, rows.Position{Topic: "t", Offset: int64(i)}); counts.IsNone() != (i == 1) {
				t.Errorf("choice %d, row %d: left out %t", i, k, counts.IsNone())
			}
		}
	}
	if at := limits.entities.Find(0, "new"); limits.used[at].used > 2 || limits.Held[HeldIdentity].Load() != 1 {
		t.Errorf("two choices with four negatives each count as %g events, %d came again", limits.used[at].used,
			limits.Held[HeldIdentity].Load())
	}
}

// TestRecentIsBounded: what is remembered is the last so many keys at least, and twice as many at most.
func TestRecentIsBounded(t *testing.T) {
	r := newRecent[int](100)
	for i := range 10_000 {
		r.put(uint64(i), i)
		if n := len(r.now) + len(r.before); n > 200 {
			t.Fatalf("%d keys are remembered", n)
		}
		if v, ok := r.get(uint64(max(0, i-99))); !ok || v != max(0, i-99) {
			t.Fatalf("key %d is not remembered after key %d", max(0, i-99), i)
		}
	}
}
