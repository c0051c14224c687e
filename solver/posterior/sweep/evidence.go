package sweep

import (
	"math"

	"github.com/refitd/refitd/solver/posterior"
)

// updatePrecision re-estimates D of every field and basis vector: the number of features over Σ (mean² + variance).
func (r *Refit) updatePrecision() {
	s := r.state
	q := s.NumBasis + 1
	p := posterior.PackedSize(q)
	total := make([]float64, s.NumFields*q)
	for j, f := range s.Field {
		if r.columns.count(j) == 0 {
			continue
		}
		t := total[int(f)*q : int(f)*q+q]
		for a := range q {
			m := s.Mean[j*q+a]
			// E h²: with a mean of 0 alone a coordinate that is not known would be taken for one that is 0.
			t[a] += m*m + s.Covariance[j*p+a*(a+1)/2+a]
		}
	}
	for f := range s.NumFields {
		if r.counts[f] == 0 {
			continue
		}
		d := s.PrecisionOf(f)
		for a := range s.Free(f) {
			d[a] = r.counts[f] / total[f*q+a]
			// The cap is for coordinates of a group's first field; fields that depend on it may be pruned at once.
			if a > 0 && s.Leads(f) {
				d[a] = min(d[a], r.cap)
			}
		}
	}
}

// updateOutputs sets θ and, for Gaussian outputs, the noise precision n / Σ (residual² + variance) to the maximum of
// the bound given the moments of z.
func (r *Refit) updateOutputs() {
	s := r.state
	if s.Likelihood != posterior.Gaussian {
		r.updateBias()
		return
	}
	squares, errors, n := r.residuals()
	if n == 0 {
		return
	}
	// θ first: the noise is that of residuals about the new θ, Σ e² − (Σ e)²/n.
	s.Bias[0] += errors / n
	r.squares = max(0, squares-errors*errors/n)
	s.Noise = maxNoise
	if r.squares > n/maxNoise {
		s.Noise = n / r.squares
	}
}

// residuals returns Σ weight·E(t − o)², Σ weight·(t − E o) and Σ weight of Gaussian outputs.
func (r *Refit) residuals() (squares, errors, n float64) {
	if r.pairs != nil && r.pairs.summed {
		return r.pairs.residuals()
	}
	for i := range r.mean {
		w := r.problem.Weight(i)
		e := r.problem.Target(i)[0] - r.state.Bias[0] - r.mean[i]
		n += w
		errors += w * e
		squares += w * (e*e + r.spread[i])
	}
	return squares, errors, n
}

// updateBias sets θ of Logistic outputs.
func (r *Refit) updateBias() { settleBias(r.state, r.biasSlopes) }

// biasSlopes returns, by output, the derivative of the expected log-likelihood by θ and the curvature of its
// quadratics.
func (r *Refit) biasSlopes() (slope, curve []float64) {
	outputs := len(r.state.Bias)
	parts := make([]float64, 2*outputs*((len(r.mean)+sweepBlock-1)/sweepBlock))
	r.parallel(len(r.mean), func(b, lo, hi int) {
		slope, curve := parts[2*b*outputs:(2*b+1)*outputs], parts[(2*b+1)*outputs:2*(b+1)*outputs]
		r.bounds(lo, hi, r.bounded, func(t *boundTile) { r.addBias(slope, curve, t) })
	})
	slope, curve = make([]float64, outputs), make([]float64, outputs)
	for b := 0; b < len(parts); b += 2 * outputs {
		for c := range outputs {
			slope[c] += parts[b+c]
			curve[c] += parts[b+outputs+c]
		}
	}
	return slope, curve
}

// maxNoise bounds the noise precision, so that labels that are fitted exactly do not make it infinite. Chosen by hand.
const maxNoise = 1e8

// evidence returns the variational bound on the log probability of the sample: the expected log-likelihood minus the
// divergence of the posterior from the prior.
func (r *Refit) evidence() float64 {
	s := r.state
	q := s.NumBasis + 1
	p := posterior.PackedSize(q)
	total := r.likelihood()
	for j, f := range s.Field {
		if r.columns.count(j) == 0 {
			continue
		}
		free := s.Free(int(f))
		// Twice the divergence of N(m, C) from N(0, D⁻¹): tr(DC) + mᵀDm − q − log det(DC).
		divergence := -float64(free) - r.logDet[j]
		for a, d := range s.PrecisionOf(int(f))[:free] {
			m := s.Mean[j*q+a]
			divergence += d*(m*m+s.Covariance[j*p+a*(a+1)/2+a]) - math.Log(d)
		}
		total -= 0.5 * divergence
	}
	return total
}

// likelihood returns the expected log-likelihood of the sample, for Logistic outputs its bound, or to second order for
// one binary label, and sets the pseudo-observations of the next sweep.
func (r *Refit) likelihood() float64 {
	s := r.state
	if s.Likelihood == posterior.Gaussian {
		n := 0.0
		for i := range r.problem.X.NumRows() {
			n += r.problem.Weight(i)
		}
		return 0.5*n*math.Log(s.Noise/(2*math.Pi)) - 0.5*s.Noise*r.squares
	}
	blocks := make([]float64, (len(r.mean)+sweepBlock-1)/sweepBlock)
	r.parallel(len(r.mean), func(b, lo, hi int) {
		clear(r.omega[lo:hi])
		clear(r.right[lo:hi])
		r.bounds(lo, hi, !s.IsBinary(), func(t *boundTile) {
			if s.IsBinary() {
				for i := t.lo; i < t.hi; i++ {
					blocks[b] += r.problem.Weight(i) * s.LogisticLikelihood(r.problem.Targets[i], s.Bias[0]+r.mean[i],
						r.spread[i])
				}
			} else {
				blocks[b] += t.likelihood(s.Bias, r.mean[t.lo:t.hi], r.problem.Targets[t.lo*len(s.Bias):])
			}
			// ξ of this tile is at hand: the next sweep needs pseudo-observations at the same moments.
			r.observeTile(t)
		})
	})
	total := 0.0
	for _, v := range blocks {
		total += v
	}
	return total + biasEvidence(s)
}
