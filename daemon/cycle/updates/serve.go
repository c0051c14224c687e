package updates

import (
	"errors"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// ErrNoChampion is returned before the first model is live.
var ErrNoChampion = errors.New("cycle: there is no champion")

// LiveCopy is the live model as it was returned last. Deltas bring it up to the current live model.
type LiveCopy struct {
	*DeltaStream
	Champion *fitted.Fitted
}

// List takes the slots that were touched, at most limit of each source, for the deltas at hand.
func (f *DeltaStream) List(limit int) {
	for _, s := range f.sources {
		s.Taken = s.touched.Take(s.Taken[:0], limit)
	}
}

// Waits reports whether more slots were touched than were listed.
func (f *DeltaStream) Waits() bool {
	return slices.ContainsFunc(f.sources, func(s *Source) bool { return len(s.touched.List) > 0 })
}

// Unlist ends the lists of what is touched.
func (f *DeltaStream) Unlist() {
	f.Tables.Unfollow(f.changed)
	for _, s := range f.sources {
		s.Slots.Touched = slices.DeleteFunc(s.Slots.Touched, func(t *rows.Touched) bool { return t == s.touched })
	}
}
