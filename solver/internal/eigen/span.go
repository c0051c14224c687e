package eigen

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// ColumnDots stores ⟨a_c, b_c⟩ in dst for the m columns of two feature-major blocks.
func ColumnDots(dst, a, b []float64, m int) {
	if m == 1 {
		dst[0] = dense.Dot(a, b[:len(a)])
		return
	}
	dst = dst[:m]
	clear(dst)
	for i := 0; i < len(a); i += m {
		x, y := a[i:i+m], b[i:i+m]
		for c := range dst {
			dst[c] += x[c] * y[c]
		}
	}
}

// NormalizeColumns scales the columns of a feature-major block to unit norm; zero columns stay.
func NormalizeColumns(a []float64, m int) {
	norms := make([]float64, m)
	ColumnDots(norms, a, a, m)
	for c, s := range norms {
		if s > 0 {
			norms[c] = 1 / math.Sqrt(s)
		}
	}
	for i := 0; i < len(a); i += m {
		for c, f := range norms {
			a[i+c] *= f
		}
	}
}

// MatrixOver returns an orthonormal basis of the span of vectors of length 1 or 0 and Σ_r v_r h_r h_r' in its
// coordinates.
func MatrixOver(vectors [][]float64, v []float64) (axes [][]float64, sum blas64.Symmetric) {
	axes, coordinates := Orthonormal(vectors)
	if sum = NewSymmetric(len(axes)); len(axes) == 0 { // all are zeros, as those of a warm model may be
		return nil, sum
	}
	for row, at := range coordinates {
		blas64.Syr(v[row], blas64.Vector{N: len(axes), Data: at, Inc: 1}, sum)
	}
	return axes, sum
}

// EigenvectorsOf returns the eigenvectors and eigenvalues of Σ_ab a_ab axis_a axis_bᵀ, without its null space. It
// reports false if the decomposition fails.
func EigenvectorsOf(a blas64.Symmetric, axes [][]float64) (vectors [][]float64, values []float64, ok bool) {
	if a.N == 0 {
		return nil, nil, true
	}
	e, ok := Decompose(a)
	if !ok {
		return nil, nil, false
	}
	largest, _ := e.Largest()
	part := make([]float64, a.N)
	for t, value := range e.Values {
		if !(math.Abs(value) > rankTolerance*largest) {
			continue
		}
		e.Vector(part, 1, t)
		h := make([]float64, len(axes[0]))
		for a, x := range part {
			floats.AddScaled(h, x, axes[a])
		}
		NormalizeColumns(h, 1)
		vectors, values = append(vectors, h), append(values, value)
	}
	return vectors, values, true
}

// rankTolerance is what is rounding, as a part of the largest length or eigenvalue.
const rankTolerance = 1e-12

// Orthonormal returns an orthonormal basis of the span of the given unit vectors and the coordinates of each in it, by
// the Gram–Schmidt process with reorthogonalisation.
func Orthonormal(vectors [][]float64) (axes, coordinates [][]float64) {
	for _, vector := range vectors {
		rest := append([]float64(nil), vector...)
		own := make([]float64, len(vectors))
		for range 2 {
			for a, axis := range axes {
				x := floats.Dot(axis, rest)
				own[a] += x
				floats.AddScaled(rest, -x, axis)
			}
		}
		if length := dense.Norm2(rest); length > rankTolerance && len(axes) < len(rest) {
			own[len(axes)] = length
			floats.Scale(1/length, rest)
			axes = append(axes, rest)
		}
		coordinates = append(coordinates, own)
	}
	for t := range coordinates {
		coordinates[t] = coordinates[t][:len(axes)]
	}
	return axes, coordinates
}
