package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
)

// noteLive notes in a champion what its version tells readers of the live fold-in. c.mu is held.
func (e *ensemble) noteLive(ch *fitted.Fitted) {
	if low, high := e.numbers.Labels(); low <= high && e.numbers.Limited && e.numbers.Label.Ready() {
		ch.LabelRange = []float64{low, high}
	}
	if l, ok := e.learner.(*experts.FoldIn); ok {
		ch.RateLosses = l.FoldIn.RateLosses()
	}
}
