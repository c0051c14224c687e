package drift

import (
	"math"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// driftTest watches numbers whose mean, given all before, is at most driftMargin roots of their recent mean square as
// long as nothing changes, and alarms when they rise: a Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo 2022).
// From every moment on it bets that the mean is above the margin, and adds up what the bets have come to: e ← (e +
// 1)·f(bet·(x − margin))/(1 + bet²·driftSpread/2), the mean over the bets, x in units of that root. f(y) is 1 + y +
// y²/2 above 0 and 1/(1 − y + y²/2) below (Catoni 2012), at most 1 + y + y²/2 for either sign. So e − n is a
// supermartingale without any bound on the numbers: skewed ones, such as those of rare labels, need none. It is one as
// long as the mean is at most the margin and the mean square about the margin at most driftSpread, both given all
// before. Then the chance of a false alarm in n values is n/AlarmRate at most. O(1) a value.
type GradientTest struct {
	Wealth [4]float64
	Square evaluate.Fading // of the values before
}

// The margin keeps small lasting agreement, of which a model that is never quite right has some, from adding up to an
// alarm. A false alarm comes once in AlarmRate values at most. Values count up to driftLargest, which only lowers the
// bets, and as driftScale times the mean square at most in that mean, so that one outlier doubles it and no more.
// Derived: driftSpread, from driftMargin. AlarmRate is the asked bound. The others are chosen by hand.
const (
	driftMargin  = 0.05
	driftSpread  = 1.25 // a mean square of 1.14 and twice the margin: the recent one is not quite that of the next value
	AlarmRate    = 1e9
	driftLargest = 10
	driftScale   = 2000 // values that the mean square is of
	DriftFirst   = 100  // values before the first bet

	largestGradient = 1e100 // the squares of larger ones are no numbers: such values are left out
)

// Chosen by hand.
var driftBets = [4]float64{0.05, 0.1, 0.2, 0.4}

// scaled returns a value in units of the root of the mean square before it, or of the deviation that the model gives it
// where that is larger: of rare labels the values before may hold no positive. It returns 0 without values before.
func (d *GradientTest) scaled(v, deviation float64) float64 {
	if math.IsNaN(v) || math.Abs(v) > largestGradient {
		return 0
	}
	square, before, first := v*v, mixture.Mean(&d.Square), d.Square.N < DriftFirst
	if d.Square.Rate = 1 - 1.0/driftScale; before > 0 {
		square = min(square, driftScale*before)
	}
	d.Square.Add(square)
	if first || before == 0 {
		return 0
	}
	return min(v/max(math.Sqrt(before), deviation), driftLargest)
}

// add takes up a value and reports an alarm, after which the test begins anew, but for the scale.
func (d *GradientTest) add(v, deviation float64) bool {
	x := d.scaled(v, deviation)
	return x != 0 && d.bet(x)
}

// bet takes up a value in units of the scale and reports an alarm.
func (d *GradientTest) bet(x float64) bool {
	sum := 0.0
	for i, bet := range driftBets {
		y := bet * (x - driftMargin)
		f := 1 + math.Abs(y) + y*y/2
		if y < 0 {
			f = 1 / f
		}
		d.Wealth[i] = (d.Wealth[i] + 1) * f / (1 + bet*bet*driftSpread/2)
		sum += d.Wealth[i]
	}
	if sum < AlarmRate*float64(len(driftBets)) {
		return false
	}
	d.Wealth = [4]float64{}
	return true
}

// What an alarm of a field does: what the forgetting versions of its names know is reduced to a share. The fold-in is
// kept in addition to those of the next refits, whose rows are mostly from before the change. Derived: driftTogether.
// The others are chosen by hand.
const (
	DriftWiden    = 0.01
	driftLasts    = 50_000
	driftTogether = LossBlock << (lossLengths - 1) // events between alarms of losses and of their excess, of one change
	// Events after a start, or an alarm, in which nothing is tested: a young model fits badly, which looks like a
	// change.
	driftRest = 20_000
)

// Watch tests for every categorical field whose names forget whether known ones change: whether the gradients of events
// by a name's row agree with those of its events before (posterior.Agreement). The test distinguishes
// fields: where items change, the gradients by the rows of users, whose events are of different items, do not agree.
type Watch struct {
	Tests  []GradientTest // per categorical field
	Rest   []int64        // per categorical field, until which event it is not tested
	names  []string
	losses lossTest   // of what is live, for models without a posterior
	excess excessTest // of the last refit's losses over those
	rose   int64      // event at which losses alarmed last, 0 for none
	worse  int64      // event at which the excess did
	Calm   int64      // until which event losses are not tested
	Events int64      // learned
	Alarm  int64      // events at the last alarm, 0 without one
}

// DriftLosses is the group of the drift detector of models without a posterior.
const DriftLosses = "(loss)"

// DriftGroups returns the groups that a model can have alarms of: its categorical fields, or DriftLosses where no name
// has a posterior.
func DriftGroups(m *config.Model) []string {
	if m.Train.Refit == "variational" {
		return m.Schema.Categorical
	}
	return []string{DriftLosses}
}

func NewWatch(names []string) Watch {
	w := Watch{
		Tests: make([]GradientTest, len(names)),
		Rest:  make([]int64, len(names)),
		names: names,
		Calm:  driftRest - LossBlock*LossReference,
	}
	for f := range w.Rest {
		w.Rest[f] = driftRest
	}
	return w
}

// DriftAlarm is an alarm of the drift detector.
type DriftAlarm struct {
	Event int64  // how many had been learned since the start
	Group string // categorical field whose names change, or DriftLosses
}

// MaxAlarms bounds the alarms that wait to be taken. Chosen by hand.
const MaxAlarms = 1000

// Alarm is a DriftAlarm with the categorical field that it is of, -1 for DriftLosses.
type Alarm struct {
	DriftAlarm
	Field int32
}

// Learned takes up the event that the fold-in learned last, and widens the rows of a field whose test alarms. It
// returns these alarms.
func (w *Watch) Learned(l *experts.FoldIn) (alarms []Alarm) {
	w.Events++
	for _, a := range l.FoldIn.Agreements() {
		if l.Vocab == nil {
			continue // without a refit there are neither fitted precisions nor interactions: what is left over agrees for long
		}
		if w.Events < w.Rest[a.Field] {
			w.Tests[a.Field].scaled(a.Along, a.Deviation)
			continue
		}
		if !w.Tests[a.Field].add(a.Along, a.Deviation) {
			continue
		}
		w.Alarm, w.Rest[a.Field] = w.Events, w.Events+driftRest
		alarms = append(alarms, Alarm{DriftAlarm{w.Events, w.names[a.Field]}, a.Field})
		l.FoldIn.Widen(a.Field, DriftWiden)
	}
	return alarms
}

// Lost takes up an event with the losses of what was live and of the last refit, NaN without one, for a model without a
// posterior, and reports an alarm: what is live loses more than before, and the refit more than what is live. A rhythm
// of the losses raises both alike.
func (w *Watch) Lost(live, refit float64) bool {
	w.Events++
	if w.excess.add(refit-live, w.Events >= w.Calm+LossBlock*LossReference) {
		w.worse = w.Events
	}
	if w.Events >= w.Calm && w.losses.add(live) {
		w.rose = w.Events
	}
	if w.rose == 0 || w.worse == 0 || max(w.rose-w.worse, w.worse-w.rose) > driftTogether {
		return false
	}
	w.losses, w.rose, w.worse = lossTest{}, 0, 0
	w.Alarm, w.Calm = w.Events, w.Events+driftRest-LossBlock*LossReference
	return true
}

// Lasts reports whether a change is so recent that most rows of a refit are older.
func (w *Watch) Lasts() bool { return w.Alarm > 0 && w.Events-w.Alarm < driftLasts }
