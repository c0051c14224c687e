package posterior

// mainEffects returns the mean and variance of what linear weights alone add to z in a row.
func (s *State) MainEffects(index []int32, value []float64) (mean, variance float64) {
	for e, j := range index {
		if s.IsMainOnly(int(s.Field[j])) {
			m, c := s.Row(int(j))
			mean += value[e] * m[0]
			variance += value[e] * value[e] * c[0]
		}
	}
	return mean, variance
}
