package solver

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// spectrum is what a solve knows of Z = Σ_r v_r h_r h_r' in addition to the vectors and their weights.
type spectrum struct {
	fit     *correctiveFit // nil for diagonal refits
	split   int            // of Rows.split, for ANOVA
	factors *factorDescent // nil where refits move no vectors: those of the whole Z, or WeightsOnly
}

// moves reports whether refits move the vectors together with their weights.
func (s *spectrum) moves() bool { return s != nil && s.factors != nil }

// wholeColumns is up to how many columns, if MaxBasis leaves room for all, refits are of the whole Z: a pass over dense rows then costs no more than one over
// the span of so many vectors, and no vector is missing from it, so that one refit takes the place of dozens. On 500 dense rows of 50 columns
// and small λ the way over spans took half a minute.
const wholeColumns = 64

// wholeSteps is after how many steps refits of the whole Z are given up: one that reaches its optimum leaves no vector
// to enter, and ordinary problems take one to six steps. Those of separable classes and a λ near 0 took hundreds. From
// there on refits are those of Algorithm 1.
const wholeSteps = 8

// isWhole reports whether refits are of the whole Z.
func (s *spectrum) isWhole() bool { return s != nil && s.fit != nil && s.fit.whole }

// besideDominant is the number of eigenvectors sought in addition to the dominant one: what enters together takes one
// refit. On ML-100k with β = 20 single vectors take twice the time to the same gap.
const besideDominant = 7

// carefulSteps are the Krylov vectors of careful searches, where they are no more than boundRoom numbers: with fewer, those that start from the vectors
// found before miss others close to them.
const carefulSteps = 60

// search returns the search for eigenvectors: for one output there is room for more of them.
func (s *spectrum) search(o oracleSearch, d int) oracleSearch {
	if s == nil {
		return o
	}
	o.eigen.further = besideDominant
	if o.eigen.tolerance <= fineSearch.tolerance {
		o.eigen.dimension = max(o.eigen.dimension, min(carefulSteps, int(boundRoom)/max(1, d)))
	}
	return o
}

// entering returns the vectors that enter together, at most room of them: the selected one and those further
// eigenvectors that violate optimality.
func (s *spectrum) entering(found selection, threshold float64, room int) [][]float64 {
	if s == nil {
		return [][]float64{found.basis}
	}
	var chosen [][]float64
	enter := func(h []float64, value float64) {
		if s.split > 0 && value > 0 { // mirrored, so that it gets a positive weight like the others
			h = append([]float64(nil), h...)
			floats.Scale(-1, h[s.split:])
		}
		for _, other := range chosen {
			if math.Abs(floats.Dot(h, other)) > alike {
				return
			}
		}
		chosen = append(chosen, h)
	}
	enter(found.basis, found.gradient[0])
	for t, value := range found.eigen.furtherValues {
		if math.Abs(value) > threshold && len(chosen) < room {
			enter(found.eigen.further[t], value)
		}
	}
	return chosen
}

// refitSpectrum refits Z over the span of the basis vectors, which become its eigenvectors.
func (r *solve) refitSpectrum(limits fitLimits) {
	f := r.spectrum.fit
	if f == nil || r.k == 0 || r.workers.cancelled() {
		return
	}
	var axes [][]float64
	var sum blas64.Symmetric
	if f.whole {
		axes, sum = matrixOverAll(r.basis, r.v)
	} else {
		axes, sum = matrixOver(r.basis, r.v)
	}
	k := len(axes)
	a := make([]float64, k*k)
	for t := range k {
		for u := t; u < k; u++ {
			a[t*k+u], a[u*k+t] = sum.Data[t*k+u], sum.Data[t*k+u]
		}
	}
	r.linear.predictTo(r.output.offset, r.linear.theta)
	f.begin(axes, r.output.offset)
	theta := append([]float64(nil), r.linear.theta...)
	done := false
	if f.newton != nil {
		steps, ok := f.newton.run(a, theta, limits.tolerance/float64(limits.span))
		r.result.NewtonIterations += steps
		if f.newton.short >= shortModels {
			r.spectrum = nil
			return
		}
		if done = ok; !done {
			r.linear.predictTo(r.output.offset, r.linear.theta)
			copy(theta, r.linear.theta)
		}
	}
	if !done {
		r.result.FISTAIterations += accelerated(f, r.workers, &f.smooth, a, limits)
		f.end(theta, a)
	}
	if r.workers.cancelled() {
		return
	}
	if vectors, values, ok := eigenvectorsOf(symmetricOf(a, k), axes); ok {
		copy(r.linear.theta, theta)
		vectors, values = r.spectrum.fold(vectors, values)
		r.replace(vectors)
		copy(r.v, values)
	}
}

// matrixOverAll is matrixOver in the coordinates of the columns.
func matrixOverAll(vectors [][]float64, v []float64) (axes [][]float64, sum blas64.Symmetric) {
	d := len(vectors[0])
	sum = newSymmetric(d)
	for r, h := range vectors {
		blas64.Syr(v[r], blas64.Vector{N: d, Data: h, Inc: 1}, sum)
	}
	for j := range d {
		axis := make([]float64, d)
		axis[j] = 1
		axes = append(axes, axis)
	}
	return axes, sum
}

// fold returns eigenvectors and eigenvalues that predict the same from as few vectors as can be where every row has
// one feature of each of two fields. Only the block B of Z between the fields counts there: each vector (a, b) of
// weight v is as good as (a, −b) of weight −v, so that half a dozen of mixed signs may represent a B of rank three.
// Half of Z less its mirror image has the eigenvalues ±σ/2 for the singular values σ of B; those above 0, twice, have
// the same B and a nuclear norm no larger than that of Z.
func (s *spectrum) fold(vectors [][]float64, values []float64) ([][]float64, []float64) {
	if s.split == 0 || len(vectors) == 0 {
		return vectors, values
	}
	var both [][]float64
	var weights []float64
	for r, h := range vectors {
		mirrored := append([]float64(nil), h...)
		floats.Scale(-1, mirrored[s.split:])
		both, weights = append(both, h, mirrored), append(weights, values[r], -values[r])
	}
	axes, sum := matrixOver(both, weights)
	all, eigenvalues, ok := eigenvectorsOf(sum, axes)
	if !ok {
		return vectors, values
	}
	vectors, values = nil, nil
	for r, x := range eigenvalues {
		if x > 0 {
			vectors, values = append(vectors, all[r]), append(values, x)
		}
	}
	return vectors, values
}

// toEigenvectors brings Z to its eigendecomposition and describes it in the result: objective and gap fall by what the penalty falls.
func (r *solve) toEigenvectors() {
	res, before := &r.result, floats.Norm(r.v, 1)
	axes, sum := matrixOver(r.basis, r.v)
	if vectors, values, ok := eigenvectorsOf(sum, axes); ok {
		vectors, values = r.eigen.fold(vectors, values)
		r.basis, r.v, r.k = vectors, values, len(vectors)
		fall := max(0, r.s.Lambda*(before-floats.Norm(values, 1)))
		res.Objective -= fall
		res.ConvexObjective -= fall
		res.Gap = max(0, res.Gap-fall)
		res.GapEstimate = min(res.Gap, max(0, res.GapEstimate-fall))
	}
	res.NuclearNorm, res.Rank = floats.Norm(r.v, 1), r.k
}
