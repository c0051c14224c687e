package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// driftTest watches numbers whose mean, given all before, is at most driftMargin roots of their recent mean square as
// long as nothing changes, and alarms when they rise: a Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo 2022).
// From every moment on it bets that the mean is above the margin, and adds up what the bets have come to:
// e ← (e + 1)·f(bet·(x − margin))/(1 + bet²·driftSpread/2), the mean over the bets, x in units of that root.
// f(y) is 1 + y + y²/2 above 0 and 1/(1 − y + y²/2) below (Catoni 2012), at most 1 + y + y²/2 for either sign. So e − n
// is a supermartingale without any bound on the numbers: skewed ones, as of rare labels, need none. It is one as long as
// the mean is at most the margin and the mean square about the margin at most driftSpread, both given all before.
// Then the chance of a false alarm in n values is n/driftAlarm at most. O(1) a value.
type driftTest struct {
	wealth [4]float64
	square fading // of the values before
}

// The margin keeps small lasting agreement, of which a model that is never quite right has some, from adding up to an
// alarm. A false alarm comes once in driftAlarm values at most. Values count up to driftLargest, which only lowers the
// bets, and as driftScale times the mean square at most in that mean, so that one outlier doubles it and no more.
const (
	driftMargin  = 0.05
	driftSpread  = 1.25 // a mean square of 1.14 and twice the margin: the recent one is not quite that of the next value
	driftAlarm   = 1e9
	driftLargest = 10
	driftScale   = 2000 // values that the mean square is of
	driftFirst   = 100  // values before the first bet

	largestGradient = 1e100 // the squares of larger ones are no numbers: such values are left out
)

var driftBets = [4]float64{0.05, 0.1, 0.2, 0.4}

// scaled returns a value in units of the root of the mean square before it, or of the deviation that the model gives it
// where that is larger: of rare labels the values before may hold no positive. It returns 0 without values before.
func (d *driftTest) scaled(v, deviation float64) float64 {
	if math.IsNaN(v) || math.Abs(v) > largestGradient {
		return 0
	}
	square, before, first := v*v, d.square.mean(), d.square.n < driftFirst
	if d.square.rate = 1 - 1.0/driftScale; before > 0 {
		square = min(square, driftScale*before)
	}
	d.square.add(square)
	if first || before == 0 {
		return 0
	}
	return min(v/max(math.Sqrt(before), deviation), driftLargest)
}

// add takes up a value and reports an alarm, after which the test begins anew, but for the scale.
func (d *driftTest) add(v, deviation float64) bool {
	x := d.scaled(v, deviation)
	return x != 0 && d.bet(x)
}

// bet takes up a value in units of the scale and reports an alarm.
func (d *driftTest) bet(x float64) bool {
	sum := 0.0
	for i, bet := range driftBets {
		y := bet * (x - driftMargin)
		f := 1 + math.Abs(y) + y*y/2
		if y < 0 {
			f = 1 / f
		}
		d.wealth[i] = (d.wealth[i] + 1) * f / (1 + bet*bet*driftSpread/2)
		sum += d.wealth[i]
	}
	if sum < driftAlarm*float64(len(driftBets)) {
		return false
	}
	d.wealth = [4]float64{}
	return true
}

// What an alarm of a field does: what the forgetting versions of its names know is taken back to a share, and the fold-in goes on beside those of the
// refits of the next events, for their rows are from before the change for the most part.
const (
	driftWiden    = 0.01
	driftLasts    = 50_000
	driftTogether = lossBlock << (lossLengths - 1) // events between alarms of losses and of their excess, of one change
	// Events after a start, or an alarm, in which nothing is tested: a young model fits badly, which looks like a change.
	driftRest = 20_000
)

// driftWatch tests for every categorical field whose names forget whether known ones change: whether the gradients of events by a name's row agree with
// those of its events before (posterior.Agreement). Fields are told apart: where items change the gradients by the rows of users, whose events are of
// different items, do not agree.
type driftWatch struct {
	tests  []driftTest // per categorical field
	rest   []int64     // per categorical field, until which event it is not tested
	names  []string
	losses lossTest   // of what is live, for models without a posterior
	excess excessTest // of the last refit's losses over those
	rose   int64      // event at which losses alarmed last, 0 for none
	worse  int64      // event at which the excess did
	calm   int64      // until which event losses are not tested
	events int64      // learned
	alarm  int64      // events at the last alarm, 0 without one
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
		if l.vocab == nil {
			continue // without a refit there are neither fitted precisions nor interactions: what is left over agrees for long
		}
		if w.events < w.rest[a.Field] {
			w.tests[a.Field].scaled(a.Along, a.Deviation)
			continue
		}
		if !w.tests[a.Field].add(a.Along, a.Deviation) {
			continue
		}
		w.alarm, w.rest[a.Field] = w.events, w.events+driftRest
		alarms = append(alarms, alarm{DriftAlarm{w.events, w.names[a.Field]}, a.Field})
		l.foldIn.Widen(a.Field, driftWiden)
	}
	return alarms
}

// lost takes up an event with the losses of what was live and of the last refit, NaN without one, for a model without a
// posterior, and reports an alarm: what is live loses more than before, and the refit more than what is live. A rhythm of
// the losses raises both alike.
func (w *driftWatch) lost(live, refit float64) bool {
	w.events++
	if w.excess.add(refit-live, w.events >= w.calm+lossBlock*lossReference) {
		w.worse = w.events
	}
	if w.events >= w.calm && w.losses.add(live) {
		w.rose = w.events
	}
	if w.rose == 0 || w.worse == 0 || max(w.rose-w.worse, w.worse-w.rose) > driftTogether {
		return false
	}
	w.losses, w.rose, w.worse = lossTest{}, 0, 0
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
