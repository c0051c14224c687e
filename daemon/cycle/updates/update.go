package updates

import (
	"math"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// How updates are compared with the refit that they are made from. Losses fade over some 5,000 events, one event counts
// as much as MixtureLossMax units at most, and fewer than UpdateEvents say nothing against updates. Standard errors are
// those of means of updateBlock events where these are larger: losses of events that follow each other are alike.
// Derived: UpdateFade, from these events. The others are chosen by hand.
const (
	UpdateFade    = 0.9998
	UpdateEvents  = 100
	updateBlock   = 100
	updateOutlier = 100 // mean losses are the most that one event is taken for
)

// UpdateComparison compares updates with the last promoted refit on events that came after both, as consumers would
// have used them: what an update gains at the event after it says little of the thousands until the next one. Where
// labels depend on those just before them, what was learned from these is worse than nothing then. It belongs to one
// goroutine.
type UpdateComparison struct {
	N, Sum, Squares float64 // of the update's loss less the refit's, of squares in units, fading
	block           float64 // sum of the events since the last whole block
	inBlock         int
	blocks          struct{ n, sum, squares float64 } // of the means of whole blocks, fading
	Scale           evaluate.Fading                   // of the refit's loss
}

// NewUpdateComparison returns a comparison without events.
func NewUpdateComparison() UpdateComparison {
	return UpdateComparison{Scale: evaluate.Fading{Rate: UpdateFade}}
}

// Forget has the comparison begin anew, in the same units.
func (l *UpdateComparison) Forget() { *l = UpdateComparison{Scale: l.Scale} }

// Add takes up the losses of both on one event. limit is the largest loss that one event counts as. It is 0 for
// squares, which have no such limit and count in units of their mean: those of classes do not, for with a rare one the
// mean is a hundredth of what one event of it costs.
func (l *UpdateComparison) Add(update, refit, limit float64) {
	var d float64
	if limit > 0 {
		d = min(update, limit) - min(refit, limit)
	} else {
		if unit := mixture.Mean(&l.Scale); unit > 0 { // an outlier does not set it
			refit, update = min(refit, updateOutlier*unit), min(update, updateOutlier*unit)
		}
		l.Scale.Add(refit)
		unit := mixture.Mean(&l.Scale)
		if !(unit > 0) {
			return
		}
		d = min(max((update-refit)/unit, -mixture.MixtureLossMax), mixture.MixtureLossMax)
	}
	l.N, l.Sum, l.Squares = UpdateFade*l.N+1, UpdateFade*l.Sum+d, UpdateFade*l.Squares+d*d
	l.block += d
	if l.inBlock++; l.inBlock < updateBlock {
		return
	}
	fade, mean := math.Pow(UpdateFade, updateBlock), l.block/updateBlock
	b := &l.blocks
	b.n, b.sum, b.squares = fade*b.n+1, fade*b.sum+mean, fade*b.squares+mean*mean
	l.block, l.inBlock = 0, 0
}

// deviation returns the standard error of the mean difference: the greater of those by single events and by blocks.
func (l *UpdateComparison) deviation() float64 {
	mean := l.Sum / l.N
	deviation := math.Sqrt(max(l.Squares/l.N-mean*mean, 0) / l.N)
	if b := &l.blocks; b.n > 1 {
		mean = b.sum / b.n
		deviation = max(deviation, math.Sqrt(max(b.squares/b.n-mean*mean, 0)/(b.n-1)))
	}
	return deviation
}

// Prefers reports whether consumers should have updates. Updates have to be worse by a standard error to be left, and
// better by one to be taken up. Those of a variant apart from the refit gain nothing when a better refit comes. They
// have to be better by apartErrors, and are left once they are worse at all.
func (l *UpdateComparison) Prefers(updates, apart bool) bool {
	if l.N < UpdateEvents {
		return updates || !apart
	}
	mean, least, most := l.Sum/l.N, -l.deviation(), l.deviation()
	if apart {
		least, most = -apartErrors*l.deviation(), 0
	}
	if updates {
		return mean <= most
	}
	return mean < least
}

// apartErrors is chosen by hand. On shops, where refits catch up, linear learners were better by up to 1.6 standard
// errors early on; on words and codes, where they stay better, by 2.4 to 13.
const apartErrors = 2

// FirstUpdate is why consumers do not get the first update of a model. The next one may come with new events or
// without.
const FirstUpdate = "the first update is compared with the refit before consumers get any"

// Update is a version between refits that is being made. Make, and the publication of what it returns, may run
// concurrently with the goroutine that updates, which keeps taking and publishing deltas of the previous update.
type Update struct {
	Compaction *Compaction // of the update before and its deltas; nil for one of the live model, which has what is below

	Live     *fitted.Fitted // as it was when BeginUpdate was called, in all forms
	Forms    [mixture.NumForms]Candidate
	Form     mixture.Variant // that was chosen
	Followed *DeltaStream    // what follows live; nil where nobody asks for deltas
	Settings *config.Model
	Out      *fitted.Fitted // what consumers get, nil for nothing
	Reason   string         // why they get nothing
}

// Make makes what consumers get, nil where they get nothing. O(columns).
func (x *Update) Make() (u *fitted.Fitted, reason string, err error) {
	if x.Compaction != nil {
		u, err = x.Compaction.Make()
		return u, "", err
	}
	if x.Followed != nil {
		err = x.Followed.start(x.Settings, &x.Forms)
	}
	return x.Out, x.Reason, err
}

// IsUpdate reports whether consumers have something else than the last promoted refit.
func (v *Served) IsUpdate() bool { return v.Model != v.Refit.Model }
