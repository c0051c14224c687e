package sweep

import (
	"context"
	"math"

	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/floats"
)

// weightPasses bounds the passes over the basis vectors of one refit of V; k is small, so they are cheap compared
// with the sums over rows. Chosen by hand.
const weightPasses = 20

// updateWeights refits V, where there are basis vectors, and keeps it if the evidence bound does not fall.
func (o *outputSweep) updateWeights(ctx context.Context) error {
	if o.k == 0 {
		return nil
	}
	o.observe()
	weights := o.solveWeights(o.leastScale())
	if err := ctx.Err(); err != nil {
		return err
	}
	o.tryWeights(weights)
	return nil
}

// tryWeights makes the given weights the state's, scaled to rows of mean square 1, and undoes that and reports false if
// they do not raise the evidence bound.
//
// V[r,·] times a, h_r over √a and the precision of h_r times a are the same model and the same bound. Rows of V are
// kept at mean square 1 because that gives coordinates and their precisions the meaning that they have in the shared
// form, where V is ±1. A row may not shrink so far that a precision would exceed its cap on the way back: young vectors
// are not pruned through V either.
func (o *outputSweep) tryWeights(weights []float64) bool {
	s := o.state
	before := o.likelihood() - o.divergence()
	old, mean, spread, precision := s.Weights, o.mean, o.spread, append([]float64(nil), s.Precision...)
	s.Weights = weights
	scale := normaliseWeights(s)
	o.scaleBasis(scale)
	for f := range s.NumFields {
		d := s.PrecisionOf(f)[o.m:]
		for r := range d {
			d[r] = min(d[r]/scale[r], o.cap)
		}
	}
	o.mean, o.spread = make([]float64, len(mean)), make([]float64, len(spread))
	o.predict()
	// The quadratic that V maximises is a bound of the bound at the pseudo-observations: scaling and the caps may still
	// lose.
	if o.likelihood()-o.divergence() >= before {
		return true
	}
	for r := range scale {
		scale[r] = 1 / scale[r]
	}
	o.scaleBasis(scale)
	s.Weights, o.mean, o.spread = old, mean, spread
	copy(s.Precision, precision)
	return false
}

// leastScale returns for every basis vector how small the mean square of its row of V may become: the largest share of
// the cap that a precision of it has.
func (o *outputSweep) leastScale() []float64 {
	least := make([]float64, o.k)
	for f := range o.state.NumFields {
		for r, d := range o.state.PrecisionOf(f)[o.m:] {
			least[r] = max(least[r], d/o.cap)
		}
	}
	for r, v := range least {
		least[r] = min(v*v, 1) // V scales by a where the precision does by 1/a
	}
	return least
}

// solveWeights refreshes the variances of the outputs and returns V closer to the maximum of the quadratic bound Σ_c ½
// V_cᵀ A_c V_c − V_cᵀ b_c with A_c = Σ_i ω_ic E[φφᵀ] and b_c = Σ_i E[φ (right_c − ω_c·linear_c)], row by row of V, each
// the maximum given the others with a mean square of at least least[r]. O(n·(nnz·k² + m·k²)), one pass over the rows.
func (o *outputSweep) solveWeights(least []float64) []float64 {
	s, m, k := o.state, o.m, o.k
	p := posterior.PackedSize(k)
	// Under a fixed curvature A_c is the same matrix for all outputs, but for a factor.
	systems := m
	if s.FixedCurvature() {
		systems = 1
	}
	left, right := make([]float64, lanes*systems*p), make([]float64, lanes*m*k)
	o.inLanes(func(lane, lo, hi int) {
		view := posterior.NewOutputView(s)
		a, b := left[lane*systems*p:], right[lane*m*k:]
		for i := lo; i < hi; i++ {
			index, value := o.problem.X.Row(i)
			view.Gather(index, value)
			view.Covariances()
			view.Spread(o.row(o.spread, i))
			posterior.AddOuter(view.PhiCov, 1, view.Phi)
			omega, target := o.row(o.omega, i), o.row(o.right, i)
			for c, w := range omega {
				if systems == m {
					floats.AddScaled(a[c*p:c*p+p], w, view.PhiCov)
				}
				to := b[c*k : c*k+k]
				floats.AddScaled(to, target[c]-w*view.Linear[c], view.Phi)
				floats.AddScaled(to, -w, view.Cross[c*k:c*k+k])
			}
			if systems == 1 {
				floats.AddScaled(a[:p], o.problem.Weight(i), view.PhiCov)
			}
		}
	})
	// In the order of the lanes, so that sums do not depend on the workers.
	for lane := 1; lane < lanes; lane++ {
		floats.Add(left[:systems*p], left[lane*systems*p:(lane+1)*systems*p])
		floats.Add(right[:m*k], right[lane*m*k:(lane+1)*m*k])
	}
	var unit []float64
	if systems == 1 {
		unit = o.unitWeights()
	}
	out := append([]float64(nil), s.Weights...)
	curve, slope := make([]float64, m), make([]float64, m)
	for range weightPasses {
		for r := range k {
			row := out[r*m : r*m+m]
			for c := range m {
				a, scale := left[:p], 1.0
				if systems == 1 {
					scale = unit[c]
				} else {
					a = left[c*p : c*p+p]
				}
				// A ridge of 1 around the current V keeps outputs that hardly occur where they are.
				curve[c] = 1 + scale*a[r*(r+1)/2+r]
				slope[c] = right[c*k+r] + row[c]
				for t := range k {
					if t != r {
						i, j := max(r, t), min(r, t)
						slope[c] -= scale * a[i*(i+1)/2+j] * out[t*m+c]
					}
				}
			}
			solveRow(row, curve, slope, float64(m)*least[r])
		}
	}
	return out
}

// solveRow stores the maximum of Σ_c slope_c v_c − ½ curve_c v_c² over ‖v‖² ≥ least in v, which is unchanged where no
// maximum exists. The multiplier μ of v_c = slope_c/(curve_c − μ) is found by bisection.
func solveRow(v, curve, slope []float64, least float64) {
	square := func(mu float64) float64 {
		total := 0.0
		for c, a := range curve {
			total += slope[c] * slope[c] / ((a - mu) * (a - mu))
		}
		return total
	}
	mu := 0.0
	if square(0) < least {
		low, high := 0.0, floats.Min(curve)
		for range 100 {
			if mu = (low + high) / 2; square(mu) < least {
				low = mu
			} else {
				high = mu
			}
		}
		if mu = high; !(square(mu) < math.Inf(1)) {
			return
		}
	}
	for c, a := range curve {
		v[c] = slope[c] / (a - mu)
	}
}

// normaliseWeights scales the rows of V to mean square 1 and returns the factor a_r that each basis vector's activation
// takes over. A row that has vanished stays.
func normaliseWeights(s *posterior.State) []float64 {
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
