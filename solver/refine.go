package solver

import "github.com/refitd/refitd/solver/internal/convexfm"

// refinedShare of Tolerance is the relative gap that refine asks for.
const refinedShare = 0.1

// refinable reports whether the problem is one for refine: the penalty is the nuclear norm of one matrix, and rows and
// columns are few.
func (r *current) refinable() bool {
	return r.isSpectral() && r.m == 1 && r.s.Tau == 0 && r.basisRidge() == 0 && !r.bySteps() && !r.s.Rough &&
		!r.s.WeightsOnly && r.s.MaxBasis > 0 && convexfm.InteriorFits(r.p.X.NumRows(), r.p.X.NumColumns)
}

// leavesToRefine reports whether a refit that took so long leaves the rest to refine, whose objective is not as exact
// as that of refits that end.
func (r *current) leavesToRefine(long bool) bool { return long && !r.exact() && r.refinable() }

// refine brings a certified point whose gap is above Tolerance to the optimum by a barrier method, whose steps do not
// depend on λ, where the problem is small enough. Refits crawl where λ is near 0 and the rows can be fitted. The
// objective never rises. What the method knows of the optimum bounds the gap, too.
func (r *solve) refine() {
	terms, enough := r.certificate.terms, max(r.s.Tolerance, RoundingGap)
	if !r.refinable() || r.workers.Cancelled() || terms.at(r.certificate.bound.Value) <= enough*terms.objective {
		return
	}
	interior := convexfm.NewInterior(r.p, r.s.Kernel, r.linear, r.s.Lambda, r.workers)
	if interior == nil {
		return
	}
	found, ok := interior.Run(refinedShare*enough, r.s.MaxBasis)
	r.iterations.NewtonIterations += found.Steps
	if !ok || r.workers.Cancelled() {
		return
	}
	r.lower = found.Lower
	if !(found.Objective < r.objective) {
		return
	}
	before, certificate := r.here(), r.certificate
	r.replace(found.Vectors)
	copy(r.v, found.Weights)
	copy(r.linear.Theta, found.Theta)
	if r.score(); r.workers.Cancelled() {
		return
	}
	if r.objective < before.objective {
		r.spectrum = nil // its refits are done
		r.certificate = r.certify(r.gapTerms(), false)
		return
	}
	r.back(before)
	r.score()
	r.certificate = certificate
}
