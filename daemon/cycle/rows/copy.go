package rows

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
)

// CopyOf returns a copy of an event that shares nothing with it but names.
func CopyOf(ev *event.Event) *event.Event {
	out := *ev
	out.Categorical, out.Numeric, out.Multi = slices.Clone(ev.Categorical), slices.Clone(
		ev.Numeric), make([][]string, len(ev.Multi))
	for f := range ev.Multi {
		out.Multi[f] = slices.Clone(ev.Multi[f])
	}
	return &out
}
