package cycle

import (
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// BenchmarkLearnNumbers observes events of numbers alone: two numbers and four classes, and sixteen and 26, without a
// refit.
func BenchmarkLearnNumbers(b *testing.B) {
	for _, s := range []struct {
		name       string
		d, classes int
	}{{"2x4", 2, 4}, {"7x2", 7, 2}, {"16x26", 16, 26}} {
		b.Run(s.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, uint64(s.d)))
			events := make([]event.Event, 20_000)
			m := cycletest.NumericModel(s.d, s.classes)
			for i := range events {
				sum := 0.0
				x := make([]float64, s.d)
				for j := range x {
					x[j] = r.NormFloat64()
					sum += x[j] * x[j]
				}
				events[i] = event.Event{
					Weight:  1,
					Numeric: x,
					Classes: []string{m.Schema.Classes[int(sum*4)%s.classes]},
				}
			}
			c, err := New(m, nil)
			if err != nil {
				b.Fatal(err)
			}
			for i := range events {
				c.Observe(&events[i], true, rows.Position{}, nil, nil)
			}
			b.ResetTimer()
			for i := range b.N {
				c.Observe(&events[i%len(events)], true, rows.Position{}, nil, nil)
			}
		})
	}
}
