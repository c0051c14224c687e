package solver

import (
	"github.com/refitd/refitd/solver/internal/convexfm"
	"gonum.org/v1/gonum/floats"
)

// certifyWarm makes a certificate of a warm start whose sweeps are done, after further sweeps if it is not within
// Tolerance before them, and returns the terms of where that ends. Mostly it is within Tolerance by now, and a bound
// takes fewer passes than a search.
func (r *solve) certifyWarm(terms gapTerms) gapTerms {
	if certified, _ := r.certifiedHere(terms); certified || r.workers.Cancelled() {
		return terms
	}
	r.descend(settleSweeps, convexfm.WarmShareAgain*r.s.Tolerance)
	r.prune()
	if r.score(); r.workers.Cancelled() {
		return terms
	}
	terms = r.gapTerms()
	r.certifiedHere(terms)
	return terms
}

// refitEarly is the refit of an early step: sweeps alone, which move the linear term as well, from rough weights of the
// vectors that entered.
func (r *refits) refitEarly(start bool) {
	if start {
		r.descend(convexfm.StartSweeps, basisShare*r.s.Tolerance)
		return
	}
	r.roughWeights()
	r.descend(convexfm.StepSweeps, r.s.Tolerance)
}

// roughWeights gives each vector without a weight the best one for it alone, on top of those before it, of squared
// loss or of its bound, from the gradients at the current point. It leaves these as they are on the way.
func (r *current) roughWeights() {
	bound := r.p.Loss.Curvature(1)
	for b, phi := range r.output.Phi {
		if r.v[b] != 0 || r.workers.Cancelled() {
			continue
		}
		curve := 0.0
		for i, x := range phi {
			curve += bound * r.p.Weight(i) * x * x
		}
		if curve == 0 {
			continue
		}
		weight := r.v[b : b+1]
		weight[0] = -floats.Dot(phi, r.gamma.Grad) / curve
		L1.Prox(weight, 1, 1, r.s.Lambda/curve)
		for i, x := range phi {
			r.gamma.Grad[i] += bound * r.p.Weight(i) * weight[0] * x
		}
	}
}

// descend moves basis vectors, their weights and the linear term together, in at most so many sweeps, until one lowers
// the objective by no more than tolerance of it. It does nothing where refits move no vectors.
func (r *refits) descend(sweeps int, tolerance float64) {
	if !r.spectrum.Moves() || r.k == 0 && r.linear.Idle() || r.workers.Cancelled() {
		return
	}
	f := r.spectrum.Factors
	r.evaluate()
	f.Begin(r.basis, r.v, r.pred)
	f.Run(sweeps, tolerance)
	vectors, v := f.End()
	r.replace(vectors)
	copy(r.v, v)
}
