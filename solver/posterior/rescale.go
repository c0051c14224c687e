package posterior

// Rescale takes the posterior over to another scale of feature j, whose values were factor·x + shift and are x from
// here on: what it predicts of a row stays the same. The product of the shift with every other feature goes into the
// linear weights of these, so that their covariances follow; where outputs are separate only their means do. factor
// is not 0. O(d·k²), O(k²) without a shift.
func (s *State) Rescale(j int, factor, shift float64) {
	q, linear := s.RowSize(), s.NumLinear()
	row, cov := s.Row(j)
	if shift != 0 {
		for c := range s.Bias {
			s.Bias[c] += shift * row[min(c, linear-1)]
		}
		s.moveShift(j, shift)
	}
	for a := range q {
		row[a] *= factor
	}
	for a := range cov {
		cov[a] *= factor * factor
	}
	precision := s.PrecisionOf(int(s.Field[j]))
	for a := range precision {
		precision[a] /= factor * factor
	}
}

// moveShift moves what the shift of feature j says together with every other feature into the linear weights of these.
func (s *State) moveShift(j int, shift float64) {
	linear := s.NumLinear()
	row, _ := s.Row(j)
	moved := make([]float64, s.NumBasis) // by which a coordinate moves into a linear weight
	for c := range linear {
		for r := range moved {
			moved[r] = shift * row[linear+r] * s.weight(r, c)
		}
		for l := range s.Field {
			if l == j || s.Together(int32(j), int32(l)) || s.IsMainOnly(int(s.Field[l])) {
				continue
			}
			other, spread := s.Row(l)
			for r, m := range moved {
				other[c] += m * other[linear+r]
			}
			if !s.Separate && len(spread) > 0 {
				shear(spread, moved)
			}
		}
	}
}

// shear makes of the packed covariance of (w, h) that of (w + ⟨moved, h⟩, h).
func shear(cov, moved []float64) {
	at := func(a, b int) float64 { // of h
		a, b = max(a, b)+1, min(a, b)+1
		return cov[a*(a+1)/2+b]
	}
	for r, m := range moved {
		with := (r + 1) * (r + 2) / 2 // of w and h_r
		cov[0] += m * cov[with]
		for t, n := range moved {
			cov[with] += n * at(r, t)
		}
		cov[0] += m * cov[with]
	}
}
