package penalty

import "github.com/refitd/refitd/solver/internal/dense"

// Project replaces the k×m row-major matrix v by its Euclidean projection onto {Ω(Z) ≤ radius}, radius > 0. It is
// exact up to rounding.
// For L1Linf it takes O(km) per Newton step of infThreshold, a handful.
func (p Penalty) Project(v []float64, k, m int, radius float64) {
	if p == L1 {
		ProjectL1Ball(v[:k*m], radius)
		return
	}
	if p.Norm(v, k, m) <= radius {
		return
	}
	if p == L1L2 {
		norms := make([]float64, k)
		for r := range k {
			norms[r] = dense.Norm2(v[r*m : r*m+m])
		}
		p.Prox(v, k, m, l1BallThreshold(norms, radius))
		return
	}
	p.Prox(v, k, m, infThreshold(v, k, m, radius))
}

// infThreshold returns the step t of the proximal operator of L1Linf at which the norm of the result is radius, less
// than that of v: the projection clips the entries of each row at a level that takes t off the row's absolute sum
// (Quattoni et al. 2009). The sum of the levels is convex, falling and piecewise linear in t, with slope −Σ 1/(entries
// clipped in a row) over the rows that are not 0. Newton steps from t = 0 therefore never pass the solution and end on
// its piece; Quattoni et al. sort all pieces instead.
func infThreshold(v []float64, k, m int, radius float64) float64 {
	t := 0.0
	for {
		norm, slope := 0.0, 0.0
		for r := range k {
			row := v[r*m : r*m+m]
			level := l1BallThreshold(row, t)
			if t == 0 {
				level = dense.NormInf(row)
			}
			if level == 0 {
				continue
			}
			clipped := 0
			for _, x := range row {
				if x >= level || -x >= level {
					clipped++
				}
			}
			norm += level
			slope += 1 / float64(clipped)
		}
		if norm <= radius {
			return t
		}
		next := t + (norm-radius)/slope
		if !(next > t) { // the rest is rounding
			return t
		}
		t = next
	}
}
