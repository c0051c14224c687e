package solver

import (
	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/output"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// refitSpectrum refits Z over the span of the basis vectors, which become its eigenvectors.
func (r *refits) refitSpectrum(limits output.FitLimits) {
	f := r.spectrum.Fit
	if f == nil || r.k == 0 || r.workers.Cancelled() {
		return
	}
	var axes [][]float64
	var sum blas64.Symmetric
	if f.Whole {
		axes, sum = convexfm.MatrixOverAll(r.basis, r.v)
	} else {
		axes, sum = eigen.MatrixOver(r.basis, r.v)
	}
	k := len(axes)
	a := make([]float64, k*k)
	for t := range k {
		for u := t; u < k; u++ {
			a[t*k+u], a[u*k+t] = sum.Data[t*k+u], sum.Data[t*k+u]
		}
	}
	r.linear.PredictTo(r.output.Offset, r.linear.Theta)
	f.Begin(axes, r.output.Offset)
	theta := append([]float64(nil), r.linear.Theta...)
	done := false
	if f.Newton != nil {
		steps, ok := f.Newton.Run(a, theta, limits.Tolerance/float64(limits.Span))
		r.iterations.NewtonIterations += steps
		if f.Newton.Short >= convexfm.ShortModels {
			r.spectrum = nil
			return
		}
		if done = ok; !done {
			r.linear.PredictTo(r.output.Offset, r.linear.Theta)
			copy(theta, r.linear.Theta)
		}
	}
	if !done {
		iterations := output.Accelerated(f, r.workers, &f.Smooth, a, limits)
		r.iterations.FISTAIterations += iterations
		r.crawls = r.crawls || r.leavesToRefine(iterations == limits.Iterations)
		f.End(theta, a)
	}
	if r.workers.Cancelled() {
		return
	}
	if vectors, values, ok := eigen.EigenvectorsOf(convexfm.SymmetricOf(a, k), axes); ok {
		copy(r.linear.Theta, theta)
		vectors, values = r.spectrum.Fold(vectors, values)
		r.replace(vectors)
		copy(r.v, values)
	}
}

// toEigenvectors brings Z to its eigendecomposition and describes it in the result: objective and gap fall by what the
// penalty falls.
func (r *solve) toEigenvectors() {
	res, before := &r.result, floats.Norm(r.v, 1)
	axes, sum := eigen.MatrixOver(r.basis, r.v)
	if vectors, values, ok := eigen.EigenvectorsOf(sum, axes); ok {
		vectors, values = r.eigen.Fold(vectors, values)
		r.basis, r.v, r.k = vectors, values, len(vectors)
		fall := max(0, r.s.Lambda*(before-floats.Norm(values, 1)))
		res.Objective -= fall
		res.ConvexObjective -= fall
		res.Gap = max(0, res.Gap-fall)
		res.GapEstimate = min(res.Gap, max(0, res.GapEstimate-fall))
	}
	res.NuclearNorm, res.Rank = floats.Norm(r.v, 1), r.k
}
