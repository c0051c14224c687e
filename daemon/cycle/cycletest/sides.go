package cycletest

import (
	"fmt"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// SideModel is RatingsModel with fields that are functions of user and item.
func SideModel(change func(*config.Model)) *config.Model {
	return RatingsModel(func(m *config.Model) {
		m.Schema.Categorical = []string{"user", "item", "age", "job", "year"}
		if change != nil {
			change(m)
		}
	})
}

// WithSides adds the side fields to events of Stream.
func WithSides(events []event.Event) []event.Event {
	for i := range events {
		var u, v int
		fmt.Sscanf(events[i].Categorical[0], "u%d", &u)
		fmt.Sscanf(events[i].Categorical[1], "i%d", &v)
		events[i].Categorical = append(events[i].Categorical[:2:2], fmt.Sprint("a", u%7), fmt.Sprint("j", u%11),
			fmt.Sprint("y", v%5))
	}
	return events
}
