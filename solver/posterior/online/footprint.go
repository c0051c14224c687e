package online

import "github.com/refitd/refitd/solver/posterior"

// Footprint returns the bytes of a FoldIn with so many rows, each with one posterior per rate.
func Footprint(rows, rates, k, outputs int, separate bool) int64 {
	s := posterior.Shape(k, outputs, separate)
	const headers = 232 // of the slices, which grow by more than a row
	return int64(rows) * int64(headers+8*(rates*(s.CovarianceSize()+2*s.RowSize()+1)+s.CovarianceSize()+s.RowSize()))
}
