package output

import (
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

// OutputGradient stores the gradient of the loss in V, Φ'D, in dst (k×m), given the weighted loss gradients D (n×m).
func (f *OutputFit) OutputGradient(dst, rows []float64) {
	n, k, m := f.P.X.NumRows(), len(f.Phi), f.P.Outputs
	parts := make([][]float64, problem.NumBlocks(n))
	f.Workers.Blocks(n, problem.RowBlock(n), func(_, b, lo, hi int) {
		part, columns := make([]float64, k*m), make([]float64, m*loss.FitTile)
		for a := lo; a < hi; a += loss.FitTile {
			size := min(hi-a, loss.FitTile)
			for i := range size {
				for c, g := range rows[(a+i)*m : (a+i)*m+m] {
					columns[c*loss.FitTile+i] = g
				}
			}
			for r, phi := range f.Phi {
				for c := range m {
					part[r*m+c] += floats.Dot(phi[a:a+size], columns[c*loss.FitTile:c*loss.FitTile+size])
				}
			}
		}
		parts[b] = part
	})
	clear(dst)
	parallel.SumInto(dst, parts)
}
