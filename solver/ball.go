package solver

// Project replaces the k×m row-major matrix v by its Euclidean projection onto {Ω(Z) ≤ radius}, radius > 0.
func (p Penalty) Project(v []float64, k, m int, radius float64) {
	if p == L1 {
		projectL1Ball(v[:k*m], radius)
		return
	}
	if p.Norm(v, k, m) <= radius {
		return
	}
	if p == L1L2 {
		norms := make([]float64, k)
		for r := range k {
			norms[r] = norm2(v[r*m : r*m+m])
		}
		p.Prox(v, k, m, l1BallThreshold(norms, radius))
		return
	}
	// The projection is the proximal point of the step t at which its norm, which falls with t, meets the radius (Quattoni et al. 2009).
	low, high := 0.0, p.DualNorm(v, k, m)
	trial := make([]float64, k*m)
	for range projectSteps {
		t := 0.5 * (low + high)
		copy(trial, v)
		if p.Prox(trial, k, m, t); p.Norm(trial, k, m) > radius {
			low = t
		} else {
			high = t
		}
	}
	p.Prox(v, k, m, high)
}

// projectSteps halve the interval of the step to rounding.
const projectSteps = 60
