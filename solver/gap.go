package solver

import "gonum.org/v1/gonum/floats"

// penalizedGap bounds objective − optimum for min F(U, w) + λΩ(U) + ½α‖w‖². As F is convex and nowhere below 0, for 0 ≤ s ≤ 1
//
//	F(U*, w*) ≥ s (F(U, w) + ⟨∇F, (U* − U, w* − w)⟩) + (1 − s) 0,
//
// and with s = min(1, λ/Ω*(∇F)) no U* can make s⟨∇F, U*⟩ + λΩ(U*) less than 0, no w* the terms in w* less than −s²‖∇_w F‖²/2α. So
//
//	gap = λΩ(U) + s⟨∇F, U⟩ + (1 − s) F + ‖αw + s∇_w F‖²/2α.
//
// For s = 1 this is the usual gap of a regularised problem; below it is s times the bound that Ω(U*) ≤ objective/λ would give.
func penalizedGap(loss, inner, norm, lambda, dual float64, ridge ridgeTerms) float64 {
	s := 1.0
	if dual > lambda {
		s = lambda / dual
	}
	return lambda*norm + s*inner + (1-s)*loss + ridge.at(s)
}

// ridgeTerms are sums over the ridge blocks ½α‖w‖², with r = αw + ∇_w F the gradient of the whole objective in w.
type ridgeTerms struct{ square, cross, weight float64 } // ‖r‖²/α, ⟨r, w⟩, α‖w‖²

// at returns Σ ‖αw + s∇_w F‖²/2α, where αw + s∇_w F = s r + (1 − s) αw.
func (t ridgeTerms) at(s float64) float64 {
	rest := 1 - s
	return 0.5 * max(0, s*s*t.square+2*s*rest*t.cross+rest*rest*t.weight)
}

// constrainedGap is the linear duality gap ⟨U, ∇F⟩ + τ Ω*(∇F) of min F(U) subject to Ω(U) ≤ τ (Jaggi 2013; Blondel et al. 2017,
// appendix B.2). A ridge block ½α‖w‖² in F adds ‖∇_w‖²/2α, the most that moving w from where it is can gain.
func constrainedGap(inner, radius, dual float64) float64 { return inner + radius*dual }

// gapTerms are the parts of the gap at one point that do not depend on how Ω*(∇F) is bounded. They are about the convex problem (2) over
// all unit vectors, at U = Σ_r h_r ⊗ v_r: a basis vector that a full refit left longer or shorter than 1 counts with ‖h‖² in its weights.
type gapTerms struct {
	form      form
	loss      float64 // F
	inner     float64 // ⟨∇F, U⟩
	norm      float64 // Ω(U)
	own       float64 // largest dual norm of a gradient row of the model's own basis vectors: at most Ω*(∇F)
	ridge     ridgeTerms
	objective float64 // of problem (2) at U
}

// at returns the gap if Ω*(∇F) is at most dual. No loss, norm or ridge is below 0, so the objective bounds it as well.
func (t gapTerms) at(dual float64) float64 {
	dual = max(dual, t.own)
	gap := 0.0
	if t.form.tau > 0 {
		gap = constrainedGap(t.inner, max(t.form.tau, t.norm), dual) + t.ridge.at(1)
	} else {
		gap = penalizedGap(t.loss, t.inner, t.norm, t.form.lambda, dual, t.ridge)
	}
	if !(gap < t.objective) { // or a tiny ridge made it overflow
		return t.objective
	}
	return max(0, gap) // below 0 by rounding
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
	t := gapTerms{form: r.s.form(), loss: r.loss, inner: floats.Dot(gradient, r.v)}
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
	t.ridge = r.linear.ridgeTerms(r.gamma.grad)
	t.objective = r.loss + t.form.term(unit, r.k, r.m) + r.linear.penalty()
	return t
}

// outputGradient stores the gradient of the loss in V, Φ'D, in dst (k×m), given the weighted loss gradients D (n×m).
func (f *outputFit) outputGradient(dst, rows []float64) {
	n, k, m := f.p.X.NumRows(), len(f.phi), f.p.Outputs
	parts := make([][]float64, (n+fitBlock-1)/fitBlock)
	f.workers.blocks(n, fitBlock, func(_, b, lo, hi int) {
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
