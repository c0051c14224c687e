package cycle

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
)

// knows reports whether the live model has an event already: a refit can have learned it from the sample before it is
// forwarded. c.mu is held.
func (c *Cycle) knows(p rows.Position) bool {
	return c.Forwarded && p.Offset < c.known.Next(p.Topic, p.Partition)
}

// Reach says up to where forwarded events were observed: what comes before a cut and was not observed is no event, or
// was left out where it was read.
func (c *Cycle) Reach(cut []report.Cut, watermark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Advance(cut, watermark)
	if c.deltas != nil || c.pending != nil {
		c.frontier.Advance(cut, watermark)
	}
}

// Recreated says that offsets of a partition begin anew: its topic is another one of the same name.
func (c *Cycle) Recreated(topic string, partition int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.known.Cut {
		if of := &c.known.Cut[i]; of.Topic == topic && of.Partition == partition {
			of.Next = 0
		}
	}
}

// Known returns up to which events the live model has learned, those of its refit included, and the newest event time
// of these in milliseconds since 1970. It is for a cycle of forwarded events.
func (c *Cycle) Known() (cut []report.Cut, watermark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.known.Cut), c.known.Watermark
}
