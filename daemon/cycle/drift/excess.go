package drift

import (
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// excessTest watches by how much the losses of a model that learns nothing any more are above those of what learns on,
// and alarms when that rises: as driftTest, about the usual excess in units of its scale. Both predict the same events,
// so that losses that rise for both, as in a rhythm of how hard labels are, do not matter. The premise is that the mean
// excess is at most the usual one and excessMargin scales, and its mean square about that at most driftSpread, both
// given all before.
type excessTest struct {
	GradientTest
	usual evaluate.Fading // in units
}

// What learns on may follow a rhythm that the other model does not know: where the chance of a label is between 0.05
// and 0.45, that is up to 0.2 scales. A change of what is learned is one of whole scales, as the models are much alike
// before. Derived: excessMargin, from the chances above. The other is chosen by hand.
const (
	excessMargin = 0.2
	excessUsual  = 20_000 // values that the usual excess is of
)

// add takes up a value, which is only learned from unless it is tested, and reports an alarm.
func (e *excessTest) add(v float64, tested bool) bool {
	x := e.scaled(v, 0)
	if x == 0 {
		return false
	}
	usual := 0.0
	if e.usual.N > 0 {
		usual = mixture.Mean(&e.usual)
	}
	e.usual.Rate = 1 - 1.0/excessUsual
	e.usual.Add(max(x, -driftLargest))
	return tested && e.bet(x-usual-(excessMargin-driftMargin))
}
