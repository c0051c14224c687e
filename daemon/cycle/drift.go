package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// driftTest watches values in [−1, 1] whose mean, given all before, is driftMargin at most as long as nothing changes, and alarms when they rise: a
// Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo 2022). From every moment on it bets shares of its wealth that the mean is above the margin,
// and adds up what the bets have come to: e ← (e + 1)·(1 + bet·(x − margin)), the mean over the bets. e − n is a supermartingale as long as nothing
// changes, so that in n values the chance of a false alarm is n/driftAlarm at most, whatever their distribution and dependence. O(1) a value.
type driftTest struct{ wealth [4]float64 }

// The margin keeps small lasting agreement, of which a model that is never quite right has some, from adding up to an alarm. A false alarm comes once in
// driftAlarm values at most.
const (
	driftMargin = 0.05
	driftAlarm  = 1e9
)

var driftBets = [4]float64{0.05, 0.1, 0.2, 0.4}

// add takes up a value and reports an alarm, after which the test begins anew.
func (d *driftTest) add(x float64) bool {
	if math.IsNaN(x) {
		return false
	}
	x = min(max(x, -1), 1)
	sum := 0.0
	for i, bet := range driftBets {
		d.wealth[i] = (d.wealth[i] + 1) * (1 + bet*(x-driftMargin))
		sum += d.wealth[i]
	}
	if sum < driftAlarm*float64(len(driftBets)) {
		return false
	}
	*d = driftTest{}
	return true
}

// What an alarm of a field does: what the forgetting versions of its names know is taken back to a share, and the fold-in goes on beside those of the
// refits of the next events, for their rows are from before the change for the most part.
const (
	driftWiden = 0.01
	driftLasts = 50_000
	driftRest  = 20_000 // events after a start, or an alarm of a field, in which it is not tested: a young model fits badly, which looks like a change
)

// driftWatch tests for every categorical field whose names forget whether known ones change: whether the gradients of events by a name's row agree with
// those of its events before (posterior.Agreement). Fields are told apart: where items change the gradients by the rows of users, whose events are of
// different items, do not agree.
type driftWatch struct {
	tests  []driftTest // per categorical field
	rest   []int64     // per categorical field, until which event it is not tested
	names  []string
	losses lossTest // of what is live, for models without a posterior
	calm   int64    // until which event losses are not tested
	events int64    // learned
	alarm  int64    // events at the last alarm, 0 without one
}

// DriftLosses is the group of the drift detector of models without a posterior.
const DriftLosses = "(loss)"

// DriftGroups returns the groups that a model can have alarms of: its categorical fields, or DriftLosses where no name has a posterior.
func DriftGroups(m *config.Model) []string {
	if m.Train.Refit == "variational" {
		return m.Schema.Categorical
	}
	return []string{DriftLosses}
}

func newDriftWatch(names []string) driftWatch {
	w := driftWatch{tests: make([]driftTest, len(names)), rest: make([]int64, len(names)), names: names, calm: driftRest - lossBlock*lossReference}
	for f := range w.rest {
		w.rest[f] = driftRest
	}
	return w
}

// DriftAlarm is an alarm of the drift detector.
type DriftAlarm struct {
	Event int64  // how many had been learned since the start
	Group string // categorical field whose names change, or DriftLosses
}

// maxAlarms bounds the alarms that wait to be taken.
const maxAlarms = 1000

// alarm is a DriftAlarm with the categorical field that it is of, -1 for DriftLosses.
type alarm struct {
	DriftAlarm
	field int32
}

// learned takes up the event that the fold-in learned last, and widens the rows of a field whose test alarms. It returns these alarms.
func (w *driftWatch) learned(l *posteriorLearner) (alarms []alarm) {
	w.events++
	for _, a := range l.foldIn.Agreements() {
		if l.vocab == nil || w.events < w.rest[a.Field] || !w.tests[a.Field].add(a.Cosine) {
			continue // without a refit there are neither fitted precisions nor interactions: what is left over agrees for long
		}
		w.alarm, w.rest[a.Field] = w.events, w.events+driftRest
		alarms = append(alarms, alarm{DriftAlarm{w.events, w.names[a.Field]}, a.Field})
		l.foldIn.Widen(a.Field, driftWiden)
	}
	return alarms
}

// lost takes up an event with the loss of what was live, for a model without a posterior, and reports an alarm.
func (w *driftWatch) lost(loss float64) bool {
	if w.events++; w.events < w.calm || !w.losses.add(loss) {
		return false
	}
	w.alarm, w.calm = w.events, w.events+driftRest-lossBlock*lossReference
	return true
}

// lasts reports whether a change is so recent that most rows of a refit are older.
func (w *driftWatch) lasts() bool { return w.alarm > 0 && w.events-w.alarm < driftLasts }

// alarmed notes an alarm on an event that all fold-ins have learned, and widens the rows of the others.
func (c *Cycle) alarmed(a alarm, ev *event.Event) {
	for _, beside := range c.companions {
		if p, ok := beside.learner.(*posteriorLearner); ok && a.field >= 0 {
			p.foldIn.Widen(a.field, driftWiden)
		}
	}
	if a.field >= 0 {
		c.widened(a.Group)
	}
	c.progressive.alarmed(a.Group, ev.Time)
	if len(c.alarms) < maxAlarms {
		c.alarms = append(c.alarms, a.DriftAlarm)
	}
}

// DriftAlarms returns the alarms of the drift detector since the last call.
func (c *Cycle) DriftAlarms() []DriftAlarm {
	c.mu.Lock()
	defer c.mu.Unlock()
	alarms := c.alarms
	c.alarms = nil
	return alarms
}
