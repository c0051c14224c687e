package ridge

import "github.com/refitd/refitd/solver/internal/dense"

// Downdate takes f·u·uᵀ from the symmetric n×n matrix a, n = len(x), and stores a·x in y: a step of least squares and
// the product that the next one begins with, in one pass. Of a it has the lower triangle, row by row. y and u overlap
// neither each other nor the others. Unlike sums of gonum's, none depends on the processor. O(n²).
func Downdate(y, a, x []float64, f float64, u []float64) {
	n := len(x)
	clear(y)
	for i, v := range x {
		row := a[i*n : i*n+i+1]
		if fall := -f * u[i]; fall != 0 {
			dense.AddScaled(row, fall, u[:i+1])
		}
		y[i] += dense.Dot(row, x[:i+1])
		dense.AddScaled(y[:i], v, row[:i])
	}
}
