package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/experts"
)

// alarmed notes an alarm on an event that all fold-ins have learned, and widens the rows of the others.
func (c *Cycle) alarmed(a drift.Alarm, ev *event.Event) {
	for _, beside := range c.experts {
		if p, ok := beside.Learner.(*experts.FoldIn); ok && a.Field >= 0 {
			p.FoldIn.Widen(a.Field, drift.DriftWiden)
		}
	}
	if a.Field >= 0 {
		c.widened(a.Group)
	}
	c.progressive.Alarmed(a.Group, ev.Time)
	if len(c.alarms) < drift.MaxAlarms {
		c.alarms = append(c.alarms, a.DriftAlarm)
	}
}

// DriftAlarms returns the alarms of the drift detector since the last call.
func (c *Cycle) DriftAlarms() []drift.DriftAlarm {
	c.mu.Lock()
	defer c.mu.Unlock()
	alarms := c.alarms
	c.alarms = nil
	return alarms
}
