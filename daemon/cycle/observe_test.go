package cycle

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// BenchmarkObserve scores and learns events with a version that was refitted on those before: ratings and binary labels
// of two names, and a binary label of two numbers.
func BenchmarkObserve(b *testing.B) {
	clicks, clicked := cycletest.RatingsModel(
		func(m *config.Model) { m.Schema.Task, m.Schema.Levels, m.Train.Loss = "binary", 0, "binary_logistic" },
	), cycletest.Stream(3, 4000)
	for i := range clicked {
		clicked[i].Label = float64(int(clicked[i].Label) / 4)
	}
	for _, test := range []struct {
		name   string
		model  *config.Model
		events []event.Event
	}{{"ratings", cycletest.RatingsModel(nil), cycletest.Stream(3, 4000)}, {"clicks", clicks, clicked}, {"binary",
		switchModel(), cycletest.Numbers(3, 4000)}} {
		b.Run(test.name, func(b *testing.B) {
			c := newCycle(b, test.model)
			observeAll(c, test.events[:2000])
			ch, err := c.Refit(b.Context(), sampleOf(test.events[:2000]))
			if err != nil {
				b.Fatal(err)
			}
			c.Install(ch)
			rest := test.events[2000:]
			b.ResetTimer()
			for i := range b.N {
				c.Observe(&rest[i%len(rest)], i%10 > 0, rows.Position{}, nil, nil)
			}
		})
	}
}
