package rows

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
)

// Counted says what of an event is learned; nil is all of it.
type Counted struct {
	Shared bool   // what all events have in common: constants, weights of numbers, losses by which it is chosen
	None   bool   // nothing is: the event came before
	Held   []bool // names whose rows learn nothing: of categorical fields, then of lists in order; nil for none
	Own    []bool // categorical fields whose names belong to the entity
	Room   []bool // of held

	Correction *Correction // of the label of an event that came before; nil for none
}

// Correction is an event that was learned, whose label an event of the same identity corrects.
type Correction struct {
	Was     *event.Event // as it was learned; nil in the backlog, which has its payload
	Payload []byte
	Since   int32   // events of all that were learned since
	Ages    []int32 // by place, events of the name that were learned since
}

// IsShared reports whether what all events have in common learns.
func (w *Counted) IsShared() bool { return w == nil || w.Shared && !w.None }

// Holds reports whether the row of a name learns nothing. One that tables have added to a list since learned nothing.
func (w *Counted) Holds(place int) bool {
	return w != nil && w.Held != nil && (place >= len(w.Held) || w.Held[place])
}

// HoldsPair reports whether the weight of a pair of names learns nothing; b is −1 for one name alone. A pair that has
// the entity is its own.
func (w *Counted) HoldsPair(a, b int) bool {
	if b < 0 || w == nil || w.Held == nil {
		return w.Holds(a)
	}
	return (w.Holds(a) || w.Holds(b)) && !w.Own[a] && !w.Own[b]
}

// IsNone reports whether nothing is learned.
func (w *Counted) IsNone() bool { return w != nil && w.None }

// Corrects returns what an event corrects, nil for an event that corrects none.
func (w *Counted) Corrects() *Correction {
	if w == nil {
		return nil
	}
	return w.Correction
}

// IsAll reports whether everything is learned.
func (w *Counted) IsAll() bool { return w == nil || w.IsShared() && w.Held == nil }

// PlaceOfList returns the place of the first name of a list of an event.
func PlaceOfList(ev *event.Event, list int) int {
	place := len(ev.Categorical)
	for _, names := range ev.Multi[:list] {
		place += len(names)
	}
	return place
}

// EachPlace calls yield for the names of an event that it does not lack, with their places.
func EachPlace(ev *event.Event, yield func(place, field int, name string)) {
	for f, name := range ev.Categorical {
		if name != "" {
			yield(f, f, name)
		}
	}
	place := len(ev.Categorical)
	for f, names := range ev.Multi {
		for _, name := range names {
			yield(place, len(ev.Categorical)+f, name)
			place++
		}
	}
}

// Clone returns a copy for the backlog, nil of all.
func (w *Counted) Clone() *Counted {
	if w.IsAll() {
		return nil
	}
	clone := &Counted{Shared: w.Shared, None: w.None, Held: slices.Clone(w.Held), Own: w.Own}
	if c := w.Correction; c != nil {
		clone.Correction = &Correction{Payload: c.Payload, Since: c.Since, Ages: c.Ages}
	}
	return clone
}

// size returns the bytes of a clone.
func (w *Counted) size() int {
	if w == nil {
		return 0
	}
	size := countedBytes + len(w.Held)
	if c := w.Correction; c != nil {
		size += countedBytes + len(c.Payload) + 4*len(c.Ages)
	}
	return size
}

// countedBytes is the measured size of a Counted.
const countedBytes = 104
