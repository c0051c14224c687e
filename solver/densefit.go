package solver

import (
	"context"

	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/output"
)

// NewDenseFit returns a fit for the rows of p, whose X it does not look at but for their number, with all columns and
// weights zero. Of the settings it takes Workers, Yield, BiasRidge, Tolerance and MaxIterations. offset is n×m,
// row-major, and read only. Call SetRow for every row, then Fit.
func NewDenseFit(ctx context.Context, p *Problem, offset []float64, columns int, s Settings) *DenseFit {
	limits := output.FitLimits{Tolerance: s.Tolerance, Iterations: s.MaxIterations}
	return linear.NewDenseFit(p, offset, columns, s.workers(ctx), s.BiasRidge, limits)
}
