package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// gappy draws events of two categorical fields, a list and two numbers of which a third lack each of the optional ones:
// item, tags and price.
func gappy(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 4))
	events := make([]event.Event, n)
	for i := range events {
		user, item, tags, age, price := r.IntN(20), r.IntN(15), r.IntN(6), 40+10*r.NormFloat64(), 1000+r.Float64()
		ev := event.Event{
			Weight:      1,
			Time:        int64(i),
			Categorical: []string{fmt.Sprint("u", user), fmt.Sprint("i", item)},
			Multi:       [][]string{[]string{fmt.Sprint("t", tags), "t0"}[:1+min(tags, 1)]},
			Numeric:     []float64{age, price},
		}
		z := 0.3*float64(user%3) - 0.2*float64(tags) + 0.1*(age-40) + 0.2*r.NormFloat64()
		switch r.IntN(3) {
		case 0:
			ev.Categorical[1], ev.Numeric[1] = "", math.NaN()
		case 1:
			ev.Multi[0] = nil
			z += 0.2*float64(item%4) + price - 1000
		default:
			z += 0.2*float64(item%4)*float64(tags) + price - 1000
		}
		ev.Label = z
		events[i] = ev
	}
	return events
}

func gappyModel(change func(*config.Model)) *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) {
		m.Schema = config.Schema{
			Task:        "regression",
			Label:       "y",
			TimeUnit:    "ms",
			Categorical: []string{"user", "item"},
			Multi:       []string{"tags"},
			Numeric:     []string{"age", "price"},
			Optional:    []string{"item", "price", "tags"},
		}
		change(m)
	})
}

// TestAbsentFieldsContributeNothing: training, the live model, its update and the published version agree on events
// that lack optional fields, under both kernels, with a constant and without: such a field adds what a name that nobody
// has seen and a number at its center add.
func TestAbsentFieldsContributeNothing(t *testing.T) {
	numbersOnly := func(m *config.Model) {
		m.Train.FeatureMap = "" // on a map the center of a field is not nothing
		m.Schema.Categorical, m.Schema.Multi, m.Schema.Optional = nil, nil, []string{"price"}
		m.Train.FoldIn.By, m.Evaluate.BaselineBy = nil, ""
	}
	for name, change := range map[string]func(*config.Model){
		"variational": func(m *config.Model) { m.Train.Refit = "variational" },
		"anova":       func(m *config.Model) { m.Train.Kernel, m.Train.Refit = "anova", "output" },
		"homogeneous": func(m *config.Model) { m.Train.Kernel, m.Train.Augment = "homogeneous", "false" },
		"augmented":   func(m *config.Model) { m.Train.Kernel, m.Train.Augment = "homogeneous", "true" },
		"numbers":     numbersOnly,
	} {
		t.Run(name, func(t *testing.T) {
			m := gappyModel(change)
			events := gappy(7, 1200)
			for i := range events {
				if len(m.Schema.Categorical) == 0 {
					events[i].Categorical, events[i].Multi = nil, nil
				}
			}
			c := newCycle(t, m)
			observeAll(c, events[:600])
			ch := mustRefit(t, c, sampleOf(events[:600]))
			c.Install(ch)
			observeAll(c, events[600:])
			for f, names := range ch.Vocabulary.Names {
				if slices.Contains(names, "") {
					t.Errorf("the vocabulary of field %d has a name for what is not there", f)
				}
			}
			if center, scale := ch.Vocabulary.Numeric[1].Center, ch.Vocabulary.Numeric[1].Scale; !(center > 1000 &&
				center < 1001) ||
				!(scale > 0 && scale < 1) {
				t.Errorf("price has the center %g and the scale %g", center, scale)
			}
			if live := c.Progressive().All.Live; live.RMSE == nil || !(float64(*live.RMSE) < 3) {
				t.Errorf("the live model has %+v", live)
			}
			c.ensemble.experts = nil // an update may be made of one
			update := c.Update()
			for _, version := range []*fitted.Fitted{ch, update} {
				published, err := scorer.NewModel(version.Contents(m))
				if err != nil {
					t.Fatal(err)
				}
				agree(t, version, published, events[600:700])
			}
			names := fitted.NewScorer(ch.Model, ch.Vocabulary)
			got, want := make([]float64, 1), make([]float64, 1)
			for i := range events[:100] {
				names.Outputs(got, &events[i])
				if n := names.Names(&events[i]); len(m.Schema.Categorical) > 0 && n.Total != present(&events[i]) {
					t.Errorf("%+v has %d names", events[i], n.Total)
				}
				fitted.NewScorer(update.Model, update.Vocabulary).Outputs(want, &events[i])
				c.ensemble.learner.Outputs(got, &events[i])
				if math.Abs(got[0]-want[0]) > 1e-8*(1+math.Abs(want[0])) {
					t.Fatalf("event %d: live %g, update %g", i, got[0], want[0])
				}
			}
			if _, ok := c.publisher.published.Load().Means.ByName[""]; ok {
				t.Error("the item mean has a mean for no item")
			}
		})
	}
}

func present(ev *event.Event) (n int64) {
	for _, name := range slices.Concat(ev.Categorical, ev.Multi[0]) {
		if name != "" {
			n++
		}
	}
	return n
}

// agree compares what a version says of events with the library, which reads it from what is published.
func agree(t *testing.T, version *fitted.Fitted, published *snapshot.Model, events []event.Event) {
	t.Helper()
	scorer, want := fitted.NewScorer(version.Model, version.Vocabulary), make([]float64, 1)
	absent := 0
	for i := range events {
		ev := events[i]
		scorer.Outputs(want, &ev)
		in := snapshot.Input{Categorical: ev.Categorical, Numeric: ev.Numeric, Multi: ev.Multi}
		p, err := published.Predict(&in)
		if err != nil {
			t.Fatal(err)
		}
		absent += len(p.Absent)
		// The same event with something in each gap that says nothing.
		full := snapshot.Input{
			Categorical: slices.Clone(ev.Categorical),
			Numeric:     slices.Clone(ev.Numeric),
			Multi:       slices.Clone(ev.Multi),
		}
		for f := range full.Categorical {
			if full.Categorical[f] == "" {
				full.Categorical[f] = "never seen"
			}
		}
		for f := range full.Multi {
			if len(full.Multi[f]) == 0 {
				full.Multi[f] = []string{"never seen"}
			}
		}
		for f := range full.Numeric {
			if math.IsNaN(full.Numeric[f]) {
				full.Numeric[f] = version.Vocabulary.Numeric[f].Center
			}
		}
		q, err := published.Predict(&full)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []float64{p.Outputs[0], q.Outputs[0]} {
			if math.Abs(got-want[0]) > 1e-9*(1+math.Abs(want[0])) {
				t.Fatalf("event %d: the library says %v and %v, training %g", i, p.Outputs, q.Outputs, want[0])
			}
		}
		if len(q.Absent) > 0 {
			t.Errorf("%+v lacks %q", full, q.Absent)
		}
	}
	if absent == 0 {
		t.Error("no event lacks anything")
	}
	lacking := snapshot.Input{
		Categorical: append([]string{}, events[0].Categorical...),
		Numeric:     []float64{math.NaN(), 1000},
		Multi:       events[0].Multi,
	}
	if _, err := published.Predict(&lacking); err == nil ||
		!strings.Contains(err.Error(), `missing_field: the event has no field "age"`) {
		t.Errorf("without age: %v", err)
	}
}
