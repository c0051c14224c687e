package posterior

// Shape returns a state of k basis vectors and a number of outputs, without features.
func Shape(k, outputs int, separate bool) *State {
	return &State{NumBasis: k, Bias: make([]float64, outputs), Separate: separate}
}

// Footprint returns the bytes of a State over d features with k basis vectors, without its field numbers, which states
// share.
func Footprint(d, k, outputs int, separate bool) int64 {
	s := Shape(k, outputs, separate)
	return 8 * int64(d) * int64(s.RowSize()+s.CovarianceSize())
}
