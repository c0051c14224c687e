package cycletest

import (
	"fmt"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// TripsModel is a model of fares, most of which a number says.
func TripsModel() *config.Model {
	return RatingsModel(func(m *config.Model) {
		m.Schema = config.Schema{
			Task:        "regression",
			Label:       "fare",
			TimeUnit:    "ms",
			Categorical: []string{"from", "to", "driver"},
			Numeric:     []string{"km"},
		}
	})
}

// TripNoise is the standard deviation of what nothing says of a fare.
const TripNoise = 0.8

// Trips draws events whose label is a number far from 0, with a long tail, and something of names, of which drivers
// come a few times.
func Trips(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 8))
	events := make([]event.Event, n)
	for i := range events {
		from, to, km := r.IntN(40), r.IntN(40), 3+5*r.ExpFloat64()
		events[i] = event.Event{
			Weight:      1,
			Time:        int64(i),
			Categorical: []string{fmt.Sprint("z", from), fmt.Sprint("z", to), fmt.Sprint("d", r.IntN(n/3))},
			Numeric: []float64{
				km,
			},
			Label: 2.5 + 1.8*km + 0.4*float64(from%7) + 0.3*float64(to%5) + TripNoise*r.NormFloat64(),
		}
	}
	return events
}
