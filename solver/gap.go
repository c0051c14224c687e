package solver

import (
	"gonum.org/v1/gonum/floats"
)

// penalizedGap bounds objective − optimum for min F(U, w) + λΩ(U) + ½α‖w‖²: by convexity of F and Ω(U*) ≤ B = objective/λ,
//
//	gap = ⟨∇F, U⟩ + λΩ(U) + B · max(0, Ω*(∇F) − λ) + Σ ‖∇_w‖²/2α,
//
// with ∇_w the gradient of the whole objective in a ridge block (passed summed up as ridgeGap). No loss, norm or ridge is below 0, so
// the objective itself is a bound as well, and the smaller of the two is returned.
func penalizedGap(inner, norm, objective, dual, lambda, ridgeGap float64) float64 {
	gap := inner + lambda*norm + ridgeGap
	if dual > lambda {
		gap += objective * (dual/lambda - 1)
	}
	return min(objective, gap)
}

// constrainedGap is the linear duality gap ⟨U, ∇F⟩ + τ Ω*(∇F) of min F(U) subject to Ω(U) ≤ τ (Jaggi 2013; Blondel et al. 2017,
// appendix B.2). A ridge block ½α‖w‖² in F adds ‖∇_w‖²/2α, the most that moving w from where it is can gain.
func constrainedGap(inner, radius, dual float64) float64 { return inner + radius*dual }

// gapTerms are the parts of the gap at one point that do not depend on how Ω*(∇F) is bounded. They are about the convex problem (2) over
// all unit vectors, at U = Σ_r h_r ⊗ v_r: a basis vector that a full refit left longer or shorter than 1 counts with ‖h‖² in its weights.
type gapTerms struct {
	form      form
	inner     float64 // ⟨∇F, U⟩
	norm      float64 // Ω(U)
	own       float64 // largest dual norm of a gradient row of the model's own basis vectors: at most Ω*(∇F)
	ridge     float64 // Σ ‖∇_w‖²/2α
	objective float64 // of problem (2) at U
}

// at returns the gap if Ω*(∇F) is at most dual.
func (t gapTerms) at(dual float64) float64 {
	dual = max(dual, t.own)
	if t.form.tau > 0 {
		return min(t.objective, constrainedGap(t.inner, max(t.form.tau, t.norm), dual)+t.ridge)
	}
	return penalizedGap(t.inner, t.norm, t.objective, dual, t.form.lambda, t.ridge)
}

// threshold is the criterion at or below which no basis vector enters: λ, or in constrained form what those of the model reach already.
func (t gapTerms) threshold() float64 {
	if t.form.tau > 0 {
		return t.own
	}
	return t.form.lambda
}

// gapTerms evaluates the current point, in O(n k m) and a pass over the rows for the linear term. It must have been scored.
func (r *solve) gapTerms() gapTerms {
	gradient := make([]float64, r.k*r.m)
	r.output.outputGradient(gradient, r.gamma.grad)
	t := gapTerms{form: r.s.form(), inner: floats.Dot(gradient, r.v)}
	unit := append([]float64(nil), r.v...)
	for row, h := range r.basis {
		square := floats.Dot(h, h)
		if square == 0 {
			continue
		}
		lo, hi := row*r.m, (row+1)*r.m
		floats.Scale(square, unit[lo:hi])
		floats.Scale(1/square, gradient[lo:hi])
	}
	t.norm = r.s.Penalty.Norm(unit, r.k, r.m)
	t.own = r.s.Penalty.DualNorm(gradient, r.k, r.m)
	t.ridge = r.linear.ridgeGap(r.gamma.grad)
	t.objective = r.loss + t.form.term(unit, r.k, r.m) + r.linear.penalty()
	return t
}

// outputGradient stores the gradient of the loss in V, Φ'D, in dst (k×m), given the weighted loss gradients D (n×m).
func (f *outputFit) outputGradient(dst, rows []float64) {
	n, k, m := f.p.X.NumRows(), len(f.phi), f.p.Outputs
	parts := make([][]float64, (n+fitBlock-1)/fitBlock)
	f.crew.blocks(n, fitBlock, func(_, b, lo, hi int) {
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

// ridgeGap returns ‖∇_w‖²/2α summed over the linear term and the bias, given the weighted loss gradients (n×m).
func (f *linearFit) ridgeGap(rows []float64) float64 {
	if f.idle() {
		return 0
	}
	g := make([]float64, len(f.theta))
	f.gradientTo(g, rows)
	split := len(g) - f.p.Outputs
	gap := 0.0
	if f.ridge > 0 {
		gap += floats.Dot(g[:split], g[:split]) / (2 * f.ridge)
	}
	if f.biasRidge > 0 {
		gap += floats.Dot(g[split:], g[split:]) / (2 * f.biasRidge)
	}
	return gap
}
