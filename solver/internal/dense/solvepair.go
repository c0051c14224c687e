package dense

import "math"

// MaxPair is the largest order that SolvePair takes.
const MaxPair = 16

// PairWork is the length of the memory that SolvePair works in.
const PairWork = 2 * (MaxPair*(MaxPair+1)/2 + 2*MaxPair)

// SolvePair solves (A_s + D) x_s = b_s for two symmetric positive definite matrices of order n = len(d) ≤ MaxPair at
// once: in the time of one, which mostly waits for its divisions. a holds their lower triangles, packed by rows; D is
// the diagonal d. It returns the least pivot: unless that is positive, one of the matrices is not positive definite and
// the solutions are of no use.
//
// The elimination goes backwards, so that it runs along rows of the triangle: for k = n−1 … 0, p = a[k][k] + d[k],
// every i < k has f = a[k][i]·(1/p), a[i][j] −= f·a[k][j] for j ≤ i and b[i] −= f·b[k], each a fused multiply-add. Then
// for k = 0 … n−1 x[k] is b[k], less a[k][j]·x[j] for j = 0 … k−1 by fused multiply-adds, times 1/p.
//
// work has PairWork numbers of any value. x must not overlap a, b or d. Cost: n³/3 flops a system, n divisions upon
// each other.
func SolvePair(x, a, b [2][]float64, d, work []float64) (least float64) {
	n := len(d)
	if n > MaxPair || len(work) < PairWork {
		panic("dense: SolvePair of too large a system, or in too little memory")
	}
	for s := range x {
		if len(x[s]) != n || len(b[s]) != n || len(a[s]) < n*(n+1)/2 {
			panic("dense: SolvePair of systems of unequal order")
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return solvePair(x, a, b, d, work)
}

func solvePairPortable(x, a, b [2][]float64, d, work []float64) float64 {
	return min(solvePortable(x[0], a[0], b[0], d, work), solvePortable(x[1], a[1], b[1], d, work))
}

func solvePortable(x, a, b, d, work []float64) float64 {
	n, least := len(d), math.Inf(1)
	rows, inverse := make([][]float64, n), work[n*(n+1)/2:][:n]
	copy(work, a[:n*(n+1)/2])
	copy(x, b)
	for i := range rows {
		rows[i], work = work[:i+1], work[i+1:]
	}
	for k := n - 1; k >= 0; k-- {
		row := rows[k]
		row[k] += d[k]
		least = min(least, row[k])
		inverse[k] = 1 / row[k]
		for i := range k {
			f := row[i] * inverse[k]
			addScaledPortable(rows[i], -f, row[:i+1])
			x[i] = math.FMA(-f, x[k], x[i])
		}
	}
	for k, row := range rows {
		for j, v := range row[:k] {
			x[k] = math.FMA(-v, x[j], x[k])
		}
		x[k] *= inverse[k]
	}
	return least
}
