package cycle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver/posterior"
)

// manyRows returns a cycle of twice so many names with 20 basis vectors, and what lets it observe 10,000 events that
// touch some 8,000 of them.
func manyRows(b *testing.B, names int) (c *Cycle, observe func()) {
	const k, batch = 20, 10_000
	m := cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels = "regression", 0
		m.Schema.LabelMin, m.Schema.LabelMax = 1, 5
		m.Train.FoldIn.MaxRows, m.Train.MaxFeatures = 2*names, 2*names
		m.Publish.Deltas = config.Deltas{Every: config.Duration(time.Second), MaxRows: 100_000}
	})
	c = newCycle(b, m)
	c.config.Train.Refit = "variational"
	r := rand.New(rand.NewPCG(1, 1))
	v := &encode.Vocabulary{Names: make([][]string, 2), Schema: &c.schema}
	for f := range v.Names {
		for i := range names {
			v.Names[f] = append(v.Names[f], fmt.Sprintf("%d-%d", f, i))
		}
	}
	v.Number()
	state := posterior.New(posterior.Gaussian, 1, k, v.Field, 2, posterior.PriorFor(posterior.Gaussian, 1))
	for i := range state.Mean {
		state.Mean[i] = 0.1 * r.NormFloat64()
	}
	c.Install(
		&fitted.Fitted{
			Model:      state.Model(),
			Vocabulary: v,
			Target:     c.target,
			Posterior:  state,
			Version:    report.Version{Sweeps: 1},
		},
	)
	events := make([]event.Event, batch)
	return c, func() {
		for i := range events {
			events[i] = event.Event{Label: float64(1 + r.IntN(5)), Weight: 1,
				Categorical: []string{v.Names[0][r.IntN(5000)], v.Names[1][r.IntN(5000)]}}
		}
		observeAll(c, events)
	}
}

// BenchmarkTakeDelta makes, encodes and publishes deltas of 10,000 events that touch some 8,000 of 100,000 rows with 20
// basis vectors. Of rows that nobody touched next to nothing is copied.
func BenchmarkTakeDelta(b *testing.B) {
	c, observe := manyRows(b, 50_000)
	c.NextUpdate()
	c.publisher.comparison.N = 1
	u, reason := c.NextUpdate()
	if u == nil {
		b.Fatal(reason)
	}
	c.publisher.PublishUpdate(u)
	rows, bytes := 0, 0
	for b.Loop() {
		b.StopTimer()
		observe()
		c.publisher.comparison,
			c.publisher.updates = updates.UpdateComparison{Scale: evaluate.Fading{Rate: updates.UpdateFade}}, true
		c.publisher.deltas.Widened = "" // labels that nothing explains raise an alarm at last
		b.StartTimer()
		if whole := c.TakeDelta(time.UnixMilli(1)); whole != "" {
			b.Fatal(whole)
		}
		d := *c.publisher.Delta()
		frame, err := d.Encode(c.publisher.Following().Shape(), (*format.Signer)(nil))
		if err != nil {
			b.Fatal(err)
		}
		c.publisher.PublishDelta()
		rows, bytes = rows+len(d.Columns), bytes+len(frame)
	}
	b.ReportMetric(float64(rows)/float64(b.N), "rows/op")
	b.ReportMetric(float64(bytes)/float64(rows), "bytes/row")
}

// BenchmarkLive has the live model of 1,000,000 names after 10,000 more events, as a copy and sharing what has not
// changed.
func BenchmarkLive(b *testing.B) {
	for _, way := range []string{"copied", "shared"} {
		b.Run(way, func(b *testing.B) {
			c, observe := manyRows(b, 500_000)
			if _, _, err := c.Live(time.UnixMilli(1), time.Time{}, ""); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.StopTimer()
				observe()
				if way == "copied" {
					c.publisher.endLive()
				}
				b.StartTimer()
				if _, _, err := c.Live(time.UnixMilli(1), time.Time{}, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkForms copies the live model of 1,000,000 names for an update, in all variants, while Observe waits: the
// fold-in, and its blend with the one from before a change.
func BenchmarkForms(b *testing.B) {
	for _, blend := range []bool{false, true} {
		b.Run(fmt.Sprint("blend=", blend), func(b *testing.B) {
			c, observe := manyRows(b, 500_000)
			observe()
			before := experts.NewExpert(experts.PartBefore, c.target, c.ensemble.newLearner(c.champion, nil))
			c.ensemble.experts = append(c.ensemble.experts, before)
			observe()
			if c.ensemble.stacked.Squares = (evaluate.Fading{Rate: mixture.MixtureFade, N: 1}); !blend {
				c.ensemble.stacked = nil
			}
			for b.Loop() {
				if forms := c.ensemble.candidates(true); (forms[mixture.FormBlend].Model != nil) != blend {
					b.Fatal("other forms")
				}
			}
		})
	}
}
