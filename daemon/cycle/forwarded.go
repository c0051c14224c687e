package cycle

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
)

// knows reports whether the live model has an event already: a refit can have learned it from the sample before it is
// forwarded. c.mu is held.
func (c *Cycle) knows(p Position) bool {
	return c.Forwarded && p.Offset < c.known.next(p.Topic, p.Partition)
}

// next returns how far a partition is reached.
func (r *reached) next(topic string, partition int32) int64 {
	for i := range r.cut {
		if c := &r.cut[i]; c.Partition == partition && c.Topic == topic {
			return c.Next
		}
	}
	return 0
}

// reach is add of all events before a cut.
func (r *reached) reach(cut []report.Cut, watermark int64) {
	for _, c := range cut {
		if c.Next > 0 {
			r.add(Position{c.Topic, c.Partition, c.Next - 1}, &event.Event{Time: watermark})
		}
	}
}

// Reach says up to where forwarded events were observed: what comes before a cut and was not observed is no event, or
// was left out where it was read.
func (c *Cycle) Reach(cut []report.Cut, watermark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.reach(cut, watermark)
	if c.followed != nil || c.making != nil {
		c.reached.reach(cut, watermark)
	}
}

// Recreated says that offsets of a partition begin anew: its topic is another one of the same name.
func (c *Cycle) Recreated(topic string, partition int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.known.cut {
		if of := &c.known.cut[i]; of.Topic == topic && of.Partition == partition {
			of.Next = 0
		}
	}
}

// Known returns up to which events the live model has learned, those of its refit included, and the newest event time
// of these in milliseconds since 1970. It is for a cycle of forwarded events.
func (c *Cycle) Known() (cut []report.Cut, watermark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.known.cut), c.known.watermark
}
