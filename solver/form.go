package solver

// form is how the penalty enters a problem over the output weights: λΩ(V) in the objective (penalised form, Blondel et al. 2017,
// appendix D), or Ω(V) ≤ τ (constrained form, equation (2)). Exactly one of lambda and tau is positive.
type form struct {
	penalty     Penalty
	lambda, tau float64
}

// term returns what the penalty adds to the objective of feasible weights v (k×m): λΩ(V), or 0 in constrained form.
func (f form) term(v []float64, k, m int) float64 {
	if f.tau > 0 {
		return 0
	}
	return f.lambda * f.penalty.Norm(v, k, m)
}

// step replaces v (k×m) by its proximal point for a step length t: argmin_Z ½‖Z − V‖² + tλΩ(Z), or the projection onto Ω(Z) ≤ τ.
func (f form) step(v []float64, k, m int, t float64) {
	if f.tau > 0 {
		f.penalty.Project(v, k, m, f.tau)
		return
	}
	f.penalty.Prox(v, k, m, t*f.lambda)
}
