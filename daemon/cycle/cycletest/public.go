package cycletest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// PublicModel is a model of ratings of so many users that each is an entity.
func PublicModel(change func(*config.Model)) *config.Model {
	return RatingsModel(func(m *config.Model) {
		m.Evaluate.Window = 5000
		if change != nil {
			change(m)
		}
	})
}

// Public draws ratings of 400 users and 60 items.
func Public(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 48))
	users, items := make([]float64, 400), make([]float64, 60)
	for _, list := range [][]float64{users, items} {
		for i := range list {
			list[i] = 0.5 * r.NormFloat64()
		}
	}
	events := make([]event.Event, n)
	for i := range events {
		u, v := r.IntN(len(users)), r.IntN(len(items))
		if v == 7 && r.IntN(8) > 0 {
			v = 8
		}
		z := 3 + users[u] + items[v] + 0.5*r.NormFloat64()
		events[i] = event.Event{
			Label:       math.Round(min(max(z, 1), 5)),
			Weight:      1,
			Time:        int64(i),
			Categorical: []string{fmt.Sprint("u", u), fmt.Sprint("i", v)},
		}
	}
	return events
}
