package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/drift"
)

// alarmed notes an alarm on an event, for which experts have widened their rows.
func (c *Cycle) alarmed(a drift.Alarm, ev *event.Event) {
	if a.Field >= 0 {
		c.publisher.widened(a.Group)
	}
	c.ensemble.sleep.alarmed = true
	c.progress.progressive.Alarmed(a.Group, ev.Time)
	if len(c.watch.alarms) < drift.MaxAlarms {
		c.watch.alarms = append(c.watch.alarms, a.DriftAlarm)
	}
}

// DriftAlarms returns the alarms of the drift detector since the last call.
func (w *watch) DriftAlarms() []drift.DriftAlarm {
	w.mu.Lock()
	defer w.mu.Unlock()
	alarms := w.alarms
	w.alarms = nil
	return alarms
}

// watch has the drift detectors and the alarms that nobody has taken. It is guarded by Cycle.mu.
type watch struct {
	*common

	drift  drift.Watch
	alarms []drift.DriftAlarm // that nobody has taken
}
