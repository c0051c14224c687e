package refit

import (
	"context"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// pilotFit runs the convex path, coarsely, and the variational stage on PathRows rows, spread evenly over all of them.
// Where the variational stage predicts the select rows better there, the path over all rows is left out: more rows gain
// the variational stage more than a path, whose penalty is one for all vectors (ML-1M: the path takes nine tenths of
// the time of a fit and ends 0.022 RMSE behind).
func pilotFit(ctx context.Context, j *task.Task, valid []event.Event, s solver.Settings, k int) (*task.Pilot, error) {
	part := j.OnShare(convex.PathRows, valid)
	s.Rough = true
	lambdas, err := convex.LambdasFor(ctx, part, part.Rows.Problem, s)
	if err != nil {
		return nil, err
	}
	byPath, err := convex.SolvePath(ctx, part, part.Rows.Problem, lambdas, 1, s, nil)
	if err != nil {
		return nil, err
	}
	r := &task.Pilot{
		// λ is per row of the sample: the same strength on all rows is so many times as large.
		Lambda: byPath.Lambda * convex.LambdaUnit(j.Rows.Problem) / convex.LambdaUnit(part.Rows.Problem),
		Loss:   j.Judge(byPath.Model),
	}
	swept, err := variationalStage(ctx, part, nil, byPath.Result.Model, k, offlineSweeps, part.Budget)
	if err != nil {
		return nil, err
	}
	r.Won = swept != nil && swept.Loss < byPath.Loss
	return r, nil
}

// isPiloted reports whether the stages of an offline fit are raced: where the variational stage does not start from the
// convex one's vectors, nobody asked for the path, and a share of the rows says something about all.
func isPiloted(j *task.Task, in *task.FitInput) bool {
	t := &in.Model.Train
	return t.Refit == "variational" && !t.ConvexAlone() && !j.Target.Task.HasClasses() && !in.Thorough && len(
		in.Lambdas) == 0 && in.Model.Train.Lambda == 0 &&
		in.MaxSteps == 0 && len(in.Valid) > 0 &&
		j.Rows.Problem.X.NumRows() > convex.PathRows
}

// fitStages runs the stages of an offline fit. The candidate is the best model of the path, or where that was left out
// the linear model it begins with. The forms that were compared come with it.
func fitStages(ctx context.Context, j *task.Task, in *task.FitInput, s solver.Settings,
	onStep func(*task.Candidate)) (*task.Candidate, *task.VariationalFit, []report.FitForm, error) {
	if a := convex.FitAlgorithm(j); a != nil {
		best, err := fitPathBy(ctx, j, a, in, s, onStep)
		return best, nil, nil, err
	}
	most := in.Model.Train.MaxBasis
	if isPiloted(j, in) {
		r, err := pilotFit(ctx, j, in.Valid, s, most)
		if err != nil {
			return nil, nil, nil, err
		}
		if r.Won {
			best, fit, err := fitFromLinear(ctx, j, s, r.Lambda, most, onStep)
			// The share of the rows was right if all rows do better than it; else the path is walked after all.
			if err != nil || ctx.Err() != nil || fit != nil && fit.Loss < r.Loss {
				return best, fit, nil, err
			}
		}
	}
	var whole *task.Candidate
	var forms []report.FitForm
	if convex.TriesQuadratic(j, in, s) {
		var alone bool
		var err error
		if whole, alone, forms, err = convex.QuadraticStage(ctx, j, s, onStep); err != nil || alone {
			return whole, nil, forms, err
		}
	}
	lambdas, err := fitLambdas(ctx, j, in, s)
	if err != nil {
		return nil, nil, nil, err
	}
	begin(j.Progress, in.Model, len(lambdas), in.MaxSteps)
	patience := convex.AutoPatience
	if len(in.Lambdas) > 0 {
		patience = len(lambdas) // given ones are all tried
	}
	best, err := fitPath(ctx, j, in, lambdas, patience, s, onStep)
	if err == nil && whole != nil {
		forms = append(forms, convex.ComparedFit(j, convex.FormVectors, best, 0))
		if whole.Lambda = best.Lambda; convex.FewerErrors(j, whole.Model, best.Model) {
			return whole, nil, forms, nil
		}
	}
	if err != nil || in.Model.Train.Refit != "variational" || in.Model.Train.ConvexAlone() || ctx.Err() != nil {
		return best, nil, forms, err
	}
	vectors := best.Result.Model
	if best.Path != nil {
		vectors = best.Path
	}
	fit, err := fitVariational(ctx, j, vectors, most)
	return best, fit, forms, err
}

// fitFromLinear fits the variational stage without the path: the convex solver's part is the linear term alone, at λ.
func fitFromLinear(ctx context.Context, j *task.Task, s solver.Settings, lambda float64, most int,
	onStep func(*task.Candidate),
) (*task.Candidate, *task.VariationalFit, error) {
	s.MaxSteps, s.WeightsOnly = 0, true
	best, err := convex.SolveOne(ctx, j, j.Rows.Problem, nil, lambda, s)
	if err != nil {
		return nil, nil, err
	}
	onStep(best)
	best.Unsolved = true
	fit, err := fitVariational(ctx, j, best.Model, most)
	return best, fit, err
}

// batchShare is solver.Settings.BatchShare of rough paths in an offline fit. Chosen by hand.
const batchShare = 0.04

// fitPath is SolvePath of an offline fit. Strengths are compared by solves that are neither polished nor certified,
// unless the fit is thorough; the best model then is both. That chooses alike, and to polish every strength takes most
// of the time.
func fitPath(ctx context.Context, j *task.Task, in *task.FitInput, lambdas []float64, patience int, s solver.Settings,
	onStep func(*task.Candidate)) (*task.Candidate, error) {
	if in.Thorough {
		return convex.SolvePath(ctx, j, j.Rows.Problem, lambdas, patience, s, onStep)
	}
	rough := s
	rough.Rough, rough.BatchShare = true, batchShare
	best, err := convex.WalkPath(ctx, j, j.Rows.Problem, lambdas, patience, rough, onStep)
	if err != nil || ctx.Err() != nil {
		return best, err
	}
	return convex.Finish(ctx, j, best, s)
}

// marginGap is the relative gap to which an offline fit, unless it is thorough, brings the SVM of the best λ. On
// letter a tenth of it took about three times as many steps (λ 40 and 12 per 10,000 rows: 16 and 35 rather than 5 and
// 12), for accuracies within 0.004. It is tuned on letter.
const marginGap = 1e-3

// fitPathBy is fitPath by another algorithm. The solves of an SVM are rough until the best λ is known; those of the
// others are all whole.
func fitPathBy(ctx context.Context, j *task.Task, a solver.Algorithm, in *task.FitInput, s solver.Settings,
	onStep func(*task.Candidate)) (*task.Candidate, error) {
	a, err := convex.OverBasis(ctx, j, a, nil, s)
	if err != nil {
		return nil, err
	}
	lambdas, err := fitLambdas(ctx, j, in, s)
	if err != nil {
		return nil, err
	}
	begin(j.Progress, in.Model, len(lambdas), in.MaxSteps)
	o := solver.PathOptions{Algorithm: a, FinalOnly: true, Judge: j.Judge, Patience: convex.AutoPatience}
	_, svm := a.(margin.SVM)
	if len(in.Lambdas) > 0 || svm { // given ones are all tried; strong ones of an SVM classify alike, and cost little
		o.Patience = len(lambdas)
	}
	if !svm || in.Thorough {
		return convex.PathBy(ctx, j, j.Rows.Problem, lambdas, s, o, onStep)
	}
	rough := s
	rough.Rough, s.Tolerance = true, max(s.Tolerance, marginGap)
	best, err := convex.PathBy(ctx, j, j.Rows.Problem, lambdas, rough, o, onStep)
	if err != nil || j.Budget.Over(ctx) {
		return best, err
	}
	calls := j.Budget.Calls
	o.Warm = &solver.Warm{Model: best.Result.Model, Dual: best.Result.Dual}
	whole, err := convex.PathBy(ctx, j, j.Rows.Problem, []float64{best.Lambda}, s, o, onStep)
	return convex.OrOfPart(ctx, j, best, calls, whole, err)
}

// fractionsOfMax returns the given strengths per 10,000 rows, also those that are fractions of λ_max, above which no
// basis vector enters.
func fractionsOfMax(ctx context.Context, j *task.Task, in *task.FitInput, s solver.Settings) ([]float64, error) {
	s.Rough = false // what was asked for is a share of this number
	top, err := solver.LambdaMax(ctx, j.Rows.Problem, s)
	if err != nil {
		return nil, err
	}
	lambdas, unit := slices.Clone(in.Lambdas), convex.LambdaUnit(j.Rows.Problem)
	for i, of := range solver.FractionsOf(top, in.Lambdas) {
		if in.OfMax[i] {
			lambdas[i] = of / unit
		}
	}
	return lambdas, nil
}

// fitLambdas returns the strengths to try in an offline fit.
func fitLambdas(ctx context.Context, j *task.Task, in *task.FitInput, s solver.Settings) ([]float64, error) {
	if len(in.Lambdas) == 0 {
		bounds(j.Progress)
		return convex.LambdasFor(ctx, j, j.Rows.Problem, s)
	}
	var lambdas []float64
	unit := convex.LambdaUnit(j.Rows.Problem)
	for _, l := range in.Lambdas {
		lambdas = append(lambdas, l*unit)
	}
	return lambdas, nil
}

// fitPrecision is what the precision of basis coordinates is multiplied by in the second of the variational stages that
// an offline fit compares. Chosen by hand.
const fitPrecision = 15.0 / 8

// fitVariational runs the variational stage of an offline fit under two priors, that of streams and a tighter one
// without a cap on what the sweeps make of it, and returns the one that predicts the select rows better. A cap is for
// bases that are new or carried over from refit to refit. On ML-1M, where half a million rows start it, RMSE is 0.862
// with and 0.8585 without. Independent outputs have only the first.
func fitVariational(ctx context.Context, j *task.Task, vectors *solver.Model, k int) (*task.VariationalFit, error) {
	fit, err := variationalStage(ctx, j, nil, vectors, k, offlineSweeps, j.Budget)
	if err != nil || fit == nil || j.Target.Task.HasClasses() || ctx.Err() != nil {
		return fit, err
	}
	prior := variational.PriorFor(j.Target.Likelihood, j.Rows.Problem)
	prior.Basis *= fitPrecision
	prior.Cap = math.Inf(1)
	tight, err := variational.Sweep(ctx, j, variational.NewPosterior(j, vectors, prior, k),
		&task.Sweeping{Problem: j.Rows.Problem, Prior: prior, Limit: offlineSweeps, Judge: j.Judge, Budget: j.Budget})
	if tight == nil || err != nil || !(tight.Loss < fit.Loss) {
		return fit, err
	}
	tight.Uncapped = true
	return tight, nil
}

// SweepAlone runs the variational stage without the convex one before it. The candidate is what the sweeps began with,
// nil if these gained nothing on the select rows, so that the convex stage is needed after all.
func SweepAlone(ctx context.Context, j *task.Task, warm *task.WarmStart,
	k int) (*task.Candidate, *task.VariationalFit, error) {
	lambda := warm.Lambda
	if fixed := float64(j.Model.Train.Lambda); fixed > 0 {
		lambda = fixed * convex.LambdaUnit(j.Rows.Problem)
	}
	before := &task.Candidate{
		Model:    warm.Model,
		Lambda:   lambda,
		Result:   &solver.Result{Model: warm.Model, Status: solver.BasisLimit},
		Unsolved: true,
		Loss:     j.Judge(warm.Posterior.Model()),
	}
	// Sweeps change it in place: the convex stage needs it as it was, if they gain nothing.
	start := warm.Posterior.Clone()
	fit, err := variationalStage(ctx, j, warm, warm.Model, k, j.Model.Train.Sweeps, j.Budget)
	if err != nil {
		return nil, nil, err
	}
	if j.Budget.EndedInSweeps() {
		before.Result.Status = solver.TimeBudget
		return before, fit, nil
	}
	if fit == nil || !(fit.Loss <= before.Loss) && gate.SelectDecides(j) {
		warm.Posterior = start
		return nil, nil, nil
	}
	return before, fit, nil
}
