package convex

import (
	"context"
	"errors"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// Basis vectors for losses of margins, by which none are found: Algorithm 1 finds them by the loss that predictions are
// judged by. With train.features: basis the support vector machine is the output layer over them; the variational stage
// begins with them in any case.

// vectorsStrength is the part of the strength above which none enters that they are found with. Their weights are
// learned anew, so that little depends on it. Chosen by hand.
const vectorsStrength = 0.01

// vectors returns a model of that loss, with basis vectors found on at most PathRows of the training rows: those of a
// model, nil for none, and as many more as the settings say.
func vectors(ctx context.Context, j *task.Task, from *solver.Model, s solver.Settings) (*solver.Model, error) {
	p := task.Thin(j.Rows.Problem, PathRows)
	p.Loss = j.Target.Loss
	top, err := solver.LambdaMax(ctx, p, s)
	if err != nil {
		return nil, err
	}
	s.Rough = true
	found, err := SolveOne(ctx, j, p, from, solver.FractionsOf(top, []float64{vectorsStrength})[0], s)
	if err != nil {
		return nil, err
	}
	return found.Result.Model, nil
}

// OverBasis returns an algorithm that learns the output layer over basis vectors, where train.features asks for it;
// another one as it is. A warm refit starts from the vectors of the last model and adds up to train.new_basis.
func OverBasis(ctx context.Context, j *task.Task, a solver.Algorithm, warm *task.WarmStart,
	s solver.Settings) (solver.Algorithm, error) {
	svm, ok := a.(margin.SVM)
	if !ok || j.Model.Train.Features != config.BasisFeatures {
		return a, nil
	}
	j.Progress.Searched()
	var from *solver.Model
	if warm != nil && warm.Model.NumBasis > 0 {
		from = warm.Model
		s.MaxSteps = j.Model.Train.NewBasis
	}
	if len(j.Schema.Categorical)+len(j.Schema.Multi) == 0 {
		s.Refit = solver.Full
		if s.MaxBasis > manyBasis {
			s.FullEvery = sparseFull
		}
	}
	var err error
	svm.Basis, err = vectors(ctx, j, from, s)
	return svm, err
}

// StartVectors returns the model of basis vectors from which a variational stage of up to k takes those that it lacks:
// what another algorithm has fitted, or new vectors where that model has none.
func StartVectors(ctx context.Context, j *task.Task, fitted *solver.Model, warm *task.WarmStart, k int,
	s solver.Settings) (*solver.Model, error) {
	own := VectorsOf(j, fitted)
	if _, linear := FitAlgorithm(j).(margin.SVM); !linear || own.NumBasis > 0 {
		return own, nil
	}
	var from *solver.Model
	s.MaxBasis = k
	if warm != nil && warm.Posterior != nil {
		if warm.Posterior.NumBasis >= k {
			return own, nil
		}
		from = warm.Posterior.Model()
		if s.MaxSteps = k - from.NumBasis; from.Kernel != s.Kernel {
			from = nil
		}
	}
	found, err := vectors(ctx, j, from, s)
	if task.IsInterrupted(err) && j.Budget.Over(ctx) && !errors.Is(ctx.Err(), context.Canceled) {
		return own, nil
	}
	return found, err
}
