package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
)

// noteLive notes in a champion what its version tells readers of the live fold-in. c.mu is held.
func (c *Cycle) noteLive(ch *fitted.Fitted) {
	if low, high := c.numbers.Labels(); low <= high && c.numbers.Limited && c.numbers.Label.Ready() {
		ch.LabelRange = []float64{low, high}
	}
	if l, ok := c.learner.(*experts.FoldIn); ok {
		ch.RateLosses = l.FoldIn.RateLosses()
	}
}
