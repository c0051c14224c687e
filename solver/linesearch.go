package solver

import (
	"github.com/refitd/refitd/solver/internal/linear"
	"gonum.org/v1/gonum/floats"
)

// bySteps reports whether steps by line search take the place of refits.
func (r *current) bySteps() bool { return r.s.Refit == LineSearch && !r.s.WeightsOnly }

// refitLinearPart is the refit of a solve by line search: of the linear term and the bias, ever sharper while they
// limit the gap. At MaxBasis the vectors are brought to fewer ones, where that changes nothing but Ω, which may fall.
func (r *refits) refitLinearPart() {
	if r.prune(); r.k >= r.s.MaxBasis && r.isSpectral() && !r.workers.Cancelled() {
		r.diagonalize()
	}
	r.refitLinear(r.linearShare*r.s.Tolerance, 150)
}

// sharpen makes the refits of the linear term sharper if its part of the gap is above a share of what is asked for.
func (r *refits) sharpen(terms gapTerms) {
	if part, _, _ := terms.ridge.At(1); part > linear.SettleShare*r.s.Tolerance*terms.objective {
		r.linearShare = max(0.1*r.linearShare, 1e-12)
	}
}

// goOn returns 0 if a solve by line search is to make another step, or why it ends. Now describes the current point,
// whose objective has fallen by decrease since the one before.
func (r *solve) goOn(terms gapTerms, now Step, decrease float64, limit bool) Status {
	enough := now.Gap <= r.s.Tolerance*terms.objective
	switch {
	case r.rough() && (enough || decrease <= stallFraction*r.s.Tolerance*r.objective):
		return Stalled
	case limit:
		return BasisLimit
	case enough || decrease <= 0x1p-52*r.objective:
		if r.spent() {
			return TimeBudget
		}
		if !r.concludeSteps(terms) {
			return Stalled
		}
	}
	r.sharpen(terms)
	return 0
}

// concludeSteps is conclude of a solve by line search: it searches carefully and, where that finds nothing either,
// certifies the point.
func (r *solve) concludeSteps(terms gapTerms) (goesOn bool) {
	fell := r.rounds == 0 || r.objective < r.best
	r.concluded, r.rounds, r.best = len(r.result.Steps), r.rounds+1, r.objective
	beyond := func() bool { return terms.at(r.last.Criterion) > r.s.Tolerance*terms.objective }
	r.last = r.gamma.SelectBasis(r.s.Penalty, r.last.Eigen.Vectors, r.careful(), r.s.Seed)
	if fell && beyond() {
		return true
	}
	r.certificate = r.certify(terms, false)
	if fell && r.certificate.exact && beyond() {
		r.certificate = nil
		return true
	}
	return false
}

// lineStep moves the weights toward the vertex of the last selection. The point stays what it is where no step lowers
// the objective.
func (r *solve) lineStep(terms gapTerms) {
	reach := r.s.Tau
	if reach == 0 {
		reach = max(terms.norm, min(terms.objective/r.s.Lambda, maxParameter))
	}
	gradient, row := r.last.Gradient, r.k
	if terms.own >= r.last.Criterion {
		for row = range r.k {
			if gradient = terms.rows[row*r.m : row*r.m+r.m]; r.s.Penalty.RowDual(gradient) >= terms.own {
				break
			}
		}
	}
	vertex, added := make([]float64, r.m), 0.0 // added is λΩ(S)
	switch {
	case r.s.Penalty.RowDual(gradient) <= r.s.Lambda:
		row = -1
	case row == r.k:
		r.append(r.last.Basis)
		fallthrough
	default:
		r.s.Penalty.Subgradient(vertex, gradient)
		floats.Scale(-reach, vertex)
		added = r.s.Lambda * reach
	}
	toward := make([]float64, len(r.v))
	if row >= 0 {
		copy(toward[row*r.m:], vertex)
	}
	floats.Sub(toward, r.v)
	r.linear.PredictTo(r.output.Offset, r.linear.Theta)
	length := r.output.SearchAlong(r.v, toward, added-r.output.Form.Term(r.v, r.k, r.m))
	if r.workers.Cancelled() {
		return
	}
	floats.AddScaled(r.v, length, toward)
	if length == 1 { // exactly
		clear(r.v)
		if row >= 0 {
			copy(r.v[row*r.m:], vertex)
		}
	}
}
