package solver

import (
	"math"

	"github.com/refitd/refitd/solver/internal/full"
	"github.com/refitd/refitd/solver/internal/output"
	"gonum.org/v1/gonum/floats"
)

// refitFull refits output weights and basis together if the settings ask for it, from several starts if so wanted.
func (r *refits) refitFull(several bool) {
	if r.s.Refit == Full {
		r.sinceFull = 0
		r.refitJointly(r.s.Solver,
			output.FitLimits{Tolerance: r.s.Tolerance, Span: fullSpan, Iterations: r.s.FullIterations}, several)
	}
}

// refitJointly refits output weights and basis together, with the linear term and the bias fixed, from the current
// point or several. A result that is not better by a pass over all rows is dropped. In the unit-ball form the basis
// vectors are then scaled to unit length, with what that takes off the kernel moved into their weights: predictions
// stay, and the penalty falls or stays. In the ridge form they keep their lengths.
func (r *refits) refitJointly(method Method, limits output.FitLimits, several bool) {
	if r.k == 0 || r.workers.Cancelled() {
		return
	}
	ridge := 0.0
	if r.s.Refit == Full {
		ridge = r.s.BasisRidge
	}
	if r.full == nil {
		r.full = full.NewFullFit(r.p, r.s.Kernel, r.s.form(), ridge, r.output.Offset, r.workers)
	}
	f := r.full
	f.Resize(r.k)
	r.linear.PredictTo(f.Offset, r.linear.Theta)
	u := r.point()
	before := f.Pass(u, nil) + f.Term(u)
	switch {
	case method == Stochastic:
		used, _ := f.Stochastic(u, output.StochasticEpochs, r.shuffle)
		r.iterations.StochasticEpochs += used
	case method == SVRG:
		used, _ := f.Svrg(u, output.StochasticEpochs, r.shuffle)
		r.iterations.StochasticEpochs += used
	case several:
		r.iterations.FISTAIterations += f.MinimizeFromStarts(u, limits, r.shuffle)
	default:
		// A hybrid refit starts from weights that are refitted: ten joint iterations then lower the objective more than
		// four epochs (ML-100k).
		r.iterations.FISTAIterations += f.Minimize(u, limits)
	}
	if ridge == 0 {
		f.Normalize(u)
	}
	after := f.Pass(u, nil) + f.Term(u)
	phi := make([][]float64, r.k)
	for row := range phi {
		phi[row] = make([]float64, r.p.X.NumRows())
	}
	f.ActivationsTo(phi, u)
	if r.workers.Cancelled() || !(after < before) {
		return
	}
	v, h := f.Split(u)
	copy(r.v, v)
	r.output.Phi = phi
	for row := range r.k {
		basis := make([]float64, r.p.X.NumColumns) // the old one may be part of a saved point
		for j := range basis {
			basis[j] = h[j*r.k+row]
		}
		r.basis[row] = basis
	}
}

// balance scales each basis vector, and its weights against it, to the length of least λΩ(V) + ½ρ‖H‖²: where both terms
// of the row are equal, at degree 3 where the second is 3/2 of the first. Predictions stay and the objective never
// rises. It does nothing without a ridge or in constrained form.
func (r *current) balance() {
	if r.basisRidge() == 0 || r.s.Tau > 0 {
		return
	}
	for row, h := range r.basis {
		weights := r.v[row*r.m : row*r.m+r.m]
		term, ridge := r.s.Lambda*r.s.Penalty.RowNorm(weights), 0.5*r.s.BasisRidge*floats.Dot(h, h)
		if term == 0 || ridge == 0 {
			continue
		}
		square := math.Sqrt(term / ridge) // factor on ‖h‖²
		if r.s.Kernel.Degree() == 3 {
			square = math.Pow(1.5*term/ridge, 0.4)
		}
		factor := r.s.Kernel.OfSquare(square)
		r.basis[row] = floats.ScaleTo(make([]float64, len(h)), math.Sqrt(square), h)
		r.output.Phi[row] = floats.ScaleTo(make([]float64, len(r.output.Phi[row])), factor, r.output.Phi[row])
		floats.Scale(1/factor, weights)
	}
}

// point returns the current weights and basis as a point of a full refit.
func (r *current) point() []float64 {
	u := make([]float64, len(r.v)+r.p.X.NumColumns*r.k)
	copy(u, r.v)
	for row, basis := range r.basis {
		for j, x := range basis {
			u[len(r.v)+j*r.k+row] = x
		}
	}
	return u
}

// basisRidge returns the ridge term of the basis, ½ρ‖H‖², 0 unless refits are full.
func (r *current) basisRidge() float64 {
	if r.s.Refit != Full || r.s.BasisRidge == 0 {
		return 0
	}
	sum := 0.0
	for _, h := range r.basis {
		sum += floats.Dot(h, h)
	}
	return 0.5 * r.s.BasisRidge * sum
}
