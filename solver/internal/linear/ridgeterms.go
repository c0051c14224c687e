package linear

import "gonum.org/v1/gonum/floats"

// The gap of a point is its objective less the dual objective at the scaled gradient s∇F, by weak duality no less
// than the objective less the optimum. With the conjugate F* and the excess E(s) ≥ 0 of conjugateRay, and gradients
// ∇_w F in ridge blocks ½α‖w‖², it is
//
//	gap(s) = E(s) + s⟨∇F, U⟩ + λΩ(U) + Σ ‖αw + s∇_w F‖²/2α    for sΩ*(∇F) ≤ λ, in penalised form,
//	gap(s) = E(s) + s(⟨∇F, U⟩ + τΩ*(∇F)) + Σ ‖αw + s∇_w F‖²/2α  for every s ≥ 0, in constrained form,
//
// because inf over U* of s⟨∇F, U*⟩ + λΩ(U*) is 0, or that over Ω(U*) ≤ τ is −sτΩ*(∇F), and inf over
// w* of s⟨∇_w F, w*⟩ + ½α‖w*‖² is −‖s∇_w F‖²/2α. It is convex in s and, at s = 0, the objective.
// At s = 1 it is the usual gap of a regularised problem, or the linear duality gap of Jaggi (2013; Blondel et al. 2017,
// appendix B.2). The weights of a linear term need not be optimal, nor the ∇_w F of their blocks feasible for
// anything, since each block has a ridge α > 0.

// RidgeTerms are sums over the ridge blocks ½α‖w‖², with r = αw + ∇_w F the gradient of the whole objective in w.
type RidgeTerms struct{ square, cross, weight float64 } // ‖r‖²/α, ⟨r, w⟩, α‖w‖²

// At returns Σ ‖αw + s∇_w F‖²/2α, where αw + s∇_w F = s r + (1 − s) αw, and its first two derivatives in s.
func (t RidgeTerms) At(s float64) (value, slope, curve float64) {
	rest := 1 - s
	curve = max(0, t.square-2*t.cross+t.weight)
	return 0.5 * max(0, s*s*t.square+2*s*rest*t.cross+rest*rest*t.weight), t.cross - t.weight + s*curve, curve
}

// RidgeTerms sums over the linear term and the bias, given the weighted loss gradients (n×m).
func (f *LinearFit) RidgeTerms(rows []float64) RidgeTerms {
	var t RidgeTerms
	if f.Idle() {
		return t
	}
	g := make([]float64, len(f.Theta))
	f.GradientTo(g, rows)
	split := len(g) - f.p.Outputs
	add := func(alpha float64, r, w []float64) {
		if alpha > 0 {
			t.square += floats.Dot(r, r) / alpha
			t.cross += floats.Dot(r, w)
			t.weight += alpha * floats.Dot(w, w)
		}
	}
	add(f.Ridge, g[:split], f.Theta[:split])
	add(f.BiasRidge, g[split:], f.Theta[split:])
	return t
}
