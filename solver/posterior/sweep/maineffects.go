package sweep

import (
	"context"
	"math"
)

// Precisions of linear weights alone that are looked at: e^±precisionRange times the mean evidence of a feature, at
// first in factors of e^precisionStep. Chosen by hand.
const (
	precisionRange = 14.0
	precisionStep  = 1.0
)

// sweepMainEffects updates the fields that have linear weights alone, feature by feature, and keeps the means of z in
// step. Where features of a field never meet, the field's precision is chosen with their weights integrated out: step
// by step it would take tens of sweeps to shrink a field that carries nothing. O(nnz).
func (r *Refit) sweepMainEffects(ctx context.Context) error {
	s := r.state
	if s.MainOnly == nil {
		return nil
	}
	features := make([][]int, s.NumFields)
	for j, f := range s.Field {
		features[f] = append(features[f], j)
	}
	for f, only := range s.MainOnly {
		if !only {
			continue
		}
		if r.apart[f] {
			r.choosePrecision(f, features[f])
		}
		for _, j := range features[f] {
			if err := r.yield(ctx); err != nil {
				return err
			}
			r.updateMainEffect(j)
		}
	}
	if r.pairs != nil {
		r.pairs.takeOffsets()
	}
	if r.units != nil {
		r.units.takeOffsets()
	}
	return nil
}

// choosePrecision sets the precision D of a field whose features never meet to a maximum of what is left of the
// evidence when their weights are integrated out, ½ Σ_j (log D − log(D + A_j) + b_j²/(D + A_j)), if that is more
// than where D is. Where features have less evidence than D, as the pairs of a cross that come once or twice, D is
// raised by the sweeps alone: the bounds of logistic outputs claim more evidence than there is, so that
// b² is short of what noise alone would give, and weights that carry much in sum would all be taken for noise.
func (r *Refit) choosePrecision(f int, features []int) {
	var evidence, square []float64
	sum := 0.0
	for _, j := range features {
		if r.columns.count(j) > 0 {
			a, b := r.mainEvidence(j)
			evidence, square = append(evidence, a), append(square, b*b)
			sum += a
		}
	}
	if len(evidence) == 0 || !(sum > 0) {
		return
	}
	// Twice the log evidence of the field by D, up to a constant, of independent weights with evidence a and right side
	// b.
	marginal := func(d float64) (value, slope float64) { // slope by log D
		for i, a := range evidence {
			share := a / (d + a)
			value += math.Log1p(-share) + square[i]/(d+a)
			slope += share - d*square[i]/((d+a)*(d+a))
		}
		return value, slope
	}
	unit := sum / float64(len(evidence))
	d := &r.state.PrecisionOf(f)[0]
	at, most := math.NaN(), math.Inf(-1)
	// there may be several maxima, one of them at infinity
	for log := -precisionRange; log <= precisionRange; log += precisionStep {
		if v, _ := marginal(unit * math.Exp(log)); v > most {
			at, most = log, v
		}
	}
	// Bisection of the slope about the best of the steps.
	low, high := at-precisionStep, min(at+precisionStep, precisionRange)
	for range 20 {
		middle := (low + high) / 2
		if _, slope := marginal(unit * math.Exp(middle)); slope > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	chosen := unit * math.Exp(high)
	if chosen > *d && unit < *d {
		return
	}
	before, _ := marginal(*d)
	if after, _ := marginal(chosen); after > before {
		*d = chosen
	}
}

// mainEvidence returns what the rows say of the linear weight of feature j: the precision without the prior's, and the
// right side.
func (r *Refit) mainEvidence(j int) (precision, right float64) {
	x := r.problem.X
	mean, _ := r.state.Row(j)
	rows, place := r.columns.column(j)
	for e, i := range rows {
		v := x.Value[x.Start[i]+int(place[e])]
		precision += r.omega[i] * v * v
		// The target less what all else predicts: z without this weight.
		right += v * (r.right[i] - r.omega[i]*(r.mean[i]-v*mean[0]))
	}
	return precision, right
}

// updateMainEffect solves for the linear weight of feature j.
func (r *Refit) updateMainEffect(j int) {
	rows, place := r.columns.column(j)
	if len(rows) == 0 {
		r.reset(j)
		return
	}
	x := r.problem.X
	mean, cov := r.state.Row(j)
	precision, right := r.mainEvidence(j)
	precision += r.state.PrecisionOf(int(r.state.Field[j]))[0]
	change := right/precision - mean[0]
	mean[0] += change
	cov[0] = 1 / precision
	r.logDet[j] = -math.Log(precision)
	for e, i := range rows {
		// So that the next feature of the row finds z as it is now.
		r.mean[i] += x.Value[x.Start[i]+int(place[e])] * change
	}
}
