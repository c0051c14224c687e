package updates

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// Behind says by how much consumers lose more of late than they would by the newest update in another variant.
type Behind struct {
	Lags  [mixture.NumForms]experts.Lag
	has   experts.Lag     // what consumers lose, more than nothing
	usual evaluate.Fading // the same for longer
	wait  float64         // events between two times that an update is asked for
	since float64         // events since the last time
}

// firstWait is the first of the waits, each of which is twice the last. Chosen by hand.
const firstWait = 100

// changedTimes is how many times as much as usual consumers lose after a change. Chosen by hand.
const changedTimes = 2

// behindMargin is how many times as much as the chosen variant another one has to gain. Chosen by hand.
const behindMargin = 1.25

// Add takes up the losses of what consumers have, of the newest update in each variant, and of a sum of these by the
// current weights. Those of numbers are not bounded.
func (b *Behind) Add(s *Score, sum float64, isNumber bool) {
	has, most := s.Published.Loss, experts.LagMost
	if isNumber {
		has, most = s.Published.Square, math.Inf(1)
	}
	b.since++
	if !math.IsNaN(has) {
		b.usual.Rate = UpdateFade
		b.usual.Add(min(has, most))
		b.has.Add(has, 0, most)
	}
	for f, loss := range s.Forms {
		if f == int(mixture.FormPool) {
			loss = sum
		}
		if !math.IsNaN(loss) && !math.IsNaN(has) {
			b.Lags[f].Add(has, loss, most)
		}
	}
}

// Best returns the variant by which consumers would lose least, of those that there are and lose much less. That is the
// chosen one unless another gains clearly more. It reports false where no variant does.
func (b *Behind) Best(chosen mixture.Variant, there func(mixture.Variant) bool) (best mixture.Variant, is bool) {
	most := 0.0
	for f := range mixture.NumForms {
		x := &b.Lags[f]
		if !x.IsLarge() || !there(f) {
			continue
		}
		gain := x.Gain()
		if f == chosen {
			gain *= behindMargin
		}
		if gain > most {
			best, is, most = f, true, gain
		}
	}
	return best, is
}

// Reset returns what is known once consumers have another refit: what they usually lose.
func (b *Behind) Reset() Behind { return Behind{usual: b.usual} }

// After returns what is known once consumers have another update of a variant. If they come to be behind another
// variant still, the next one is waited for as long as it would have been.
func (b *Behind) After(has mixture.Variant) Behind {
	next := b.Reset()
	if f, is := b.Best(has, func(mixture.Variant) bool { return true }); is && f != has {
		next.wait, next.since = b.wait, b.since
	}
	return next
}

// HasChanged reports whether consumers lose so much more than they used to that what was better before says nothing.
func (b *Behind) HasChanged() bool {
	return b.has.IsKnown() && b.has.Mean() > changedTimes*mixture.Mean(&b.usual)
}

// Asks reports whether an update is asked for: at once where consumers have come to be behind, then after waits until
// they have another one.
func (b *Behind) Asks() bool {
	if _, is := b.Best(mixture.FormFoldIn, func(mixture.Variant) bool { return true }); !is || b.since < b.wait {
		return false
	}
	b.wait, b.since = max(2*b.wait, firstWait), 0
	return true
}
