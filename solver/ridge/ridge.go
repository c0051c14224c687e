// Package ridge solves small systems of normal equations with a ridge: those of the links of ordered levels, of the
// mixture's parts, and of Newton steps on few coordinates. Systems that are solved for every row of a state are not
// for it: package posterior packs them, and eliminates rows that share their lengths side by side.
package ridge

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack/gonum"
)

// Solve overwrites x with a⁻¹x. Of the symmetric n×n matrix a, n = len(x), it takes the lower triangle, row by row, and
// overwrites it with the Cholesky factor. It reports false, and leaves x, where a is not positive definite. O(n³/3).
//
// The substitutions are those of gonum's Dpotrs to the bit, without its calls for each number: they took more than half
// of the time for ten numbers.
func Solve(a, x []float64) bool {
	n := len(x)
	var lapack gonum.Implementation
	if !lapack.Dpotrf(blas.Lower, n, a, n) {
		return false
	}
	for i := range n {
		row, v := a[i*n:i*n+i+1], x[i]
		for k, l := range row[:i] {
			if l != 0 {
				v += float64(-l * x[k]) // rounded before it is added
			}
		}
		x[i] = v * (1 / row[i])
	}
	for i := n - 1; i >= 0; i-- {
		row := a[i*n : i*n+i+1]
		v := x[i] * (1 / row[i])
		x[i] = v
		for k, l := range row[:i] {
			if l != 0 {
				x[k] += float64(-l * v)
			}
		}
	}
	return true
}
