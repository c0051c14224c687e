package solver

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// The gap of a point is its objective less the dual objective at the scaled gradient s∇F, by weak duality no less than the objective less the
// optimum. With the conjugate F* and the excess E(s) ≥ 0 of conjugateRay, and gradients ∇_w F in ridge blocks ½α‖w‖², it is
//
//	gap(s) = E(s) + s⟨∇F, U⟩ + λΩ(U) + Σ ‖αw + s∇_w F‖²/2α    for sΩ*(∇F) ≤ λ, in penalised form,
//	gap(s) = E(s) + s(⟨∇F, U⟩ + τΩ*(∇F)) + Σ ‖αw + s∇_w F‖²/2α  for every s ≥ 0, in constrained form,
//
// because inf over U* of s⟨∇F, U*⟩ + λΩ(U*) is 0, or that over Ω(U*) ≤ τ is −sτΩ*(∇F), and inf over w* of s⟨∇_w F, w*⟩ + ½α‖w*‖² is −‖s∇_w F‖²/2α.
// It is convex in s and, at s = 0, the objective. At s = 1 it is the usual gap of a regularised problem, or the linear duality gap of
// Jaggi (2013; Blondel et al. 2017, appendix B.2). The weights of a linear term need not be optimal, nor the ∇_w F of their blocks feasible for
// anything, since each block has a ridge α > 0.

// ridgeTerms are sums over the ridge blocks ½α‖w‖², with r = αw + ∇_w F the gradient of the whole objective in w.
type ridgeTerms struct{ square, cross, weight float64 } // ‖r‖²/α, ⟨r, w⟩, α‖w‖²

// at returns Σ ‖αw + s∇_w F‖²/2α, where αw + s∇_w F = s r + (1 − s) αw, and its first two derivatives in s.
func (t ridgeTerms) at(s float64) (value, slope, curve float64) {
	rest := 1 - s
	curve = max(0, t.square-2*t.cross+t.weight)
	return 0.5 * max(0, s*s*t.square+2*s*rest*t.cross+rest*rest*t.weight), t.cross - t.weight + s*curve, curve
}

// gapTerms are the parts of the gap at one point that do not depend on how Ω*(∇F) is bounded. They are about the convex problem (2) over
// all unit vectors, at U = Σ_r h_r ⊗ v_r: a basis vector that a full refit left longer or shorter than 1 counts with ‖h‖², at degree 3 ‖h‖³, in its weights.
type gapTerms struct {
	form      form
	ray       *conjugateRay
	inner     float64   // ⟨∇F, U⟩
	norm      float64   // Ω(U)
	rows      []float64 // gradient rows of the model's own basis vectors, k×m
	own       float64   // largest dual norm of a gradient row of the model's own basis vectors: at most Ω*(∇F)
	ridge     ridgeTerms
	objective float64 // of problem (2) at U
}

const (
	// gapSearches bounds the values of s that are tried. At weights that are optimal for the basis the largest feasible one is best in
	// penalised form, as ⟨∇F, U⟩ = −λΩ(U) makes gap(s) fall up to s = 1.
	gapSearches = 12
	// gapAccuracy is the part of the gap that better values of s may still take off.
	gapAccuracy = 1e-3
)

// at returns the least gap(s) found if Ω*(∇F) is at most dual, by Newton steps that at most double s, kept between an s where it falls and one
// where it rises. No loss, norm or ridge is below 0, so the objective, gap(0), bounds it as well.
func (t gapTerms) at(dual float64) float64 {
	gap := t.objective
	dual = max(dual, t.own)
	largest := t.ray.limit
	if t.form.tau == 0 && dual > 0 {
		largest = min(largest, t.form.lambda/dual)
	}
	falls, rises := 0.0, math.Inf(1)
	s := min(1, largest)
	for range gapSearches {
		value, slope, curve := t.along(s, dual)
		if value < gap { // not if a tiny ridge made it overflow
			gap = value
		}
		next := s - slope/curve
		if slope < 0 {
			falls = s
			next = min(next, 2*s, largest)
		} else {
			rises = s
		}
		if !(next > falls && next < rises) && next != s {
			next = 0.5 * (falls + rises)
		}
		if math.Abs(slope*(next-s)) <= gapAccuracy*gap {
			break
		}
		s = next
	}
	return max(0, gap) // below 0 by rounding
}

// along returns gap(s) and its first two derivatives if Ω*(∇F) is at most dual.
func (t gapTerms) along(s, dual float64) (value, slope, curve float64) {
	linear, fixed := t.inner, t.form.lambda*t.norm
	if t.form.tau > 0 {
		linear, fixed = t.inner+max(t.form.tau, t.norm)*dual, 0
	}
	excess, excessSlope, excessCurve := t.ray.at(s)
	ridge, ridgeSlope, ridgeCurve := t.ridge.at(s)
	return excess + s*linear + fixed + ridge, excessSlope + linear + ridgeSlope, excessCurve + ridgeCurve
}

// threshold is the criterion at or below which no basis vector enters: λ, or in constrained form what those of the model reach already.
func (t gapTerms) threshold() float64 {
	if t.form.tau > 0 {
		return t.own
	}
	return t.form.lambda
}

// gapTerms evaluates the current point, in O(n k m) and a pass over the rows for the linear term. It must have been scored, and the
// gradients of the rows stay what they are while the terms are in use.
func (r *solve) gapTerms() gapTerms {
	gradient := make([]float64, r.k*r.m)
	r.output.outputGradient(gradient, r.gamma.grad)
	t := gapTerms{form: r.s.form(), inner: floats.Dot(gradient, r.v)}
	t.ray = newConjugateRay(r.p, r.workers, r.loss, r.gamma.grad)
	unit := append([]float64(nil), r.v...)
	for row, h := range r.basis {
		factor := r.s.Kernel.ofSquare(floats.Dot(h, h))
		if factor == 0 {
			continue
		}
		lo, hi := row*r.m, (row+1)*r.m
		floats.Scale(factor, unit[lo:hi])
		floats.Scale(1/factor, gradient[lo:hi])
	}
	t.norm, t.rows = r.s.Penalty.Norm(unit, r.k, r.m), gradient
	t.own = r.s.Penalty.DualNorm(gradient, r.k, r.m)
	t.ridge = r.linear.ridgeTerms(r.gamma.grad)
	t.objective = r.loss + t.form.term(unit, r.k, r.m) + r.linear.penalty()
	return t
}

// outputGradient stores the gradient of the loss in V, Φ'D, in dst (k×m), given the weighted loss gradients D (n×m).
func (f *outputFit) outputGradient(dst, rows []float64) {
	n, k, m := f.p.X.NumRows(), len(f.phi), f.p.Outputs
	parts := make([][]float64, numBlocks(n))
	f.workers.blocks(n, rowBlock(n), func(_, b, lo, hi int) {
		part, columns := make([]float64, k*m), make([]float64, m*fitTile)
		for a := lo; a < hi; a += fitTile {
			size := min(hi-a, fitTile)
			for i := range size {
				for c, g := range rows[(a+i)*m : (a+i)*m+m] {
					columns[c*fitTile+i] = g
				}
			}
			for r, phi := range f.phi {
				for c := range m {
					part[r*m+c] += floats.Dot(phi[a:a+size], columns[c*fitTile:c*fitTile+size])
				}
			}
		}
		parts[b] = part
	})
	clear(dst)
	sumInto(dst, parts)
}

// ridgeTerms sums over the linear term and the bias, given the weighted loss gradients (n×m).
func (f *linearFit) ridgeTerms(rows []float64) ridgeTerms {
	var t ridgeTerms
	if f.idle() {
		return t
	}
	g := make([]float64, len(f.theta))
	f.gradientTo(g, rows)
	split := len(g) - f.p.Outputs
	add := func(alpha float64, r, w []float64) {
		if alpha > 0 {
			t.square += floats.Dot(r, r) / alpha
			t.cross += floats.Dot(r, w)
			t.weight += alpha * floats.Dot(w, w)
		}
	}
	add(f.ridge, g[:split], f.theta[:split])
	add(f.biasRidge, g[split:], f.theta[split:])
	return t
}
