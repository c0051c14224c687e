package updates

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
)

// Next returns how far a partition is reached.
func (r *Frontier) Next(topic string, partition int32) int64 {
	for i := range r.Cut {
		if c := &r.Cut[i]; c.Partition == partition && c.Topic == topic {
			return c.Next
		}
	}
	return 0
}

// Advance is add of all events before a cut.
func (r *Frontier) Advance(cut []report.Cut, watermark int64) {
	for _, c := range cut {
		if c.Next > 0 {
			r.Add(rows.Position{Topic: c.Topic, Partition: c.Partition, Offset: c.Next - 1},
				&event.Event{Time: watermark})
		}
	}
}
