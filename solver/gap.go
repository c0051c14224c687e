package solver

import (
	"math"

	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/penalty"
	"gonum.org/v1/gonum/floats"
)

// gapTerms are the parts of the gap at one point that do not depend on how Ω*(∇F) is bounded. They are about the
// convex problem (2) over all unit vectors, at U = Σ_r h_r ⊗ v_r: a basis vector that a full refit left longer or
// shorter than 1 counts with ‖h‖², at degree 3 ‖h‖³, in its weights.
type gapTerms struct {
	form      penalty.Form
	ray       *conjugateRay
	inner     float64   // ⟨∇F, U⟩
	norm      float64   // Ω(U)
	rows      []float64 // gradient rows of the model's own basis vectors, k×m
	own       float64   // largest dual norm of a gradient row of the model's own basis vectors: at most Ω*(∇F)
	ridge     linear.RidgeTerms
	objective float64 // of problem (2) at U
}

const (
	// gapSearches bounds the values of s that are tried. At weights that are optimal for the basis the largest feasible
	// one is best in penalised form, as ⟨∇F, U⟩ = −λΩ(U) makes gap(s) fall up to s = 1.
	gapSearches = 12
	// gapAccuracy is the part of the gap that better values of s may still take off.
	gapAccuracy = 1e-3
)

// at returns the least gap(s) found if Ω*(∇F) is at most dual, by Newton steps that at most double s, kept between an s
// where it falls and one where it rises. No loss, norm or ridge is below 0, so the objective, gap(0), bounds it as
// well.
func (t gapTerms) at(dual float64) float64 {
	gap := t.objective
	dual = max(dual, t.own)
	largest := t.ray.limit
	if t.form.Tau == 0 && dual > 0 {
		largest = min(largest, t.form.Lambda/dual)
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
	linear, fixed := t.inner, t.form.Lambda*t.norm
	if t.form.Tau > 0 {
		linear, fixed = t.inner+max(t.form.Tau, t.norm)*dual, 0
	}
	excess, excessSlope, excessCurve := t.ray.at(s)
	ridge, ridgeSlope, ridgeCurve := t.ridge.At(s)
	return excess + s*linear + fixed + ridge, excessSlope + linear + ridgeSlope, excessCurve + ridgeCurve
}

// threshold is the criterion at or below which no basis vector enters: λ, or in constrained form what those of the
// model reach already.
func (t gapTerms) threshold() float64 {
	if t.form.Tau > 0 {
		return t.own
	}
	return t.form.Lambda
}

// gapTerms evaluates the current point, in O(n k m) and a pass over the rows for the linear term. It must have been
// scored, and the gradients of the rows stay what they are while the terms are in use.
func (r *current) gapTerms() gapTerms {
	gradient := make([]float64, r.k*r.m)
	r.output.OutputGradient(gradient, r.gamma.Grad)
	t := gapTerms{form: r.s.form(), inner: floats.Dot(gradient, r.v)}
	t.ray = newConjugateRay(r.p, r.workers, r.loss, r.gamma.Grad)
	unit := append([]float64(nil), r.v...)
	for row, h := range r.basis {
		factor := r.s.Kernel.OfSquare(floats.Dot(h, h))
		if factor == 0 {
			continue
		}
		lo, hi := row*r.m, (row+1)*r.m
		floats.Scale(factor, unit[lo:hi])
		floats.Scale(1/factor, gradient[lo:hi])
	}
	t.norm, t.rows = r.s.Penalty.Norm(unit, r.k, r.m), gradient
	t.own = r.s.Penalty.DualNorm(gradient, r.k, r.m)
	t.ridge = r.linear.RidgeTerms(r.gamma.Grad)
	t.objective = r.loss + t.form.Term(unit, r.k, r.m) + r.linear.Penalty()
	return t
}
