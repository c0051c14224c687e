package solver

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// eigenSym is an eigendecomposition of a symmetric matrix.
type eigenSym struct {
	values []float64 // ascending
	eig    mat.EigenSym
}

// decompose returns the eigendecomposition of a, which it overwrites, false if it fails. The matrix is scaled to entries of at most 1 first: the
// library stops the program where it would have to scale a very small or large one itself (gonum v0.17, Dsterf).
func decompose(a *mat.SymDense, vectors bool) (e eigenSym, ok bool) {
	top := 0.0
	for j := range a.SymmetricDim() {
		for l := range j + 1 {
			top = max(top, math.Abs(a.At(j, l)))
		}
	}
	if math.IsNaN(top) || math.IsInf(top, 0) {
		return e, false
	}
	if top > 0 {
		for j := range a.SymmetricDim() {
			for l := range j + 1 {
				a.SetSym(j, l, a.At(j, l)/top)
			}
		}
	}
	if !e.eig.Factorize(a, vectors) {
		return e, false
	}
	e.values = e.eig.Values(nil)
	if top > 0 {
		floats.Scale(top, e.values)
	}
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
