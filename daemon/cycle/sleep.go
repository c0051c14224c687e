package cycle

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// sleepState says when experts are looked at that may sleep. It is guarded by Cycle.mu, and read under Cycle.reportMu.
type sleepState struct {
	some    bool  // experts may sleep
	events  int   // since they were looked at
	alarmed bool  // since then: those that are asleep wake
	slept   int64 // events that an expert has slept through, over all experts
}

// startSleep has the mixture watch the experts that may sleep.
func (e *ensemble) startSleep() {
	if e.mixture == nil || e.config.LeavesOut(experts.ChoiceSleep) {
		return
	}
	for _, x := range e.experts {
		if x.Lasting && x.MaySleep() && e.mixture.MaySleep(x.Name) {
			e.sleep.some = true
		}
	}
}

// untilSleepCheck returns how many events may be observed before experts are looked at: a chunk ends there.
func (e *ensemble) untilSleepCheck() int {
	if !e.sleep.some {
		return math.MaxInt
	}
	return mixture.SleepCheck - e.sleep.events
}

// checkSleep looks at the experts where that is due after so many more events, has those fall asleep on which no
// prediction depends, and wakes those that it is time to try again. The part that updates are made of, needed, stays
// awake. No lane may be at work.
func (e *ensemble) checkSleep(events int, needed string) {
	if !e.sleep.some {
		return
	}
	for _, x := range e.experts {
		if x.Asleep {
			e.sleep.slept += int64(events)
		}
	}
	if e.sleep.events += events; e.sleep.events < mixture.SleepCheck {
		return
	}
	e.sleep.events = 0
	e.mixture.CheckSleep(e.sleep.alarmed, needed, func(name string, asleep bool) { e.expertOf(name).SetAsleep(asleep) })
	e.sleep.alarmed = false
}

// SleptEvents returns how many events experts have slept through since the start, over all experts.
func (e *ensemble) SleptEvents() int64 {
	e.reportMu.Lock()
	defer e.reportMu.Unlock()
	return e.sleep.slept
}
