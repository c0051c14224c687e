package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// admit decides what of an observation is learned. An event that does not have the fields of the schema is not counted:
// what it makes observe do is reported there. c.mu is held, and it is called in the order of the events.
func (c *Cycle) admit(o *Observation, to *rows.Counted) {
	o.counts = nil
	if !o.Learn || len(o.Event.Categorical) != len(c.ensemble.cap.Own) || c.knows(o.Position) {
		return
	}
	position := o.Position
	if o.Stage != Whole { // several events may be learned at one, none of which is a negative
		position = rows.Position{}
	}
	c.ensemble.cap.Take(to, o.Event, position)
	o.counts = to
}

// Held returns how many events were not learned in full since the start, for a reason.
func (e *ensemble) Held(why admission.Held) int64 { return e.cap.Held[why].Load() }

// weigh has events count with their limited weights until restore is called.
func (e *ensemble) weigh(events []Observation) (restore func()) {
	if e.weights == nil {
		return func() {}
	}
	type weighed struct {
		ev     *event.Event
		weight float64
	}
	var heavy []weighed
	for i := range events {
		ev := events[i].Event
		if w := e.weights.Take(ev.Weight); w != ev.Weight {
			heavy = append(heavy, weighed{ev, ev.Weight})
			ev.Weight = w
		}
	}
	return func() {
		for _, h := range heavy {
			h.ev.Weight = h.weight
		}
	}
}
