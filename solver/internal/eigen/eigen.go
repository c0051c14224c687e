package eigen

import (
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	lapackgonum "gonum.org/v1/gonum/lapack/gonum"
)

// NewSymmetric returns a zero matrix of order n, row by row, of which the entries [j, l] with j ≤ l count.
func NewSymmetric(n int) blas64.Symmetric {
	return blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Upper}
}

// AddSquare adds a·a to sum, entry by entry in the order of its columns.
func AddSquare(sum, a blas64.Symmetric) {
	n := a.N
	whole := slices.Clone(a.Data)
	for j := range n {
		for l := range j {
			whole[j*n+l] = a.Data[l*n+j]
		}
	}
	for j := range n {
		row := whole[j*n : j*n+n]
		for l := j; l < n; l++ {
			dot := 0.0
			for i, x := range whole[l*n : l*n+n] {
				dot += row[i] * x
			}
			sum.Data[j*n+l] += dot
		}
	}
}

// EigenSym is an eigendecomposition of a symmetric matrix of order n.
type EigenSym struct {
	Values  []float64 // ascending
	Vectors []float64 // n×n: column t belongs to values[t]
}

// Decompose returns the eigendecomposition of a, false if it fails. It always asks for vectors, wanted or not: without,
// the library stops the program on blocks of very small entries, which it scales by the wrong length (gonum v0.17,
// Dsterf). Package mat does the same, but links a megabyte more.
func Decompose(a blas64.Symmetric) (e EigenSym, ok bool) {
	n := a.N
	e = EigenSym{make([]float64, n), slices.Clone(a.Data)}
	var library lapackgonum.Implementation
	size := make([]float64, 1)
	library.Dsyev(lapack.EVCompute, a.Uplo, n, e.Vectors, a.Stride, e.Values, size, -1) // asks how much memory it wants
	work := make([]float64, int(size[0]))
	ok = library.Dsyev(lapack.EVCompute, a.Uplo, n, e.Vectors, a.Stride, e.Values, work, len(work))
	return e, ok
}

// Vector stores the vector that belongs to values[t] in every stride-th entry of dst.
func (e *EigenSym) Vector(dst []float64, stride, t int) {
	n := len(e.Values)
	for j := range n {
		dst[j*stride] = e.Vectors[j*n+t]
	}
}

// Largest returns the largest |eigenvalue| and its place.
func (e *EigenSym) Largest() (value float64, at int) {
	last := len(e.Values) - 1
	if e.Values[last] >= -e.Values[0] {
		return e.Values[last], last
	}
	return -e.Values[0], 0
}

// Outermost returns the places of the count eigenvalues that come after the largest |eigenvalue|, in decreasing order
// of size.
func (e *EigenSym) Outermost(count int) []int {
	low, high := 0, len(e.Values)-1
	var places []int
	for low <= high && len(places) <= count {
		if e.Values[high] >= -e.Values[low] {
			places = append(places, high)
			high--
		} else {
			places = append(places, low)
			low++
		}
	}
	return places[min(1, len(places)):]
}
