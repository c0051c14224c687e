package posterior

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
)

// updateWeights refits the output weights V and undoes what does not raise the evidence bound. On the quadratic bound V_c solves a k×k
// system, (Σ_i ω_ic E[φφᵀ]) V_c = Σ_i E[φ (right_c − ω_c·linear_c)]; E[φφᵀ] includes the covariance of the activations. A ridge of 1
// around the current V keeps outputs that hardly occur where they are.
//
// V[r,·] times a, h_r over √a and the precision of h_r times a are the same model and the same bound. So rows of V are kept at mean
// square 1, which gives coordinates and their precisions the meaning that they have in the shared form, where V is ±1. The precision may
// meet its cap there; what that costs counts.
func (o *outputSweep) updateWeights(ctx context.Context) error {
	if o.k == 0 {
		return nil
	}
	s := o.state
	before := o.likelihood() - o.divergence()
	o.observe()
	weights, mean, spread, precision := s.Weights, o.mean, o.spread, append([]float64(nil), s.Precision...)
	s.Weights = o.solveWeights()
	if err := ctx.Err(); err != nil {
		s.Weights = weights
		return err
	}
	scale := s.normaliseWeights()
	undo := func() {
		for r := range scale {
			scale[r] = 1 / scale[r]
		}
		o.scaleBasis(scale)
		s.Weights, o.mean, o.spread = weights, mean, spread
		copy(s.Precision, precision)
	}
	o.scaleBasis(scale)
	for f := range s.NumFields {
		d := s.precision(f)[o.m:]
		for r := range d {
			d[r] = min(d[r]/scale[r], o.cap)
		}
	}
	o.mean, o.spread = make([]float64, len(mean)), make([]float64, len(spread))
	o.predict()
	if !(o.likelihood()-o.divergence() >= before) { // NaN counts as worse
		undo()
	}
	return nil
}

// solveWeights returns the maximum of the bound over V. O(n·(nnz·k² + m·k²)).
func (o *outputSweep) solveWeights() []float64 {
	s, m, k := o.state, o.m, o.k
	p := packedSize(k)
	systems := m
	if s.fixedCurvature() {
		systems = 1
	}
	left, right := make([]float64, lanes*systems*p), make([]float64, lanes*m*k)
	o.inLanes(func(lane, lo, hi int) {
		view := newOutputView(s)
		a, b := left[lane*systems*p:], right[lane*m*k:]
		for i := lo; i < hi; i++ {
			index, value := o.problem.X.Row(i)
			view.gather(index, value)
			view.covariances()
			addOuter(view.phiCov, 1, view.phi)
			omega, target := o.row(o.omega, i), o.row(o.right, i)
			for c, w := range omega {
				if systems == m {
					floats.AddScaled(a[c*p:c*p+p], w, view.phiCov)
				}
				to := b[c*k : c*k+k]
				floats.AddScaled(to, target[c]-w*view.linear[c], view.phi)
				floats.AddScaled(to, -w, view.cross[c*k:c*k+k])
			}
			if systems == 1 {
				floats.AddScaled(a[:p], o.problem.Weight(i), view.phiCov)
			}
		}
	})
	for lane := 1; lane < lanes; lane++ {
		floats.Add(left[:systems*p], left[lane*systems*p:(lane+1)*systems*p])
		floats.Add(right[:m*k], right[lane*m*k:(lane+1)*m*k])
	}
	unit, zero := make([]float64, m), make([]float64, m)
	if systems == 1 {
		s.observeOutputs(unit, make([]float64, m), zero, zero, zero, 1)
	}
	out := make([]float64, k*m)
	factor, v := make([]float64, p), make([]float64, k)
	for c := range m {
		if systems == 1 {
			floats.ScaleTo(factor, unit[c], left[:p])
		} else {
			copy(factor, left[c*p:c*p+p])
		}
		copy(v, right[c*k:c*k+k])
		for r := range k {
			factor[r*(r+1)/2+r]++
			v[r] += s.Weights[r*m+c]
		}
		if !cholesky(factor, k) {
			return append([]float64(nil), s.Weights...)
		}
		solveCholesky(factor, k, v)
		for r, w := range v {
			out[r*m+c] = w
		}
	}
	return out
}

// normaliseWeights scales the rows of V to mean square 1 and returns the factor a_r that each basis vector's activation takes over. A row
// that has vanished stays.
func (s *State) normaliseWeights() []float64 {
	m := len(s.Bias)
	scale := make([]float64, s.NumBasis)
	for r := range scale {
		row := s.Weights[r*m : r*m+m]
		scale[r] = floats.Norm(row, 2) / math.Sqrt(float64(m))
		if !(scale[r] > 1e-100) {
			scale[r] = 1
			continue
		}
		floats.Scale(1/scale[r], row)
	}
	return scale
}

// scaleBasis multiplies the coordinates of basis vector r by √a_r.
func (o *outputSweep) scaleBasis(a []float64) {
	s, m, k := o.state, o.m, o.k
	root := make([]float64, k)
	change := 0.0
	for r, v := range a {
		root[r] = math.Sqrt(v)
		change += math.Log(v)
	}
	for j := range s.Field {
		mean, cov := s.Row(j)
		floats.Mul(mean[m:], root)
		for c := range m {
			floats.Mul(cov[m+c*k:m+c*k+k], root)
		}
		basis := cov[m+m*k:]
		for r, i := 0, 0; r < k; r++ {
			for t := 0; t <= r; t++ {
				basis[i] *= root[r] * root[t]
				i++
			}
		}
		o.logDet[j] += change
	}
}
