package solver

import "github.com/refitd/refitd/solver/internal/gamma"

const (
	// tightenWork limits the multiplications of tighten, to about 0.02 s: it is for small problems, where it costs less
	// than a step of Algorithm 1.
	tightenWork = 2e7
	// tightenPasses is about how many passes over the kernel values a round of it takes.
	tightenPasses = 200
	// tightenRounds is the most rounds of it.
	tightenRounds = 40
	// tightenShare of the distance to the optimum is what the gap may exceed it by.
	tightenShare = 0.2
)

// tighten returns a gap of the current point that is at most the given one, where an eigensolver bounds Ω*(∇F). The
// least objective of the convex problem is the same whatever the limit of basis vectors, so Algorithm 1 continues
// from there beyond MaxBasis, with the dominant eigenvector of every output at once, and the dual objective at each
// of its points bounds it from below: the scaled gradient at a better point is a better dual point. The model stays
// what it was.
func (r *solve) tighten(objective, gap float64) float64 {
	if r.last.Eigen.Vectors == nil { // nothing was searched for
		return gap
	}
	lower, end, last := objective-gap, r.here(), r.last
	left := tightenWork / tightenPasses
	for range tightenRounds {
		cost := r.p.X.NumRows() * r.m * (r.k + r.m + 1)
		if left -= float64(cost); left < 0 || r.workers.Cancelled() {
			break
		}
		r.append(r.violating()...)
		r.refitOutput(r.s.Tolerance, fullSpan)
		r.refitLinear(0.01*r.s.Tolerance, 50)
		r.prune()
		r.score()
		terms := r.gapTerms()
		r.last = r.gamma.SelectBasis(r.s.Penalty, nil, gamma.FineOracle.By(r.s.Selection), r.s.Seed)
		bound := r.gamma.BoundDual(r.s.Penalty, r.s.Tolerance, r.s.Seed, nil)
		now := terms.at(bound.Value)
		if bound.Failure > 0 || r.workers.Cancelled() {
			break
		}
		lower = max(lower, terms.objective-now)
		if now <= tightenShare*(objective-lower) || terms.at(r.last.Criterion) <= r.s.Tolerance*terms.objective {
			break
		}
	}
	r.back(end)
	r.last = last
	return max(0, objective-lower)
}

// violating returns the vector of the last selection and the dominant eigenvectors of the outputs.
func (r *solve) violating() [][]float64 {
	vectors := [][]float64{r.last.Basis}
	for c := range r.m {
		h := make([]float64, r.p.X.NumColumns)
		for j := range h {
			h[j] = r.last.Eigen.Vectors[j*r.m+c]
		}
		vectors = append(vectors, h)
	}
	return vectors
}
