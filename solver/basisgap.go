package solver

import (
	"context"
)

// What BasisGap does for a better bound. Where the Gram matrices of a refit take more than basisWork multiplications it
// leaves rounds out.
const (
	basisRounds = 8     // of refits at most
	basisLinear = 4     // rounds after which the linear term is refitted, too
	basisEnough = 1e-3  // of the objective: a smaller gap is not made smaller
	basisSlack  = 1.5   // times what the rounds took off the objective: no smaller gap is possible
	basisAim    = 1e-8  // tolerance of the refits
	basisWork   = 1.5e9 // n k² m
)

// BasisGap bounds how far the objective of a model is above the least that its own basis vectors, scaled to unit
// length, allow: whether its last refit was done, whatever other basis vectors would gain. It returns the objective of
// the model, too. The problem over a fixed basis,
//
//	min over V, w of F(ΦV, w) + λΩ(V) + ½α‖w‖²,
//
// is convex, and its gap that of gapTerms with the dual norm of Φ'∇F in place of that over all unit vectors: for V*
// with the same k rows s⟨Φ'∇F, V*⟩ + λΩ(V*) ≥ 0 as soon as sΩ*(Φ'∇F) ≤ λ. That norm is a maximum over
// k rows, so that it is exact and the gap no estimate. Where λ is small against it, the gap at the model itself says
// little; every other point over the basis bounds the same optimum from below, by its objective less its gap, and
// rounds of refits lead to better ones. The model is not changed.
//
// Lambda or Tau, Kernel, Penalty, the ridges, Workers, Yield and Budget of s are used. When ctx or the budget ends, the
// bound so far counts; before there is one the error is that of ctx. Other errors wrap ErrProblem or ErrSettings. 0 ≤
// gap ≤ objective, both finite. The numbers do not depend on the workers.
func BasisGap(ctx context.Context, p *Problem, model *Model, s Settings) (gap, objective float64, err error) {
	s.WeightsOnly, s.Refit, s.Solver, s.Tolerance, s.OnStep = true, OutputLayer, Newton, basisAim, nil
	ctx, cancel := s.Budget.within(ctx)
	defer cancel()
	run, err := newSolve(ctx, p, s)
	if err != nil {
		return 0, 0, err
	}
	if err := run.load(model); err != nil {
		return 0, 0, err
	}
	if run.begin(); run.complete == nil {
		return 0, 0, ctx.Err()
	}
	objective = run.objective
	lower, best := 0.0, objective
	rounds := basisRounds
	if float64(p.X.NumRows())*float64(run.k*run.k)*float64(run.m) > basisWork {
		rounds = 0
	}
	for round := 0; ; round++ {
		run.score()
		terms := run.gapTerms()
		bound := terms.objective - terms.at(0)
		if run.workers.Cancelled() {
			break
		}
		lower, best = max(lower, bound), min(best, terms.objective)
		gap = objective - lower
		if round == rounds || gap <= max(basisEnough*objective, basisSlack*(objective-best)) {
			break
		}
		if round%basisLinear == 0 {
			run.refitLinear(0.1*basisAim, 50)
		}
		run.refitOutput(basisAim, fullSpan)
	}
	return min(max(0, objective-lower), objective), objective, nil
}
