package solver

import "gonum.org/v1/gonum/mat"

// eigenSym is an eigendecomposition of a symmetric matrix.
type eigenSym struct {
	values []float64 // ascending
	eig    mat.EigenSym
}

// decompose returns the eigendecomposition of a, false if it fails. It always asks for vectors, wanted or not: without, the library stops the
// program on blocks of very small entries, which it scales by the wrong length (gonum v0.17, Dsterf).
func decompose(a mat.Symmetric) (e eigenSym, ok bool) {
	if !e.eig.Factorize(a, true) {
		return e, false
	}
	e.values = e.eig.Values(nil)
	return e, true
}

// largest returns the largest |eigenvalue| and its place.
func (e *eigenSym) largest() (value float64, at int) {
	last := len(e.values) - 1
	if e.values[last] >= -e.values[0] {
		return e.values[last], last
	}
	return -e.values[0], 0
}
