package solver

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/output"
	"gonum.org/v1/gonum/floats"
)

// merge replaces basis vectors by fewer ones where that does not raise the objective. With ℓ1 or one output the
// spectral decomposition of Σ_r v_rc h_r h_rᵀ gives the same predictions at the least norm, with no more vectors per
// output than their rank. With the other penalties vectors of nearly the same direction become one, which is refitted
// and kept if the objective is no higher. Lengths have to be 1: nothing is done with a ridge on the basis.
func (r *refits) merge() {
	if r.k < 2 || r.basisRidge() > 0 || r.workers.Cancelled() {
		return
	}
	if r.isSpectral() {
		r.diagonalize()
		return
	}
	for _, cosine := range mergeCosines {
		if r.mergeAlike(cosine) {
			return
		}
	}
}

// mergeCosines are the |cosines| from which on basis vectors count as alike, tried in order.
var mergeCosines = [...]float64{0.99, 0.9999}

// isSpectral reports whether the penalty is the sum of the nuclear norms of the outputs' Σ_r v_rc h_r h_rᵀ, over all
// ways to write them.
func (r *current) isSpectral() bool {
	return r.s.Kernel.Degree() == 2 && (r.s.Penalty == L1 || r.m == 1)
}

// diagonalize replaces the basis vectors of each output by the eigenvectors of Σ_r v_rc h_r h_rᵀ that are not in its
// null space, if there are fewer of them.
func (r *current) diagonalize() {
	var vectors [][]float64
	var weights []float64 // one per vector
	var outputs []int
	for c := range r.m {
		var rows []int
		for row := range r.k {
			if r.v[row*r.m+c] != 0 {
				rows = append(rows, row)
			}
		}
		found, values, ok := r.eigenvectors(rows, c)
		if !ok {
			return
		}
		for t, h := range found {
			vectors, weights, outputs = append(vectors, h), append(weights, values[t]), append(outputs, c)
		}
	}
	if len(vectors) >= r.k {
		return
	}
	r.replace(vectors)
	for t, w := range weights {
		r.v[t*r.m+outputs[t]] = w
	}
}

// replace puts basis vectors without weights in place of those of the model.
func (r *current) replace(vectors [][]float64) {
	r.basis, r.output.Phi, r.v, r.k = nil, nil, nil, 0
	r.append(vectors...)
}

// eigenvectors returns those and the eigenvalues of Σ v_rc h_r h_rᵀ over the given rows, without its null space.
func (r *current) eigenvectors(rows []int, c int) (vectors [][]float64, values []float64, ok bool) {
	var chosen [][]float64
	var weights []float64
	for _, row := range rows {
		chosen, weights = append(chosen, r.basis[row]), append(weights, r.v[row*r.m+c])
	}
	axes, sum := eigen.MatrixOver(chosen, weights)
	return eigen.EigenvectorsOf(sum, axes)
}

// mergeAlike merges groups of basis vectors whose |cosine| with their first one is at least the given one, and refits.
// It reports whether there were such groups and the objective did not rise; otherwise nothing has changed.
func (r *refits) mergeAlike(cosine float64) bool {
	vectors, weights := r.alike(cosine)
	if len(vectors) == r.k {
		return false
	}
	before := r.here()
	r.replace(vectors)
	copy(r.v, weights)
	r.refitJointly(FISTA, output.FitLimits{Tolerance: r.s.Tolerance, Span: fullSpan, Iterations: settleIterations},
		false)
	r.refitOutput(r.s.Tolerance, fullSpan)
	if r.score(); r.workers.Cancelled() {
		return false
	}
	if r.objective <= before.objective {
		return true
	}
	r.back(before)
	r.score()
	return false
}

// alike returns a basis vector for each group, in the mean direction of the lines of its vectors, with the sum of their
// weights.
func (r *current) alike(cosine float64) (vectors [][]float64, weights []float64) {
	group, groups := make([]int, r.k), []int{} // first vectors
	for row, h := range r.basis {
		group[row] = len(groups)
		for g, first := range groups {
			if math.Abs(floats.Dot(h, r.basis[first])) >= cosine {
				group[row] = g
				break
			}
		}
		if group[row] == len(groups) {
			groups = append(groups, row)
		}
	}
	vectors, weights = make([][]float64, len(groups)), make([]float64, len(groups)*r.m)
	for g, first := range groups {
		h := make([]float64, len(r.basis[first]))
		for row, other := range r.basis {
			if group[row] != g {
				continue
			}
			v := r.v[row*r.m : row*r.m+r.m]
			side := math.Copysign(1, floats.Dot(other, r.basis[first]))
			floats.AddScaled(weights[g*r.m:g*r.m+r.m], r.s.Kernel.OfLength(1, side), v)
			floats.AddScaled(h, side*dense.Norm2(v), other)
		}
		if eigen.NormalizeColumns(h, 1); dense.Norm2(h) == 0 {
			copy(h, r.basis[first])
		}
		vectors[g] = h
	}
	return vectors, weights
}
