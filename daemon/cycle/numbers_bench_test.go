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

// BenchmarkLearnNumbers observes events of numbers alone, without a refit, by Observe or in runs of ObserveAll: two
// numbers and four classes, seven and two, sixteen and 26, and a regression of seven. An operation is one event.
func BenchmarkLearnNumbers(b *testing.B) {
	for _, s := range []struct {
		d, classes int // no classes: a regression
	}{{2, 4}, {7, 2}, {16, 26}, {7, 0}} {
		for _, length := range []int{1, 256} {
			b.Run(fmt.Sprintf("%dx%d/run=%d", s.d, s.classes, length), func(b *testing.B) {
				m, events := numberEvents(s.d, s.classes, 20_000)
				c, err := New(m, nil)
				if err != nil {
					b.Fatal(err)
				}
				observeAll(c, events)
				var run []Observation
				i := 0
				for b.Loop() {
					if i++; i == len(events) {
						i = 0
					}
					events[i].Time += int64(len(events)) // else it is a copy
					if length == 1 {
						c.Observe(&events[i], true, rows.Position{}, nil, nil)
					} else if run = append(run, Observation{Event: &events[i], Learn: true}); len(run) == length {
						c.ObserveAll(run, nil)
						run = run[:0]
					}
				}
			})
		}
	}
}

// numberEvents draws events of d normal numbers. Their sum of squares decides the class; without classes the label is a
// line in them, a product and noise.
func numberEvents(d, classes, n int) (*config.Model, []event.Event) {
	r := rand.New(rand.NewPCG(1, uint64(d)))
	m := cycletest.NumericModel(d, max(classes, 2))
	if classes == 0 {
		m.Schema.Task, m.Schema.Classes, m.Train.Loss = "regression", nil, "squared"
	}
	events := make([]event.Event, n)
	for i := range events {
		sum, line := 0.0, 0.3*r.NormFloat64()
		x := make([]float64, d)
		for j := range x {
			x[j] = r.NormFloat64()
			sum += x[j] * x[j]
			line += x[j] / float64(1+j)
		}
		events[i] = event.Event{Weight: 1, Numeric: x}
		if classes == 0 {
			events[i].Label = line + x[0]*x[1]
		} else {
			events[i].Classes = []string{m.Schema.Classes[int(sum*4)%classes]}
		}
	}
	return m, events
}
