package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/scorer"
)

// crossModel has labels that depend on pairs of names alone, which no sum of weights of single names says.
func crossModel() *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) {
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
		events[i] = event.Event{
			Label:       labels[u+item] + 0.1*r.NormFloat64(),
			Weight:      1,
			Time:        int64(i),
			Categorical: []string{u, item},
		}
		schema.Complete(&events[i])
	}
	return events
}

// TestCrossIsLearned: with the cross of both fields labels of pairs are learned, in the daemon and by consumers, who do
// not give it; and a restart keeps it.
func TestCrossIsLearned(t *testing.T) {
	tier.NotUnderRace(t)
	losses := make(map[bool]float64)
	for _, crossed := range []bool{false, true} {
		m := crossModel()
		if !crossed {
			m.Schema.Cross = nil
		}
		events := paired(m, 12_000)
		c := newCycle(t, m)
		observeAll(c, events[:8000])
		ch := mustRefit(t, c, sampleOf(events[:8000]))
		c.Install(ch)
		observeAll(c, events[8000:])
		losses[crossed] = float64(*c.Progressive().Window.Live.RMSE)
		if !crossed {
			continue
		}
		ch.Version.Version = 1
		published, err := scorer.NewModel(ch.Contents(m))
		if err != nil {
			t.Fatal(err)
		}
		if got := published.Schema().Named(); !slices.Equal(got, []string{"user", "item", "item×user"}) {
			t.Errorf("fields %q", got)
		}
		scorer := fitted.NewScorer(ch.Model, ch.Vocabulary)
		want := make([]float64, 1)
		for i := range events[8000:8100] {
			ev := &events[8000+i]
			scorer.Outputs(want, ev)
			if n := scorer.Names(ev); n.Total != 2 {
				t.Fatalf("%+v names: a cross is no name of an event", n)
			}
			in := fitted.InputOf(&c.schema, ev)
			if p, err := published.Predict(&in); err != nil ||
				!closeTo(p.Outputs[0], want[0]) && p.Outputs[0] != want[0] {
				t.Fatalf("a consumer says %v, %v, the refit %g", p.Outputs, err, want)
			}
		}
		again, err := fitted.FromSnapshot(m, published)
		if err != nil {
			t.Fatal(err)
		}
		for i := range again.Golden {
			if !slices.Equal(again.Golden[i].Categorical, ch.Golden[i].Categorical) {
				t.Errorf("golden event %d: %q after a restart, %q before", i, again.Golden[i].Categorical,
					ch.Golden[i].Categorical)
			}
		}
	}
	if losses[true] > 0.7*losses[false] {
		t.Errorf("RMSE %.3f with the cross, %.3f without", losses[true], losses[false])
	}
}

// TestCrossOfRarePairs: labels of clicks depend on a few pairs that come again, among many that come once. The cross
// has a linear weight alone, its parts interact as without it, and what its weights carry in sum is not taken for
// noise.
func TestCrossOfRarePairs(t *testing.T) {
	tier.NotUnderRace(t)
	losses := make(map[bool]float64)
	for _, crossed := range []bool{false, true} {
		m := crossModel()
		m.Schema.Task, m.Schema.Categorical, m.Train.Loss = "binary", []string{"user", "item", "hour"}, config.Auto
		if !crossed {
			m.Schema.Cross = nil
		}
		m.Resolve()
		schema := m.Schema.Event()
		r := rand.New(rand.NewPCG(6, 6))
		events := make([]event.Event, 16_000)
		for i := range events {
			u, item, logit := r.IntN(300), r.IntN(150), -1.0
			if r.Float64() < 0.3 { // one of four that this user likes
				item = (7*u + 31*r.IntN(4)) % 150
			}
			if d := (item - 7*u%150 + 150) % 150; d%31 == 0 && d <= 93 {
				logit = 1.5
			}
			names := []string{fmt.Sprint("u", u), fmt.Sprint("i", item), fmt.Sprint(r.IntN(6))}
			events[i] = event.Event{Weight: 1, Time: int64(i), Categorical: names}
			if r.Float64() < 1/(1+math.Exp(-logit)) {
				events[i].Label = 1
			}
			schema.Complete(&events[i])
		}
		c := newCycle(t, m)
		observeAll(c, events[:15_000])
		ch := mustRefit(t, c, sampleOf(events[:15_000]))
		q := evaluate.NewQuality(ch.Target, nil)
		scorer := fitted.NewScorer(ch.Model, ch.Vocabulary)
		output, target := make([]float64, 1), make([]float64, 1)
		for i := range events[15_000:] {
			ev := &events[15_000+i]
			scorer.Outputs(output, ev)
			ch.Target.Encode(target, ev)
			q.Add(ev, output, target)
		}
		losses[crossed] = float64(*q.Metrics().Loss)
		if got := slices.Contains(ch.Version.MainEffects, "item×user"); got != crossed {
			t.Errorf("linear weights alone: %q", ch.Version.MainEffects)
		}
	}
	if losses[true] > 0.98*losses[false] {
		t.Errorf("log loss %.4f with the cross, %.4f without", losses[true], losses[false])
	}
}
