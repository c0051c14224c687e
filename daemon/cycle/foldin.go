package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
)

// noteLive writes into a champion what its version says about the live fold-in. c.mu is held.
func (e *ensemble) noteLive(ch *fitted.Fitted) {
	if low, high := e.numbers.Labels(); low <= high && e.numbers.Limited && e.numbers.Label.Ready() {
		ch.LabelRange = []float64{low, high}
	}
	if l, ok := e.learner.(*experts.FoldIn); ok {
		ch.RateLosses = l.FoldIn.RateLosses()
	}
}
