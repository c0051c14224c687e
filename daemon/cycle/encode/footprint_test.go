package encode

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/solver"
)

// TestFootprints: rows of a refit, whose names are all different, take at most what RowBytes says of them, and a third
// of it at least; vocabularies at most what is said of them.
func TestFootprints(t *testing.T) {
	const n = 20_000
	for name, event := range map[string]func(i int) *event.Event{
		"short": func(i int) *event.Event {
			return &event.Event{Numeric: []float64{float64(i)}, Categorical: []string{fmt.Sprintf("u%d", i), fmt.Sprintf("i%d",
				i)}}
		},
		"long": func(i int) *event.Event {
			return &event.Event{Numeric: []float64{float64(i)}, Categorical: []string{fmt.Sprintf("user-%0250d", i), fmt.Sprintf(
				"item-%0250d", i)}}
		},
		"lists": func(i int) *event.Event {
			ev := &event.Event{Numeric: []float64{float64(i)}, Categorical: []string{"u", "i"}, Multi: [][]string{nil}}
			for k := range 20 {
				ev.Multi[0] = append(ev.Multi[0], fmt.Sprintf("t%d", 20*i+k))
			}
			return ev
		},
	} {
		t.Run(name, func(t *testing.T) {
			schema := eventSchema(name == "lists")
			before := cycletest.Heap()
			payloads, said := make([][]byte, n), int64(0)
			for i := range payloads {
				payloads[i] = rows.AppendEvent(nil, event(i))
				said += int64(rows.RowBytes(payloads[i]))
			}
			names := make(rows.Interner)
			events, err := DecodeRows(payloads, names)
			if err != nil {
				t.Fatal(err)
			}
			v := BuildVocabulary(&schema, events, false, n, nil, nil)
			target := &Target{Objective: config.Objective{Task: schema.Task, Loss: solver.Squared{}}}
			encoded, _ := Encode(v, target, events, nil)
			took := cycletest.Heap() - before
			t.Logf("%d rows take %d bytes, said to be %d", n, took, said)
			if took > said || 3*took < said {
				t.Errorf("%d rows take %d bytes, said to be %d", n, took, said)
			}
			before = cycletest.Heap()
			w := *v
			w.Index, w.Field = nil, nil
			w.Number()
			if took, said := cycletest.Heap()-before, int64(rows.VocabularyBytes*v.NumColumns()); took > said {
				t.Errorf("a vocabulary takes %d bytes, said to be %d", took, said)
			}
			runtime.KeepAlive([]any{payloads, events, names, encoded, v, w})
		})
	}
}

// eventSchema is a regression on two names and a number, and on a list if it is asked for.
func eventSchema(list bool) event.Schema {
	s := event.Schema{Task: event.Regression, Label: "y", Categorical: []string{"user", "item"}, Numeric: []string{"x"}}
	if list {
		s.Multi = []string{"tags"}
	}
	return s
}
