package cycletest

import (
	"fmt"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer/event"
)

// Spots draws events of d numbers about places, of which every class has some.
func Spots(seed uint64, n, d, classes, each int) []event.Event {
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
