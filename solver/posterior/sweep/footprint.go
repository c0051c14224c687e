package sweep

import "github.com/refitd/refitd/solver/posterior"

// Footprint returns the bytes that a Refit takes in addition to its state for n rows of some entries each, with
// k basis vectors.
func Footprint(n, entries, k, outputs int, separate bool) int64 {
	numbers := 4
	switch {
	case separate:
		numbers = 6*outputs + posterior.OutputTotalsSize(k)
	case entries > shortRow:
		numbers += rowTotalsSize(k)
	}
	return int64(n) * int64(8*numbers+12*entries)
}

// UnitsFootprint returns the bytes that a Refit takes besides where fields have groups or linear weights alone, for n
// rows of some entries each and k basis vectors.
func UnitsFootprint(n, entries, k int) int64 {
	return 2*8*int64(min(n, maxUnits(n)))*int64(unitNumbers(k+1)) + 8*int64(n)*int64(2+entries)
}
