package penalty

// Form is how the penalty enters a problem over the output weights: λΩ(V) in the objective (penalised form, Blondel et
// al. 2017, appendix D), or Ω(V) ≤ τ (constrained form, equation (2)). Exactly one of lambda and tau is positive.
type Form struct {
	Penalty     Penalty
	Lambda, Tau float64
}

// Term returns what the penalty adds to the objective of feasible weights v (k×m): λΩ(V), or 0 in constrained form.
func (f Form) Term(v []float64, k, m int) float64 {
	if f.Tau > 0 {
		return 0
	}
	return f.Lambda * f.Penalty.Norm(v, k, m)
}

// Step replaces v (k×m) by its proximal point for a step length t: argmin_Z ½‖Z − V‖² + tλΩ(Z), or the
// projection onto Ω(Z) ≤ τ.
func (f Form) Step(v []float64, k, m int, t float64) {
	if f.Tau > 0 {
		f.Penalty.Project(v, k, m, f.Tau)
		return
	}
	f.Penalty.Prox(v, k, m, t*f.Lambda)
}
