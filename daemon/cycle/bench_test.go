package cycle

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// BenchmarkLearn measures the cost of one event: scored by what consumers have, by the mixture and all of its parts,
// and learned, by Observe or in runs of ObserveAll. The first two fields are entities, 1,000 and 500 of them; the
// others have 20 names each. An operation is one event.
func BenchmarkLearn(b *testing.B) {
	for _, test := range []struct {
		task   string
		fields int
		run    int
	}{{"ordinal", 2, 1}, {"ordinal", 2, 256}, {"regression", 2, 1}, {"regression", 2, 256}, {"binary", 2, 1}, {"binary", 2,
		256}, {"ordinal", 7, 1},
		{"regression", 7, 1}, {"regression", 10, 1}, {"regression", 10, 256}, {"binary", 10, 1}, {"binary", 10, 256}} {
		b.Run(fmt.Sprintf("%s/fields=%d/run=%d", test.task, test.fields, test.run), func(b *testing.B) {
			m := cycletest.RatingsModel(func(m *config.Model) {
				m.Schema = config.Schema{Task: test.task, Label: "y", TimeUnit: "ms"}
				switch test.task {
				case "ordinal":
					m.Schema.Levels = 5
				case "regression":
					m.Schema.LabelMin, m.Schema.LabelMax = 1, 5
				}
				for f := range test.fields {
					m.Schema.Categorical = append(m.Schema.Categorical, fmt.Sprint("f", f))
				}
				m.Train.MaxBasis, m.Evaluate.Window, m.Train.Threads = 8, 20_000, 1
			})
			events := manyNames(test.fields, 20_000, test.task == "binary")
			c := newCycle(b, m)
			observeAll(c, events[:5000])
			ch, err := c.Refit(b.Context(), sampleOf(events[:5000]))
			if err != nil {
				b.Fatal(err)
			}
			c.Install(ch)
			i := 5000
			var run []Observation
			b.ReportAllocs()
			for b.Loop() {
				if i++; i >= len(events) {
					i = 5000
				}
				events[i].Time += int64(len(events)) // what comes again with its time is a copy, and is not learned
				if test.run == 1 {
					c.Observe(&events[i], true, rows.Position{}, nil, nil)
				} else if run = append(run, Observation{Event: &events[i], Learn: true}); len(run) == test.run {
					c.ObserveAll(run, nil)
					run = run[:0]
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkLearnWithin measures what bounds on what one entity, weight or identity counts cost an event of ratings that
// is learned, against none. An operation is one event, of which a run is observed at once.
func BenchmarkLearnWithin(b *testing.B) {
	const run = 256
	for _, test := range []struct {
		bound  string
		change func(m *config.Model)
	}{
		{"none", func(m *config.Model) { m.Train.Cap.Share = 0 }},
		{"cap", func(*config.Model) {}},
		{"weights", func(m *config.Model) { m.Train.Cap.Share, m.Schema.Weight = 0, "w" }},
		{"identity", func(m *config.Model) { m.Train.Cap.Share, m.Schema.Identity = 0, "id" }},
	} {
		b.Run(test.bound, func(b *testing.B) {
			m := cycletest.RatingsModel(func(m *config.Model) {
				m.Train.MaxBasis, m.Evaluate.Window, m.Train.Threads = 8, 20_000, 1
				test.change(m)
			})
			events, r := manyNames(2, 20_000, false), rand.New(rand.NewPCG(9, 2))
			c := newCycle(b, m)
			observeAll(c, events[:5000])
			ch, err := c.Refit(b.Context(), sampleOf(events[:5000]))
			if err != nil {
				b.Fatal(err)
			}
			c.Install(ch)
			i := 5000
			var all []Observation
			for b.Loop() {
				if i++; i >= len(events) {
					i = 5000
				}
				ev := events[i]
				switch test.bound {
				case "weights":
					ev.Weight = r.ExpFloat64()
				case "identity":
					ev.Identity = fmt.Sprint(r.Uint64())
				}
				if all = append(all, Observation{Event: &ev, Learn: true}); len(all) == run {
					c.ObserveAll(all, nil)
					all = all[:0]
				}
			}
		})
	}
}

// manyNames draws events of two fields with tastes and some more that say little.
func manyNames(fields, n int, binary bool) []event.Event {
	r := rand.New(rand.NewPCG(9, 1))
	sizes := []int{1000, 500}
	for len(sizes) < fields {
		sizes = append(sizes, 20)
	}
	bias := make([][]float64, fields)
	for f, size := range sizes {
		for range size {
			bias[f] = append(bias[f], r.NormFloat64()/float64(1+f))
		}
	}
	events := make([]event.Event, n)
	for i := range events {
		y, names := 3+0.5*r.NormFloat64(), make([]string, fields)
		for f := range names {
			k := r.IntN(sizes[f])
			y, names[f] = y+0.5*bias[f][k], fmt.Sprint("n", k)
		}
		label := min(max(float64(int(y+0.5)), 1), 5)
		if binary {
			label = 0
			if y > 3 {
				label = 1
			}
		}
		events[i] = event.Event{Label: label, Weight: 1, Time: int64(i), Categorical: names}
	}
	return events
}
