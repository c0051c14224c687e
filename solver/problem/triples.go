package problem

// CubicBlock is how many basis vectors addTriples does at a time: their sums stay in the first-level cache.
const CubicBlock = 64

// addTriples adds A³(h_r, x) to dst[r] for the k basis vectors of a d×k block, in 3·nnz(x)·k multiplications. The
// elementary symmetric polynomials of the a_j = h_rj x_j are built up column by column, the third from the second
// before and that from the first (Blondel et al. 2016, equation (7)): all terms of one sign stay so, and a row of fewer
// than three columns has exactly 0, unlike with power sums.
func addTriples(dst, basis []float64, k int, index []int32, value []float64) {
	for lo := 0; lo < k; lo += CubicBlock {
		hi := min(k, lo+CubicBlock)
		var sums, pairs [CubicBlock]float64
		triples := dst[lo:hi]
		for e, j := range index {
			x := value[e]
			row := basis[int(j)*k+lo : int(j)*k+hi]
			for r, h := range row[:len(triples)] {
				a := h * x
				triples[r] += a * pairs[r]
				pairs[r] += a * sums[r]
				sums[r] += a
			}
		}
	}
}
