package cycle

import (
	"slices"

	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
)

// knows reports whether the live model has an event already: a refit can have learned it from the sample before it is
// forwarded. c.mu is held.
func (c *Cycle) knows(p rows.Position) bool {
	return c.Forwarded && p.Offset < c.lineage.known.Next(p.Topic, p.Partition)
}

// Reach says up to where events were read: what comes before a cut and was not observed is no event, or is not learned
// from one by one.
func (c *Cycle) Reach(cut []report.Cut, watermark int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lineage.known.Advance(cut, watermark)
	if c.publisher.deltas != nil || c.publisher.pending != nil {
		c.publisher.frontier.Advance(cut, watermark)
	}
}

// Recreated says that offsets of a partition begin anew: its topic is another one of the same name.
func (l *lineage) Recreated(topic string, partition int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.known.Cut {
		if of := &l.known.Cut[i]; of.Topic == topic && of.Partition == partition {
			of.Next = 0
		}
	}
}

// Known returns up to which events the live model has learned, those of its refit included, and the newest event time
// of these in milliseconds since 1970. It is for a cycle of forwarded events.
func (l *lineage) Known() (cut []report.Cut, watermark int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.known.Cut), l.known.Watermark
}
