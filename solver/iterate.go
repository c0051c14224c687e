package solver

import (
	"context"
	"math"

	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/gamma"
)

// progress is what the steps of a loop know of those before.
type progress struct {
	tried int     // basis vectors that were added
	room  bool    // vectors of a warm model may make way for others
	last  float64 // objective of the step before
}

// renew is called where vectors of a warm model made way: this happens once, and the objective may rise by it.
func (p *progress) renew() { p.room, p.last = false, math.Inf(1) }

// iterate makes one step: a refit, a selection, and the vectors that enter. It returns why it is the last one, or 0.
func (r *solve) iterate(ctx context.Context, first bool, past *progress) Status {
	if r.spent() {
		return TimeBudget
	}
	if !first || !r.scored {
		r.refitAndScore(first, past.last)
	}
	if ctx.Err() != nil {
		return statusOf(ctx)
	}
	if r.s.WeightsOnly {
		return r.endOfWeights(ctx)
	}
	terms, found := r.selectNext(first)
	now := r.step(found, terms.at(found.Criterion))
	if ctx.Err() != nil {
		return statusOf(ctx)
	}
	r.result.Steps = append(r.result.Steps, now)
	r.complete = r.here()
	r.complete.convex, r.complete.gap = terms.objective, now.Gap
	if r.s.OnStep != nil && r.s.OnStep(now, r.model()) {
		return Interrupted
	}
	decrease := past.last - r.objective
	past.last = r.objective
	if r.bySteps() {
		return r.searchLine(ctx, terms, now, decrease, past)
	}
	none := found.Criterion <= terms.threshold() || now.Gap <= r.s.Tolerance*terms.objective
	if status := r.endOfSteps(ctx, none, decrease, past); status != 0 {
		return status
	}
	if r.k >= r.s.MaxBasis { // merging may have made room
		r.makeRoom()
		past.renew()
	}
	r.enter(terms.threshold(), past)
	return 0
}

// refitAndScore refits the weights and evaluates the point. A step is an early one as long as the objective, which was
// last before, falls by much.
func (r *solve) refitAndScore(first bool, last float64) {
	r.refit(first)
	r.prune()
	if r.scoreLoss(); r.early {
		fell := last-r.objective > max(earlyDecrease, r.slow())*r.objective
		r.early = fell && (first || r.spectrum.Fit != nil)
	}
	r.scoreRest()
}

// endOfWeights ends a solve of the weights alone, after its one refit, and returns the status of it.
func (r *solve) endOfWeights(ctx context.Context) Status {
	if r.s.MoveBasis {
		if r.moveBasis(); ctx.Err() != nil {
			return statusOf(ctx)
		}
	}
	r.result.Steps = append(r.result.Steps, r.step(gamma.Found{}, r.objective))
	r.complete = r.here()
	return BasisLimit
}

// selectNext searches the next basis vector, and returns the terms of the gap at the point with it. The first search of
// a warm start may certify the point instead.
func (r *solve) selectNext(first bool) (gapTerms, gamma.Found) {
	terms := r.gapTerms()
	if first && !r.scored && r.k > 0 && r.spectrum.Moves() && !r.rough() {
		terms = r.certifyWarm(terms)
	}
	found := r.search(terms.threshold())
	if r.early && found.Criterion <= terms.threshold() { // the linear term alone may lack something
		r.early = false
		r.scoreRest()
		terms = r.gapTerms()
		found = r.search(terms.threshold())
	}
	return terms, found
}

// searchLine ends a step of a solve by line search: it moves the weights toward the vector that was found. It returns
// why the step is the last one, or 0.
func (r *solve) searchLine(ctx context.Context, terms gapTerms, now Step, decrease float64, past *progress) Status {
	status := r.goOn(terms, now, decrease, r.atLimit(past.tried, past.room))
	switch {
	case ctx.Err() != nil:
		return statusOf(ctx)
	case status != 0:
		return status
	case r.k >= r.s.MaxBasis:
		r.makeRoom()
		past.renew()
	default:
		r.lineStep(terms)
		past.tried++
	}
	return 0
}

// endOfSteps returns why no basis vector enters any more, or 0. none says that the search found none. Where none was
// found, or the objective falls slowly, it concludes first.
func (r *solve) endOfSteps(ctx context.Context, none bool, decrease float64, past *progress) Status {
	limit, slow := r.atLimit(past.tried, past.room), r.crawls || decrease <= r.slow()*r.objective
	switch {
	case r.rough() && (decrease <= stallFraction*r.s.Tolerance*r.objective || r.spectrum.IsWhole() && r.k > 0),
		none && (limit || r.rough()):
		return Stalled
	case limit:
		return BasisLimit
	case r.rough() || !none && !slow:
		return 0
	case r.spent():
		return TimeBudget
	case r.crawls: // what is left is for refine
		r.concluded = len(r.result.Steps)
		return Stalled
	}
	r.early = false
	goesOn := r.conclude()
	if ctx.Err() != nil {
		return statusOf(ctx)
	}
	if past.last = r.objective; !goesOn {
		return Stalled
	}
	return 0
}

// enter adds the vectors of the last search to the model.
func (r *solve) enter(threshold float64, past *progress) {
	r.certificate = nil
	if r.spectrum.IsWhole() && len(r.result.Steps) >= convexfm.WholeSteps {
		r.spectrum = nil
	}
	entering := r.batch(r.spectrum.Entering(r.last, threshold, r.s.MaxBasis-r.k), threshold, r.s.MaxSteps-past.tried)
	r.append(entering...)
	past.tried += len(entering)
}

// closeGap stores the objective and the gap that the certificate bounds, tightened where that may bring it below the
// tolerance. A solve that is cancelled before has no result of it.
func (r *solve) closeGap() {
	if r.workers.Cancelled() {
		return
	}
	terms, bound := r.certificate.terms, r.certificate.bound
	objective, estimate := r.objective, terms.at(r.last.Criterion)
	gap := min(terms.at(bound.Value), max(0, terms.objective-r.lower))
	kind := Certified
	switch {
	case bound.Kind == "":
		kind = Estimated
	case bound.Failure == 0 && gap > r.s.Tolerance*terms.objective:
		gap = r.tighten(terms.objective, gap)
	}
	if r.workers.Cancelled() {
		return
	}
	res := &r.result
	res.Objective, res.ConvexObjective = objective, terms.objective
	res.Gap, res.GapKind, res.GapBound, res.GapFailure = gap, kind, bound.Kind, bound.Failure
	res.GapEstimate = min(gap, estimate)
}

// endEstimated goes back to the best complete point, whose gap is an estimate.
func (r *solve) endEstimated() {
	end := r.complete
	if r.saved != nil && r.saved.objective < end.objective {
		end = r.saved
	}
	r.back(end)
	res := &r.result
	res.Objective, res.ConvexObjective = end.objective, end.convex
	res.Gap, res.GapEstimate, res.GapKind = end.gap, end.gap, Estimated
}
