package drift

import (
	"math"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// GradientTest watches numbers whose mean, given all before, is at most driftMargin roots of their recent mean square
// as long as nothing changes, and alarms when they rise: a Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo
// 2022). From every moment on it bets that the mean is above the margin, and adds up what the bets have come to: e ←
// (e + 1)·f(bet·(x − margin))/(1 + bet²·driftSpread/2), the mean over the bets, x in units of that root. f(y) is 1 +
// y + y²/2 above 0 and 1/(1 − y + y²/2) below (Catoni 2012), at most 1 + y + y²/2 for either sign. So e − n is a
// supermartingale without any bound on the numbers: skewed ones, such as those of rare labels, need none. It is one
// as long as the mean is at most the margin and the mean square about the margin at most driftSpread, both given all
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

// gradientsKind tests the names of models with a posterior.
var gradientsKind = Kind{
	Name: "gradients",
	Doc: "whether the gradients of events by a name agree with those before, for each categorical field; " +
		"`train.refit: variational`, labels that come with events",
	Applies: func(m *config.Model) bool { return m.Train.Refit == "variational" && !m.Schema.LabelLater },
	Groups:  func(m *config.Model) []string { return m.Schema.Categorical },
	New:     func(names []string) Detector { return newGradients(names) },
}

// Gradients tests for every categorical field whose names forget whether known ones change: whether the gradients of
// events by a name's row agree with those of its events before (posterior.Agreement). The test distinguishes fields:
// where items change, the gradients by the rows of users, whose events are of different items, do not agree.
type Gradients struct {
	Tests []GradientTest // per categorical field
	Rest  []int64        // per categorical field, until which event it is not tested
	names []string
}

// newGradients returns the tests of the categorical fields of those names.
func newGradients(names []string) *Gradients {
	d := &Gradients{Tests: make([]GradientTest, len(names)), Rest: make([]int64, len(names)), names: names}
	for f := range d.Rest {
		d.Rest[f] = driftRest
	}
	return d
}

// Add takes up the event that the fold-in learned last, and widens the rows of a field whose test alarms.
func (d *Gradients) Add(o *Observed) (alarms []Alarm) {
	if o.FoldIn == nil {
		return nil
	}
	for _, a := range o.FoldIn.FoldIn.Agreements() {
		if o.FoldIn.Vocab == nil {
			continue // without a refit there are neither fitted precisions nor interactions: what is left over agrees for long
		}
		if o.Event < d.Rest[a.Field] {
			d.Tests[a.Field].scaled(a.Along, a.Deviation)
			continue
		}
		if !d.Tests[a.Field].add(a.Along, a.Deviation) {
			continue
		}
		d.Rest[a.Field] = o.Event + driftRest
		alarms = append(alarms, Alarm{DriftAlarm{o.Event, d.names[a.Field]}, a.Field})
		o.FoldIn.FoldIn.Widen(a.Field, DriftWiden)
	}
	return alarms
}
