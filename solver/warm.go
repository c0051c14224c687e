package solver

import (
	"fmt"
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"gonum.org/v1/gonum/floats"
)

// checkModel returns an error that wraps ErrSettings if a model does not fit the problem.
func (r *current) checkModel(model *Model) error {
	d, k := r.p.X.NumColumns, model.NumBasis
	switch {
	case model.Kernel != r.s.Kernel:
		return fmt.Errorf("%w: model has kernel %v, not %v", ErrSettings, model.Kernel, r.s.Kernel)
	case model.NumFeatures != d || model.NumOutputs != r.m:
		return fmt.Errorf("%w: model of %d features and %d outputs for a problem of %d and %d",
			ErrSettings, model.NumFeatures, model.NumOutputs, d, r.m)
	case len(model.Basis) != d*k || len(model.Weights) != k*r.m || len(model.Bias) != r.m || model.Linear != nil && len(
		model.Linear) != d*r.m:
		return fmt.Errorf("%w: model of %d basis vectors has parts of other lengths", ErrSettings, k)
	}
	for _, part := range [][]float64{model.Basis, model.Weights, model.Linear, model.Bias} {
		for _, v := range part {
			if !(math.Abs(v) <= maxParameter) {
				return fmt.Errorf("%w: model has a parameter %g, beyond ±%g", ErrSettings, v, maxParameter)
			}
		}
	}
	return nil
}

// maxParameter bounds the parameters of a warm model, so that no square of a prediction overflows.
const maxParameter = 1e12

// load takes over a warm model, with basis vectors scaled to unit norm, whose effect on the kernel is moved into the
// weights.
func (r *current) load(warm *Model) error {
	d := r.p.X.NumColumns
	if err := r.checkModel(warm); err != nil {
		return fmt.Errorf("warm start: %w", err)
	}
	if r.s.BiasRidge > 0 {
		copy(r.linear.Theta[d*r.m:], warm.Bias)
	}
	if r.s.LinearRidge > 0 {
		copy(r.linear.Theta[:d*r.m], warm.Linear)
	}
	var vectors [][]float64
	var weights []float64
	for b := range warm.NumBasis {
		h := make([]float64, d)
		for j := range d {
			h[j] = warm.Basis[j*warm.NumBasis+b]
		}
		norm := dense.Norm2(h)
		if r.s.Kernel.OfLength(1, norm) == 0 { // or too short to count
			continue
		}
		floats.Scale(1/norm, h)
		vectors = append(vectors, h)
		for _, w := range warm.Weights[b*r.m : b*r.m+r.m] {
			weights = append(weights, r.s.Kernel.OfLength(w, norm))
		}
	}
	r.append(vectors...)
	copy(r.v, weights)
	if r.s.Tau > 0 {
		r.s.Penalty.Project(r.v, r.k, r.m, r.s.Tau)
	}
	return nil
}

// makeRoom saves the current point and drops a fifth of the basis vectors, at least one: those of least ‖v_r‖ · ‖φ_r‖.
func (r *solve) makeRoom() {
	r.saved = r.complete
	gain := make([]float64, r.k)
	order := make([]int, r.k)
	for row := range r.k {
		gain[row] = dense.Norm2(r.v[row*r.m:row*r.m+r.m]) * floats.Norm(r.output.Phi[row], 2)
	}
	floats.ArgsortStable(append([]float64(nil), gain...), order)
	dropped := make([]bool, r.k)
	for _, row := range order[:(r.k+4)/5] {
		dropped[row] = true
	}
	r.keep(func(row int) bool { return !dropped[row] })
}
