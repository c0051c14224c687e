package online

import (
	"github.com/refitd/refitd/solver/internal/dense"
	"gonum.org/v1/gonum/floats"
)

// Learn updates the live rows by one event, whose features must all have a live row, in the given order: forgetting
// fields should come first, they are mixed before their partners learn from them. weight scales the event's evidence.
func (f *FoldIn) Learn(features []Feature, values, target []float64, weight float64) {
	f.LearnPart(features, values, target, weight, nil, true)
}

// LearnPart is Learn by the rows of some features: those of held learn nothing, nil for none, and need no live row.
// Unless shared is true, neither does what the events of all names have in common: θ before the first refit, the
// losses of rates over all events, and agreement.
func (f *FoldIn) LearnPart(features []Feature, values, target []float64, weight float64, held []bool, shared bool) {
	// Without a scale of labels there is nothing that rows could learn.
	if f.ColdStart != nil && !shared && !f.ColdStart.known {
		return
	}
	if f.ColdStart != nil && shared {
		known := f.ColdStart.known
		ready := f.ColdStart.Learn(target)
		f.Layout.rebias()
		if f.ColdStart.known != known { // priors of rows follow the scale of labels
			f.spreadPrior()
		}
		if !ready {
			return
		}
	}
	f.Gather(features, values, nil)
	f.Layout.Predict(&f.Event)
	f.Agreement = f.Agreement[:0]
	if shared {
		f.Events++
	}
	f.Layout.Observe(target, weight) // the bound on the loss is taken once, where the event found the model
	// Before any row has learned from the event: what is charged is the loss of a prediction.
	f.Score(features, target, held, shared)
	for e := range features {
		if !isHeld(held, e) && f.isMixed(features[e].Row) {
			f.weigh(&f.mixed[e])
			f.average(&f.mixed[e])
		}
	}
	for e := range features {
		if isHeld(held, e) {
			continue
		}
		f.Layout.Predict(&f.Event)
		f.Accumulate(e)
		// Coordinate-wise, as in a sweep: the entries that follow see this one as it is now.
		f.Update(&f.Rows[features[e].Row])
		for l, other := range features { // entries of one name share its row
			if other.Row == features[e].Row && f.isMixed(other.Row) {
				f.average(&f.mixed[l])
			}
		}
	}
	f.Changes++
}

// isHeld reports whether entry e is one of those held, nil for none.
func isHeld(held []bool, e int) bool { return held != nil && held[e] }

// isMixed reports whether a slot's row has versions.
func (f *FoldIn) isMixed(slot int32) bool { return len(f.Rows[slot].Loss) > 0 }

// Widen takes back what the forgetting versions of the rows of a field know, to a share of it: their covariances widen
// towards the prior, so that the next events move them far. Versions that keep everything stay, and recent loss, which
// starts anew, decides between them and the widened ones: where nothing had changed little is lost. It does nothing for
// fields that do not forget. O(1): a row is widened, in O(q³) for a row of q numbers, when something is asked of it
// next.
func (f *FoldIn) Widen(field int32, share float64) {
	f.widened[field] *= share
	f.widening[field] = append(f.widening[field], share)
	// The rates start level: what suited the field before says nothing of the time after a change.
	clear(f.Loss[field])
	f.Changes++
}

// widen lets a row take up the widenings of its field since it was asked for last.
func (f *FoldIn) widen(row *LiveRow) {
	if all := f.widening[row.field]; int(row.widened) < len(all) {
		if len(row.Loss) > 0 {
			f.widenTo(row, all[row.widened:]...)
		}
		row.widened = int32(len(all))
	}
}

// widenTo scales the evidence of the forgetting versions of a row by all shares and solves them again.
func (f *FoldIn) widenTo(row *LiveRow, shares ...float64) {
	prior := f.Frozen.PrecisionOf(int(row.field))
	for g, rate := range f.rates[row.field] {
		if rate == 1 {
			continue
		}
		evidence, right, mean := f.version(row, g)
		for _, share := range shares {
			floats.Scale(share, evidence)
			floats.Scale(share, right)
		}
		var cov []float64
		// Only the middle version has a covariance, which the predictions of all take.
		if g == len(row.Loss)/2 {
			cov = row.cov
		}
		if f.Frozen.IsMainOnly(int(row.field)) {
			f.solveMainEffect(row, g, prior[0])
		} else {
			f.Layout.solve(evidence, right, prior, mean, cov)
		}
	}
	clear(row.Loss)
}

// version returns evidence, right side and mean of a version of a row.
func (f *FoldIn) version(row *LiveRow, g int) (evidence, right, mean []float64) {
	size, q := len(f.increment), len(f.Zero)
	e := row.evidence[g*size : g*size+size]
	return e[:size-q], e[size-q:], row.Mean[g*q : g*q+q]
}

// Accumulate sets the increment to what the event says of entry e.
func (f *FoldIn) Accumulate(e int) {
	clear(f.increment)
	f.Layout.accumulate(f.increment[:len(f.increment)-len(f.Zero)], f.increment[len(f.increment)-len(f.Zero):], e)
}

// Update adds the increment to every version of the row, after it has forgotten, and solves: the middle version with
// its covariance, the others two by two.
func (f *FoldIn) Update(row *LiveRow) {
	size := len(f.increment)
	prior := f.Frozen.PrecisionOf(int(row.field))
	if f.Frozen.IsMainOnly(int(row.field)) {
		f.updateMainEffect(row, prior[0])
		return
	}
	versions := max(1, len(row.Loss))
	// Two solves at once keep the processor's units busy where one waits for a division.
	other := -1 // a version that is still to be solved
	for g := range versions {
		keep := 1.0
		if len(row.Loss) > 0 {
			keep = f.rates[row.field][g]
		}
		dense.ScaleAdd(row.evidence[g*size:g*size+size], keep, f.increment)
		a, b, mean := f.version(row, g)
		switch {
		case g == versions/2:
			f.Layout.solve(a, b, prior, mean, row.cov)
		case other < 0:
			other = g
		default:
			a1, b1, mean1 := f.version(row, other)
			f.Layout.solvePair([2][]float64{a1, a}, [2][]float64{b1, b}, prior, [2][]float64{mean1, mean})
			other = -1
		}
	}
	if other >= 0 {
		a, b, mean := f.version(row, other)
		f.Layout.solve(a, b, prior, mean, nil)
	}
}

// updateMainEffect is update for a row that is a linear weight alone: the first number of each part.
func (f *FoldIn) updateMainEffect(row *LiveRow, prior float64) {
	size, q := len(f.increment), len(f.Zero)
	versions := max(1, len(row.Loss))
	for g := range versions {
		keep := 1.0
		if len(row.Loss) > 0 {
			keep = f.rates[row.field][g]
		}
		e := row.evidence[g*size : g*size+size]
		e[0] = keep*e[0] + f.increment[0]
		e[size-q] = keep*e[size-q] + f.increment[size-q]
		f.solveMainEffect(row, g, prior)
	}
}

// solveMainEffect solves for the one number of a row that is a linear weight alone: mean b/(a + d), variance 1/(a + d),
// for evidence a, right side b and prior precision d > 0.
func (f *FoldIn) solveMainEffect(row *LiveRow, g int, prior float64) {
	evidence, right, mean := f.version(row, g)
	mean[0] = right[0] / (evidence[0] + prior)
	if g == max(1, len(row.Loss))/2 {
		row.cov[0] = 1 / (evidence[0] + prior)
	}
}

// Score charges every rate of every forgetting row that is not held with its own loss on the event, which holds the
// mixed rows: what the loss would have been with that version of the row and the others mixed as they are. Outputs are
// linear in the row, so that none of it is predicted anew.
func (f *FoldIn) Score(features []Feature, target []float64, held []bool, shared bool) {
	q, deviation := len(f.Zero), f.deviate(target)
	for e, feature := range features {
		if isHeld(held, e) || !f.isMixed(feature.Row) {
			continue
		}
		row := &f.Rows[feature.Row]
		f.Layout.enter(e)
		if shared {
			f.agree(row, deviation)
		}
		for g := range row.Loss {
			f.Charge(row, g, f.Layout.LossWith(target, row.Mean[g*q:g*q+q]), shared)
		}
	}
}

// Charge adds a loss of rate g to the account of the row, and if it is shared to that of its field.
func (f *FoldIn) Charge(row *LiveRow, g int, loss float64, shared bool) {
	if !(loss < mixLossMax) { // nor may one that is no number
		loss = mixLossMax
	}
	if shared {
		all := f.Loss[row.field]
		all[g] = lossFade*all[g] + lossGain*loss
	}
	// An entity's losses add up, those of all events are averages: few own events do not outweigh what all say.
	row.Loss[g] = entityLossFade*row.Loss[g] + loss
}
