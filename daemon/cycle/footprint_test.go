package cycle

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// heap returns the bytes that are reachable.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found finalizers for
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// near fails unless what was measured is the footprint, within 15 percent above it and 50 below: rows share their names.
func near(t *testing.T, what string, measured, footprint int64) {
	t.Helper()
	if float64(measured) > 1.15*float64(footprint) || float64(measured) < 0.5*float64(footprint) {
		t.Errorf("%s take %d bytes, their footprint is %d", what, measured, footprint)
	}
}

func TestFootprints(t *testing.T) {
	const n, users, items = 20_000, 3000, 900
	schema := event.Schema{Task: event.Regression, Label: "y", Categorical: []string{"user", "item"}, Numeric: []string{"x"}}
	before := heap()
	payloads := make([][]byte, n)
	for i := range payloads {
		payloads[i] = AppendEvent(nil, &event.Event{Label: 1, Weight: 1, Time: int64(i), Numeric: []float64{float64(i)},
			Categorical: []string{fmt.Sprintf("user-%011d", i%users), fmt.Sprintf("item-%011d", i%items)}})
	}
	events, err := decodeRows(payloads, make(interner))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "rows", heap()-before, RowsFootprint(n, 2, 1))
	before = heap()
	v := buildVocabulary(&schema, events, false, users+items)
	if v.NumColumns() != users+items+1 {
		t.Fatalf("%d columns", v.NumColumns())
	}
	near(t, "names", heap()-before, VocabularyFootprint(users+items))
	runtime.KeepAlive(payloads)
	runtime.KeepAlive(events)
	runtime.KeepAlive(v)
}
