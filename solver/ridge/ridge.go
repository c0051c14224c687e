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
func Solve(a, x []float64) bool {
	n := len(x)
	var lapack gonum.Implementation
	if !lapack.Dpotrf(blas.Lower, n, a, n) {
		return false
	}
	lapack.Dpotrs(blas.Lower, n, 1, a, n, x, 1)
	return true
}
