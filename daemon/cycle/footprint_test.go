package cycle

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/solver"
)

// heap returns the bytes that are reachable.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found finalizers for
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFootprints: rows of a refit, whose names are all different, take at most what RowBytes says of them, and a third of it at least; vocabularies at
// most what is said of them.
func TestFootprints(t *testing.T) {
	const n = 20_000
	for name, event := range map[string]func(i int) *event.Event{
		"short": func(i int) *event.Event {
			return &event.Event{Numeric: []float64{float64(i)}, Categorical: []string{fmt.Sprintf("u%d", i), fmt.Sprintf("i%d", i)}}
		},
		"long": func(i int) *event.Event {
			return &event.Event{Numeric: []float64{float64(i)}, Categorical: []string{fmt.Sprintf("user-%0250d", i), fmt.Sprintf("item-%0250d", i)}}
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
			before := heap()
			payloads, said := make([][]byte, n), int64(0)
			for i := range payloads {
				payloads[i] = AppendEvent(nil, event(i))
				said += int64(RowBytes(payloads[i]))
			}
			names := make(interner)
			events, err := decodeRows(payloads, names)
			if err != nil {
				t.Fatal(err)
			}
			v := buildVocabulary(&schema, events, false, n, nil, nil)
			target := &Target{Objective: config.Objective{Task: schema.Task, Loss: solver.Squared{}}}
			encoded, _ := encode(v, target, events, nil)
			took := heap() - before
			t.Logf("%d rows take %d bytes, said to be %d", n, took, said)
			if took > said || 3*took < said {
				t.Errorf("%d rows take %d bytes, said to be %d", n, took, said)
			}
			before = heap()
			w := *v
			w.index, w.field = nil, nil
			w.number()
			if took, said := heap()-before, int64(vocabularyBytes*v.NumColumns()); took > said {
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

// TestMixtureFootprint fills the mixture of a stream with more names than it keeps.
func TestMixtureFootprint(t *testing.T) {
	const rows = 5000
	target := targetOf(t, "ordinal")
	before := heap()
	m := newMixture(target, nil, 2, 0, rows)
	for i := range 4 * rows {
		ev := &event.Event{Label: float64(1 + i%5), Weight: 1, Categorical: []string{fmt.Sprintf("user-%011d", i), fmt.Sprintf("item-%011d", i)}}
		m.predict(ev, nil, nil, nil)
		m.learn(ev, nil, nil)
	}
	if took, said := heap()-before, MixtureFootprint(rows, 1, 16); took > said || 2*took < said {
		t.Errorf("a mixture takes %d bytes, said to be %d", took, said)
	}
	runtime.KeepAlive(m)
}

// TestNumbersFootprint fills what learns numbers beside the fold-in.
func TestNumbersFootprint(t *testing.T) {
	for _, size := range []struct{ numbers, outputs, rows int }{{2, 2, 100}, {16, 26, 5000}, {100, 3, 20_000}} {
		m := numericModel(size.numbers, size.outputs)
		m.Schema.Categorical, m.Train.FoldIn.MaxRows = []string{"kind"}, size.rows
		c := newCycle(t, m)
		c.companions = nil
		before := heap()
		all := c.onNumbers()
		targets := make([]float64, size.outputs)
		for i := range 5000 {
			ev := &event.Event{Weight: 1, Categorical: []string{fmt.Sprintf("kind-%011d", i)}, Classes: m.Schema.Classes[i%2 : i%2+1]}
			for _, b := range all {
				if l, ok := b.learner.(*adagradLearner); ok {
					l.gather(ev)
					l.learn(ev, targets, 1)
				}
			}
		}
		if took, said := heap()-before, NumbersFootprint(size.numbers, 1, size.outputs, size.rows, 16); took > said || 6*took < said {
			t.Errorf("%d numbers and %d outputs take %d bytes, said to be %d", size.numbers, size.outputs, took, said)
		}
		runtime.KeepAlive(all)
	}
}

// TestCapFootprint: what bounds entities takes no more than its footprint, and not much less.
func TestCapFootprint(t *testing.T) {
	m := publicModel(func(m *config.Model) { m.Schema.Identity = "id" })
	schema := m.Schema.Event()
	before := heap()
	limits, counts := newEntityCap(m, &schema), new(counted)
	for i := range 2*rememberedIdentities - 1 { // both halves of each map are full
		user := fmt.Sprintf("user-%011d", i%(2*m.Train.FoldIn.MaxRows))
		limits.take(counts, &event.Event{Identity: fmt.Sprint(i), Categorical: []string{user, fmt.Sprint("i", i)}}, Position{Topic: "t", Offset: int64(i)})
	}
	if took, said := heap()-before, CapFootprint(m, 16); took > said || 3*took < said {
		t.Errorf("it takes %d bytes, the footprint is %d", took, said)
	}
	runtime.KeepAlive(limits)
}
