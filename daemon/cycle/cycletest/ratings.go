package cycletest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// RatingsModel is a small ordinal model of user and item.
func RatingsModel(change func(*config.Model)) *config.Model {
	m := config.DefaultModel()
	m.Name = "ratings"
	m.Input.Topics = []string{"ratings"}
	m.Schema = config.Schema{
		Task:        "ordinal",
		Label:       "rating",
		Levels:      5,
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	m.Train.MaxBasis = 4
	m.Evaluate.Window = 500
	m.Publish.Gate.MinRows = 20
	if change != nil {
		change(&m)
	}
	m.Resolve()
	return &m
}

// Stream draws events with planted interactions between users and items.
func Stream(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 1))
	const users, items, k = 60, 40, 2
	h := make([]float64, (users+items)*k)
	for i := range h {
		h[i] = r.NormFloat64()
	}
	events := make([]event.Event, n)
	for i := range events {
		u, v := r.IntN(users), r.IntN(items)
		z := 3 + 0.3*r.NormFloat64()
		for c := range k {
			z += 0.8 * h[u*k+c] * h[(users+v)*k+c]
		}
		events[i] = event.Event{
			Label:       math.Round(min(max(z, 1), 5)),
			Weight:      1,
			Time:        int64(i),
			Categorical: []string{fmt.Sprint("u", u), fmt.Sprint("i", v)},
		}
	}
	return events
}

// Numbers draws binary events whose label is a product of the inputs, so that only an interaction explains it.
func Numbers(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 2))
	events := make([]event.Event, n)
	for i := range events {
		a, b := r.NormFloat64(), 10+3*r.NormFloat64()
		events[i] = event.Event{Weight: 1, Numeric: []float64{a, b}}
		if a*(b-10) > 0 {
			events[i].Label = 1
		}
	}
	return events
}
