package cycle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
)

// crossModel has labels that depend on pairs of names alone, which no sum of weights of single names says.
func crossModel() *config.Model {
	return ratingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.Label = "regression", 0, "y"
		m.Schema.Categorical, m.Schema.Cross = []string{"user", "item"}, [][]string{{"item", "user"}}
		m.Train.Loss = config.Auto
	})
}

// paired returns events whose label is a number drawn for each pair.
func paired(m *config.Model, n int) []event.Event {
	schema := m.Schema.Event()
	r := rand.New(rand.NewPCG(4, 4))
	labels := make(map[string]float64)
	events := make([]event.Event, n)
	for i := range events {
		u, item := fmt.Sprint("u", r.IntN(30)), fmt.Sprint("i", r.IntN(20))
		if _, ok := labels[u+item]; !ok {
			labels[u+item] = 2 * r.NormFloat64()
		}
		events[i] = event.Event{Label: labels[u+item] + 0.1*r.NormFloat64(), Weight: 1, Time: int64(i), Categorical: []string{u, item}}
		schema.Complete(&events[i])
	}
	return events
}

// TestCrossIsLearned: with the cross of both fields labels of pairs are learned, in the daemon and by consumers, who do not give it; and a restart
// goes on with it.
func TestCrossIsLearned(t *testing.T) {
	losses := make(map[bool]float64)
	for _, crossed := range []bool{false, true} {
		m := crossModel()
		if !crossed {
			m.Schema.Cross = nil
		}
		events := paired(m, 12_000)
		c := newCycle(t, m)
		observeAll(c, events[:8000])
		ch := refit(t, c, sampleOf(events[:8000]))
		c.Install(ch)
		observeAll(c, events[8000:])
		losses[crossed] = float64(*c.Progressive().Window.Live.RMSE)
		if !crossed {
			continue
		}
		ch.Version.Version = 1
		published, err := snapshot.NewModel(ch.Contents(m))
		if err != nil {
			t.Fatal(err)
		}
		if got := published.Schema().Named(); !slices.Equal(got, []string{"user", "item", "item×user"}) {
			t.Errorf("fields %q", got)
		}
		scorer := newScorer(ch.Model, ch.Vocabulary)
		want := make([]float64, 1)
		for i := range events[8000:8100] {
			ev := &events[8000+i]
			scorer.outputs(want, ev)
			if n := scorer.names(ev); n.Total != 2 {
				t.Fatalf("%+v names: a cross is no name of an event", n)
			}
			in := InputOf(&c.schema, ev)
			if p, err := published.Predict(&in); err != nil || !closeTo(p.Outputs[0], want[0]) && p.Outputs[0] != want[0] {
				t.Fatalf("a consumer says %v, %v, the refit %g", p.Outputs, err, want)
			}
		}
		again, err := FromSnapshot(m, published)
		if err != nil {
			t.Fatal(err)
		}
		for i := range again.Golden {
			if !slices.Equal(again.Golden[i].Categorical, ch.Golden[i].Categorical) {
				t.Errorf("golden event %d: %q after a restart, %q before", i, again.Golden[i].Categorical, ch.Golden[i].Categorical)
			}
		}
	}
	if losses[true] > 0.7*losses[false] {
		t.Errorf("RMSE %.3f with the cross, %.3f without", losses[true], losses[false])
	}
}
