package cycletest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// ClassesModel is a small multi-class or multilabel model of user, item and the tags of the item.
func ClassesModel(task event.Task, change func(*config.Model)) *config.Model {
	return RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.Classes = string(task), 0, []string{"a", "b", "c"}
		m.Schema.Multi = []string{"tags"}
		if change != nil {
			change(m)
		}
	})
}

// ClassStream draws events whose classes depend on interactions between user and item. Users from the middle of the
// stream on are new.
func ClassStream(task event.Task, n int) []event.Event {
	r := rand.New(rand.NewPCG(5, 1))
	const users, items, k = 60, 30, 2
	h, v := make([]float64, (users+items)*k), make([]float64, 3*k)
	for i := range h {
		h[i] = 1.5 * r.NormFloat64()
	}
	for i := range v {
		v[i] = 1.5 * r.NormFloat64()
	}
	events := make([]event.Event, n)
	for i := range events {
		u, at := r.IntN(users/2), r.IntN(items)
		if 2*i >= n {
			u += users / 2
		}
		ev := event.Event{Weight: 1, Time: int64(i), Categorical: []string{fmt.Sprint("u", u), fmt.Sprint("i", at)},
			Multi: [][]string{{fmt.Sprint("t", at%3), fmt.Sprint("s", at%5)}}}
		best, class := math.Inf(-1), ""
		for c, name := range []string{"a", "b", "c"} {
			o := 0.0
			for b := range k {
				o += v[c*k+b] * h[u*k+b] * h[(users+at)*k+b]
			}
			if o += 0.3 * r.NormFloat64(); o > best {
				best, class = o, name
			}
			if task == event.Multilabel && o > 0 {
				ev.Classes = append(ev.Classes, name)
			}
		}
		if task == event.Multiclass {
			ev.Classes = []string{class}
		}
		events[i] = ev
	}
	return events
}
