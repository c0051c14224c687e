package solver

import (
	"context"

	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/problem"
)

// SelectBasis returns the basis vector h of unit norm, length d, that s.Selection with s.Penalty chooses at a model of
// p's shape, and its criterion, equation (4). Lambda, Tau, MaxBasis and Solver are not used. Errors wrap ErrProblem or
// ErrSettings, or are those of ctx.
func SelectBasis(ctx context.Context, p *Problem, model *Model,
	s Settings) (h []float64, criterion float64, err error) {
	s.Lambda, s.Tau = 1, 0
	ctx, cancel := s.Budget.within(ctx)
	defer cancel()
	run, err := newSolve(ctx, p, s)
	if err != nil {
		return nil, 0, err
	}
	if err := run.checkModel(model); err != nil {
		return nil, 0, err
	}
	run.workers.Blocks(p.X.NumRows(), problem.RowBlock(p.X.NumRows()), func(_, _, lo, hi int) {
		work := make([]float64, 2*model.NumBasis)
		for i := lo; i < hi; i++ {
			index, value := p.X.Row(i)
			model.Predict(run.pred[i*run.m:], work, index, value)
		}
	})
	linear.RowLosses(run.workers, p, run.pred, run.gamma.Grad)
	run.gamma.Prepare()
	found := run.gamma.SelectBasis(s.Penalty, nil, gamma.FineOracle.By(s.Selection), s.Seed)
	return found.Basis, found.Criterion, ctx.Err()
}
