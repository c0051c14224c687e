package full

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Normalize scales every h_r to unit length and v_r by what that takes off the kernel.
func (f *FullFit) Normalize(u []float64) {
	v, h := f.Split(u)
	for row, square := range f.Lengths(h) {
		if square == 0 {
			clear(v[row*f.P.Outputs : (row+1)*f.P.Outputs]) // an activation of 0: the weights do nothing
			continue
		}
		f.rescale(v, h, row, 1/math.Sqrt(square))
	}
}

// rescale multiplies h_row by factor and divides v_row by what that does to the kernel: predictions stay.
func (f *FullFit) rescale(v, h []float64, row int, factor float64) {
	for i := row; i < len(h); i += f.K {
		h[i] *= factor
	}
	floats.Scale(1/f.Kernel.OfLength(1, factor), v[row*f.P.Outputs:(row+1)*f.P.Outputs])
}

// Lengths returns the squared lengths of the basis vectors.
func (f *FullFit) Lengths(h []float64) []float64 {
	squares := make([]float64, f.K)
	for i, x := range h {
		squares[i%f.K] += x * x
	}
	return squares
}
