package solver

import (
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	lapackgonum "gonum.org/v1/gonum/lapack/gonum"
)

// newSymmetric returns a zero matrix of order n, row by row, of which the entries [j, l] with j ≤ l count.
func newSymmetric(n int) blas64.Symmetric {
	return blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Upper}
}

// addSquare adds a·a to sum, entry by entry in the order of its columns.
func addSquare(sum, a blas64.Symmetric) {
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

// eigenSym is an eigendecomposition of a symmetric matrix of order n.
type eigenSym struct {
	values  []float64 // ascending
	vectors []float64 // n×n: column t belongs to values[t]
}

// decompose returns the eigendecomposition of a, false if it fails. It always asks for vectors, wanted or not: without, the library stops the
// program on blocks of very small entries, which it scales by the wrong length (gonum v0.17, Dsterf). Package mat does the same, but links a
// megabyte more.
func decompose(a blas64.Symmetric) (e eigenSym, ok bool) {
	n := a.N
	e = eigenSym{make([]float64, n), slices.Clone(a.Data)}
	var library lapackgonum.Implementation
	size := make([]float64, 1)
	library.Dsyev(lapack.EVCompute, a.Uplo, n, e.vectors, a.Stride, e.values, size, -1) // asks how much memory it wants
	work := make([]float64, int(size[0]))
	ok = library.Dsyev(lapack.EVCompute, a.Uplo, n, e.vectors, a.Stride, e.values, work, len(work))
	return e, ok
}

// vector stores the vector that belongs to values[t] in every stride-th entry of dst.
func (e *eigenSym) vector(dst []float64, stride, t int) {
	n := len(e.values)
	for j := range n {
		dst[j*stride] = e.vectors[j*n+t]
	}
}

// largest returns the largest |eigenvalue| and its place.
func (e *eigenSym) largest() (value float64, at int) {
	last := len(e.values) - 1
	if e.values[last] >= -e.values[0] {
		return e.values[last], last
	}
	return -e.values[0], 0
}

// outermost returns the places of the count eigenvalues that come after the largest |eigenvalue|, in decreasing order of size.
func (e *eigenSym) outermost(count int) []int {
	low, high := 0, len(e.values)-1
	var places []int
	for low <= high && len(places) <= count {
		if e.values[high] >= -e.values[low] {
			places = append(places, high)
			high--
		} else {
			places = append(places, low)
			low++
		}
	}
	return places[min(1, len(places)):]
}
