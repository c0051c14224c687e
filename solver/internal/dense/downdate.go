package dense

// DowndateRow is the step of a row of the lower triangle of a symmetric matrix in ridge.Downdate: it adds f·u to row
// unless f is 0, adds v times what row is then to y, but for the last number, and returns Dot(row, x). It has the bits
// of AddScaled, Dot and AddScaled. row, x and u are of one length of at least 1, and y of one less; y, row and the
// others do not overlap.
func DowndateRow(y, row, x, u []float64, f, v float64) float64 {
	n := len(row)
	if n == 0 || len(x) != n || len(u) != n || len(y) != n-1 {
		panic("dense: DowndateRow of slices of unequal length")
	}
	return downdateRow(y, row, x, u, f, v)
}

// downdateRowByParts is downdateRow by the kernels of its parts.
func downdateRowByParts(y, row, x, u []float64, f, v float64) float64 {
	if f != 0 {
		addScaled(row, f, u)
	}
	sum := dot(row, x)
	if len(y) > 0 {
		addScaled(y, v, row[:len(y)])
	}
	return sum
}
