package dense

// Sweep turns a matrix with further columns to its right, [A B], into [A⁻¹ A⁻¹B] by Gauss–Jordan elimination in
// place, without exchanging rows: for positive definite A, whose pivots are those of its Cholesky factor squared. a
// holds n = len(pivots) rows of stride numbers, stride a multiple of 8 and no less than n; A is the first n columns
// of it, and every other column is one of B.
//
// The pivots are stored in order; their product is det A. One that is not positive shows that A is not positive
// definite, and that the rest of the result is of no use. For k = 0 … n−1 the row of the pivot is divided by it, by
// one division and a multiplication each, with 1 in the place of the pivot; then every other row i loses a[i][k] times
// that row, one fused multiply-add each, with 0 in the place of a[i][k].
//
// Cost: 2·n²·stride flops. About n divisions follow upon each other.
func Sweep(a []float64, stride int, pivots []float64) {
	n := len(pivots)
	if stride < n || stride%lanes != 0 {
		panic("dense: Sweep of rows shorter than the order, or of no multiple of 8")
	}
	if len(a) < n*stride {
		panic("dense: Sweep of fewer rows than pivots")
	}
	if n > 0 {
		sweep(a, stride, pivots)
	}
}

func sweepPortable(a []float64, stride int, pivots []float64) {
	sweepBy(addScaledPortable, a, stride, pivots)
}

// sweepBy is Sweep by the given form of AddScaled.
func sweepBy(add func(dst []float64, f float64, x []float64), a []float64, stride int, pivots []float64) {
	n := len(pivots)
	for k := range n {
		held := a[k*stride : k*stride+stride]
		pivots[k] = held[k]
		inverse := 1 / held[k]
		held[k] = 1
		for j := range held {
			held[j] *= inverse
		}
		for i := range n {
			if i != k {
				row := a[i*stride : i*stride+stride]
				f := row[k]
				row[k] = 0
				add(row, -f, held)
			}
		}
	}
}
