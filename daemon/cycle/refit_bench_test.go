package cycle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
)

// BenchmarkRefitNumbers refits a model of numbers and many classes from nothing, and again from there: 2,000 training rows.
func BenchmarkRefitNumbers(b *testing.B) {
	for _, s := range []struct{ d, classes, spots int }{{21, 40, 1}, {21, 40, 3}, {2, 4, 40}} {
		b.Run(fmt.Sprintf("%dx%d/spots=%d", s.d, s.classes, s.spots), func(b *testing.B) {
			m := numericModel(s.d, s.classes)
			m.Train.MaxBasis = 20
			events := spots(1, 2500, s.d, s.classes, s.spots)
			b.ResetTimer()
			for range b.N {
				c, err := New(m, time.Now)
				if err != nil {
					b.Fatal(err)
				}
				ch, err := c.Refit(b.Context(), sampleOf(events))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(*ch.Version.Gate.Accuracy), "accuracy")
			}
		})
	}
}

// spots draws events of d numbers about places, of which every class has some.
func spots(seed uint64, n, d, classes, each int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 21))
	places := make([][]float64, classes*each)
	for p := range places {
		for range d {
			places[p] = append(places[p], 1.5*r.NormFloat64())
		}
	}
	events := make([]event.Event, n)
	for i := range events {
		p := r.IntN(len(places))
		x := make([]float64, d)
		for f := range x {
			x[f] = places[p][f] + 0.7*r.NormFloat64()
		}
		events[i] = event.Event{Weight: 1, Numeric: x, Classes: []string{fmt.Sprint("c", p%classes)}}
	}
	return events
}
