package posterior

import (
	"context"
	"math"
)

// sweepMainEffects updates the fields that have linear weights alone, feature by feature, and keeps the means of z in step. O(nnz).
func (r *Refit) sweepMainEffects(ctx context.Context) error {
	s := r.state
	if s.MainOnly == nil {
		return nil
	}
	for j, f := range s.Field {
		if !s.MainOnly[f] {
			continue
		}
		if err := r.yield(ctx); err != nil {
			return err
		}
		r.updateMainEffect(j)
	}
	if r.pairs != nil {
		r.pairs.takeOffsets()
	}
	return nil
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
	precision, right := r.state.precision(int(r.state.Field[j]))[0], 0.0
	for e, i := range rows {
		v := x.Value[x.Start[i]+int(place[e])]
		precision += r.omega[i] * v * v
		right += v * (r.right[i] - r.omega[i]*(r.mean[i]-v*mean[0]))
	}
	change := right/precision - mean[0]
	mean[0] += change
	cov[0] = 1 / precision
	r.logDet[j] = -math.Log(precision)
	for e, i := range rows {
		r.mean[i] += x.Value[x.Start[i]+int(place[e])] * change
	}
}

// mainEffects returns the mean and variance of what linear weights alone add to z in a row.
func (s *State) mainEffects(index []int32, value []float64) (mean, variance float64) {
	for e, j := range index {
		if s.mainOnly(int(s.Field[j])) {
			m, c := s.Row(int(j))
			mean += value[e] * m[0]
			variance += value[e] * value[e] * c[0]
		}
	}
	return mean, variance
}
