package posterior

// shape returns a state of k basis vectors and a number of outputs, without features.
func shape(k, outputs int, separate bool) *State {
	return &State{NumBasis: k, Bias: make([]float64, outputs), Separate: separate}
}

// Footprint returns the bytes of a State over d features with k basis vectors, without its field numbers, which states share.
func Footprint(d, k, outputs int, separate bool) int64 {
	s := shape(k, outputs, separate)
	return 8 * int64(d) * int64(s.rowSize()+s.covarianceSize())
}

// SweepFootprint returns the bytes that a Refit takes in addition to its state for n rows of some entries each, with
// k basis vectors.
func SweepFootprint(n, entries, k, outputs int, separate bool) int64 {
	numbers := 4
	switch {
	case separate:
		numbers = 6*outputs + outputTotalsSize(k)
	case entries > shortRow:
		numbers += rowTotalsSize(k)
	}
	return int64(n) * int64(8*numbers+12*entries)
}

// UnitsFootprint returns the bytes that a Refit takes besides where fields have groups or linear weights alone, for n rows of some entries each and k
// basis vectors.
func UnitsFootprint(n, entries, k int) int64 {
	return 2*8*int64(min(n, maxUnits(n)))*int64(unitNumbers(k+1)) + 8*int64(n)*int64(2+entries)
}

// FoldInFootprint returns the bytes of a FoldIn with so many rows, each with one posterior per rate.
func FoldInFootprint(rows, rates, k, outputs int, separate bool) int64 {
	s := shape(k, outputs, separate)
	const headers = 232 // of the slices, which grow by more than a row
	return int64(rows) * int64(headers+8*(rates*(s.covarianceSize()+2*s.rowSize()+1)+s.covarianceSize()+s.rowSize()))
}
