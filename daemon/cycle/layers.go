package cycle

import (
	"context"
	"errors"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// Basis vectors for losses of margins, by which none are found: Algorithm 1 finds them by the loss that predictions are judged by. With train.features: basis
// the support vector machine is the output layer over them; the variational stage begins with them in any case.

// vectorsStrength is the part of the strength above which none enters that they are found with. Their weights are learned anew, so that little depends on it.
const vectorsStrength = 0.01

// vectors returns a model of that loss, with basis vectors found on at most pathRows of the training rows: those of a model, nil for none, and as many more as
// the settings say.
func (j *refitJob) vectors(ctx context.Context, from *solver.Model, s solver.Settings) (*solver.Model, error) {
	p := thin(j.problem, pathRows)
	p.Loss = j.target.Loss
	top, err := solver.LambdaMax(ctx, p, s)
	if err != nil {
		return nil, err
	}
	s.Rough = true
	found, err := j.solveOne(ctx, p, from, solver.FractionsOf(top, []float64{vectorsStrength})[0], s)
	if err != nil {
		return nil, err
	}
	return found.result.Model, nil
}

// overBasis returns an algorithm that learns the output layer over basis vectors, where train.features asks for it; another one as it is. A warm refit goes on
// from the vectors of the last model and adds up to train.new_basis.
func (j *refitJob) overBasis(ctx context.Context, a solver.Algorithm, warm *warmStart, s solver.Settings) (solver.Algorithm, error) {
	svm, ok := a.(margin.SVM)
	if !ok || j.model.Train.Features != config.BasisFeatures {
		return a, nil
	}
	j.progress.searched()
	var from *solver.Model
	if warm != nil && warm.model.NumBasis > 0 {
		from = warm.model
		s.MaxSteps = j.model.Train.NewBasis
	}
	if len(j.schema.Categorical)+len(j.schema.Multi) == 0 {
		s.Refit = solver.Full
		if s.MaxBasis > manyBasis {
			s.FullEvery = sparseFull
		}
	}
	var err error
	svm.Basis, err = j.vectors(ctx, from, s)
	return svm, err
}

// startVectors returns the model of basis vectors from which a variational stage of up to k takes those that it lacks: what another algorithm has fitted, or
// vectors of their own where that has none.
func (j *refitJob) startVectors(ctx context.Context, fitted *solver.Model, warm *warmStart, k int, s solver.Settings) (*solver.Model, error) {
	own := j.vectorsOf(fitted)
	if _, linear := j.another().(margin.SVM); !linear || own.NumBasis > 0 {
		return own, nil
	}
	var from *solver.Model
	s.MaxBasis = k
	if warm != nil && warm.posterior != nil {
		if warm.posterior.NumBasis >= k {
			return own, nil
		}
		from = warm.posterior.Model()
		if s.MaxSteps = k - from.NumBasis; from.Kernel != s.Kernel {
			from = nil
		}
	}
	found, err := j.vectors(ctx, from, s)
	if IsInterrupted(err) && j.budget.over(ctx) && !errors.Is(ctx.Err(), context.Canceled) {
		return own, nil
	}
	return found, err
}
