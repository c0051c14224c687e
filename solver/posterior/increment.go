package posterior

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/solver/internal/dense"
)

// Increment is what events have changed of the live row of a name, in natural parameters: evidence e of a version has become Keep·e + Added, and so have its
// losses. Increments of one name by several fold-ins on the same state can be applied one after the other in any order, as if the events of each had come
// without a gap. That is exact but for two things: an event's evidence was taken at the means that its own fold-in had, and of what forgets the order of events
// counts.
type Increment struct {
	Keep  []float64 // per version
	Added []float64 // versions × (evidence + right side), as liveRow has them

	LossKeep float64   // of rows of a field that forgets; else 1
	Loss     []float64 // versions of such a row
}

// RateIncrement is an Increment of the losses of the rates of a field, as RateLosses returns them.
type RateIncrement struct {
	Keep  float64
	Added []float64 // rates
}

// Track has increments gathered from now on, for Increment and RateIncrements.
func (f *FoldIn) Track() {
	f.since = make([]*Increment, len(f.rows))
	f.rateSince = make([]RateIncrement, len(f.loss))
	for i := range f.rateSince {
		f.rateSince[i] = RateIncrement{1, make([]float64, len(f.loss[i]))}
	}
}

// newIncrement returns that of no event.
func newIncrement(versions, size, losses int) *Increment {
	inc := &Increment{Keep: make([]float64, versions), Added: make([]float64, versions*size), LossKeep: 1, Loss: make([]float64, losses)}
	for g := range inc.Keep {
		inc.Keep[g] = 1
	}
	return inc
}

// tracked returns the increment of a slot that is gathered, with the widenings that its row has taken up; nil where none is.
func (f *FoldIn) tracked(slot int32) *Increment {
	if f.rateSince == nil {
		return nil
	}
	for int(slot) >= len(f.since) {
		f.since = append(f.since, nil)
	}
	row := &f.rows[slot]
	if f.since[slot] == nil {
		f.since[slot] = newIncrement(max(1, len(row.loss)), len(f.increment), len(row.loss))
	}
	inc := f.since[slot]
	if all := f.widening[row.field]; row.told < row.widened {
		for g, rate := range f.rates[row.field] {
			if rate == 1 || len(row.loss) == 0 {
				continue
			}
			for _, share := range all[row.told:row.widened] {
				inc.Keep[g] *= share
				floats.Scale(share, inc.added(g))
			}
		}
		inc.LossKeep = 0
		clear(inc.Loss)
		row.told = row.widened
	}
	return inc
}

// added returns what came to a version.
func (inc *Increment) added(g int) []float64 {
	size := len(inc.Added) / len(inc.Keep)
	return inc.Added[g*size : g*size+size]
}

// track adds the increment of the event at hand to that of a slot.
func (f *FoldIn) track(slot int32) {
	inc := f.tracked(slot)
	if inc == nil {
		return
	}
	row, size := &f.rows[slot], len(f.increment)
	for g := range inc.Keep {
		keep := 1.0
		if len(row.loss) > 0 {
			keep = f.rates[row.field][g]
		}
		inc.Keep[g] *= keep
		added := inc.added(g)
		if f.base.mainOnly(int(row.field)) {
			right := size - len(f.zero)
			added[0], added[right] = keep*added[0]+f.increment[0], keep*added[right]+f.increment[right]
		} else {
			dense.ScaleAdd(added, keep, f.increment)
		}
	}
}

// trackCharge adds a loss that was charged to rate g of a slot, and if it is shared to that of its field.
func (f *FoldIn) trackCharge(slot int32, g int, loss float64, shared bool) {
	inc := f.tracked(slot)
	if inc == nil {
		return
	}
	if g == 0 { // each event charges every rate once
		inc.LossKeep *= entityLossFade
	}
	inc.Loss[g] = entityLossFade*inc.Loss[g] + loss
	if !shared {
		return
	}
	all := &f.rateSince[f.rows[slot].field]
	if g == 0 {
		all.Keep *= lossFade
	}
	all.Added[g] = lossFade*all.Added[g] + lossGain*loss
}

// Increment returns what the events since Track, or since it was called for the slot last, have changed of the row; nil where they have not. It is the
// caller's.
func (f *FoldIn) Increment(slot int32) *Increment {
	if int(slot) >= len(f.since) {
		return nil
	}
	inc := f.since[slot]
	f.since[slot] = nil
	return inc
}

// RateIncrements returns, by field, what the events since Track, or since it was called last, have changed of the losses of rates.
func (f *FoldIn) RateIncrements() []RateIncrement {
	out := make([]RateIncrement, len(f.rateSince))
	for i := range f.rateSince {
		all := &f.rateSince[i]
		out[i] = RateIncrement{all.Keep, slices.Clone(all.Added)}
		all.Keep = 1
		clear(all.Added)
	}
	return out
}

// Apply changes the live row in a slot by an increment of another fold-in on the same state. It reports whether that was possible: an increment of another
// shape, or of numbers that are none, changes nothing. It is not gathered for Increment.
func (f *FoldIn) Apply(slot int32, inc *Increment) bool {
	row, size := &f.rows[slot], len(f.increment)
	versions := max(1, len(row.loss))
	if len(inc.Keep) != versions || len(inc.Added) != versions*size || len(inc.Loss) != len(row.loss) || !inc.isFinite() {
		return false
	}
	f.widen(row)
	for g, keep := range inc.Keep {
		dense.ScaleAdd(row.evidence[g*size:g*size+size], keep, inc.added(g))
	}
	for g, loss := range inc.Loss {
		row.loss[g] = inc.LossKeep*row.loss[g] + loss
	}
	f.solve(row)
	f.changes++
	return true
}

// ApplyRates is Apply of the losses of the rates of a field.
func (f *FoldIn) ApplyRates(field int32, inc *RateIncrement) bool {
	loss := f.loss[field]
	if len(inc.Added) != len(loss) || !isShare(inc.Keep) || !isFinite(inc.Added) {
		return false
	}
	for g, added := range inc.Added {
		loss[g] = inc.Keep*loss[g] + added
	}
	f.changes++
	return true
}

// solve solves all versions of a row.
func (f *FoldIn) solve(row *liveRow) {
	prior := f.base.precision(int(row.field))
	for g := range max(1, len(row.loss)) {
		if f.base.mainOnly(int(row.field)) {
			f.solveMainEffect(row, g, prior[0])
			continue
		}
		var cov []float64
		if g == max(1, len(row.loss))/2 {
			cov = row.cov
		}
		evidence, right, mean := f.version(row, g)
		f.rowMath.solve(evidence, right, prior, mean, cov)
	}
}

func (inc *Increment) isFinite() bool {
	return !slices.ContainsFunc(inc.Keep, func(v float64) bool { return !isShare(v) }) && isShare(inc.LossKeep) && isFinite(inc.Added) && isFinite(inc.Loss)
}

func isShare(v float64) bool { return v >= 0 && v <= 1 }

func isFinite(list []float64) bool {
	return !slices.ContainsFunc(list, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
