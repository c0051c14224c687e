package penalty

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"gonum.org/v1/gonum/floats"
)

// Subgradient stores in dst the vector of row norm 1 whose product with the row is the dual norm of the row (Blondel
// et al. 2017, table 1).
func (p Penalty) Subgradient(dst, row []float64) {
	clear(dst)
	switch p {
	case L1:
		largest := 0
		for c, x := range row {
			if math.Abs(x) > math.Abs(row[largest]) {
				largest = c
			}
		}
		dst[largest] = math.Copysign(1, row[largest])
	case L1L2:
		if norm := dense.Norm2(row); norm > 0 {
			floats.ScaleTo(dst, 1/norm, row)
		}
	default:
		for c, x := range row {
			if x != 0 {
				dst[c] = math.Copysign(1, x)
			}
		}
	}
}
