package cycle

import (
	"context"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// raced is what the two stages of an offline fit came to on a share of the rows.
type raced struct {
	lambda float64 // of the best model of the convex path, for all rows
	loss   float64 // of that model, on all select rows
	won    bool    // by the variational stage
}

// race runs the convex path, coarsely, and the variational stage on pathRows rows, spread evenly over all of them. Where the variational stage
// predicts the select rows better there, the path over all rows is left out: more rows gain the variational stage more than a path, whose penalty is
// one for all vectors (ML-1M: the path takes nine tenths of the time of a fit and ends .022 RMSE behind).
func (j *refitJob) race(ctx context.Context, valid []event.Event, s solver.Settings, k int) (*raced, error) {
	part := *j
	part.problem = thin(j.problem, pathRows)
	part.select_, _ = encode(j.vocab, j.target, spread(valid, pathRows), nil)
	part.judge = part.validLoss()
	s.Rough = true
	lambdas, err := part.lambdasFor(ctx, part.problem, s)
	if err != nil {
		return nil, err
	}
	convex, err := part.solvePath(ctx, part.problem, lambdas, 1, s, nil)
	if err != nil {
		return nil, err
	}
	r := &raced{lambda: convex.lambda * lambdaUnit(j.problem) / lambdaUnit(part.problem), loss: j.judge(convex.model)}
	swept, err := part.variational(ctx, nil, convex.result.Model, k, offlineSweeps, &part.budget)
	if err != nil {
		return nil, err
	}
	r.won = swept != nil && swept.loss < convex.loss
	return r, nil
}

// races reports whether the stages of an offline fit are raced: where the variational stage does not start from the convex one's vectors, nobody asked
// for the path, and a share of the rows says something about all.
func (j *refitJob) races(in *FitInput) bool {
	t := &in.Model.Train
	return t.Refit == "variational" && !t.ConvexAlone() && !j.target.Task.HasClasses() && !in.Thorough && len(in.Lambdas) == 0 && in.Model.Train.Lambda == 0 &&
		in.MaxSteps == 0 && len(in.Valid) > 0 && j.problem.X.NumRows() > pathRows
}

// fitStages runs the stages of an offline fit. The candidate is the best model of the path, or where that was left out the linear model it begins with.
func (j *refitJob) fitStages(ctx context.Context, in *FitInput, s solver.Settings, onStep func(*candidate)) (*candidate, *variationalFit, error) {
	if a := j.another(); a != nil {
		best, err := j.fitPathBy(ctx, a, in, s, onStep)
		return best, nil, err
	}
	most := in.Model.Train.MaxBasis
	if j.races(in) {
		r, err := j.race(ctx, in.Valid, s, most)
		if err != nil {
			return nil, nil, err
		}
		if r.won {
			linear := s
			linear.MaxSteps, linear.WeightsOnly = 0, true
			best, err := j.solveOne(ctx, j.problem, nil, r.lambda, linear)
			if err != nil {
				return nil, nil, err
			}
			onStep(best)
			best.unsolved = true
			if fit, err := j.fitVariational(ctx, best.model, most); err != nil || ctx.Err() != nil || fit != nil && fit.loss < r.loss {
				return best, fit, err
			}
		}
	}
	var whole *candidate
	if j.triesQuadratic(in, s) {
		var alone bool
		var err error
		if whole, alone, err = j.quadraticStage(ctx, s, onStep); err != nil || alone {
			return whole, nil, err
		}
	}
	lambdas, err := j.fitLambdas(ctx, in, s)
	if err != nil {
		return nil, nil, err
	}
	j.progress.begin(in.Model, len(lambdas), in.MaxSteps)
	patience := autoPatience
	if len(in.Lambdas) > 0 {
		patience = len(lambdas) // given ones are all tried
	}
	best, err := j.fitPath(ctx, in, lambdas, patience, s, onStep)
	if err == nil && whole != nil {
		j.compared(formVectors, best, j.problem, 0)
		if whole.lambda = best.lambda; j.fewerErrors(whole.model, best.model) {
			return whole, nil, nil
		}
	}
	if err != nil || in.Model.Train.Refit != "variational" || in.Model.Train.ConvexAlone() || ctx.Err() != nil {
		return best, nil, err
	}
	vectors := best.result.Model
	if best.path != nil {
		vectors = best.path
	}
	fit, err := j.fitVariational(ctx, vectors, most)
	return best, fit, err
}

// batchShare is solver.Settings.BatchShare of rough paths in an offline fit.
const batchShare = 0.04

// fitPath is solvePath of an offline fit. Strengths are compared by solves that are neither polished nor certified, unless the fit is thorough; the best
// model then is both. That chooses alike, and to polish every strength takes most of the time.
func (j *refitJob) fitPath(ctx context.Context, in *FitInput, lambdas []float64, patience int, s solver.Settings,
	onStep func(*candidate)) (*candidate, error) {
	if in.Thorough {
		return j.solvePath(ctx, j.problem, lambdas, patience, s, onStep)
	}
	rough := s
	rough.Rough, rough.BatchShare = true, batchShare
	best, err := j.walkPath(ctx, j.problem, lambdas, patience, rough, onStep)
	if err != nil || ctx.Err() != nil {
		return best, err
	}
	return j.finish(ctx, best, s)
}

// marginGap is the relative gap to which an offline fit, unless it is thorough, brings the SVM of the best λ. On letter a
// tenth of it took about three times as many steps (λ 40 and 12 per 10,000 rows: 16 and 35 rather than 5 and 12), for accuracies within .004.
const marginGap = 1e-3

// fitPathBy is fitPath by another algorithm. The solves of an SVM are rough until the best λ is known; those of the others are all whole.
func (j *refitJob) fitPathBy(ctx context.Context, a solver.Algorithm, in *FitInput, s solver.Settings, onStep func(*candidate)) (*candidate, error) {
	a, err := j.overBasis(ctx, a, nil, s)
	if err != nil {
		return nil, err
	}
	lambdas, err := j.fitLambdas(ctx, in, s)
	if err != nil {
		return nil, err
	}
	j.progress.begin(in.Model, len(lambdas), in.MaxSteps)
	o := solver.PathOptions{Algorithm: a, FinalOnly: true, Judge: j.judge, Patience: autoPatience}
	_, svm := a.(margin.SVM)
	if len(in.Lambdas) > 0 || svm { // given ones are all tried; strong ones of an SVM classify alike, and cost little
		o.Patience = len(lambdas)
	}
	if !svm || in.Thorough {
		return j.pathBy(ctx, j.problem, lambdas, s, o, onStep)
	}
	rough := s
	rough.Rough, s.Tolerance = true, max(s.Tolerance, marginGap)
	best, err := j.pathBy(ctx, j.problem, lambdas, rough, o, onStep)
	if err != nil || j.budget.over(ctx) {
		return best, err
	}
	calls := j.budget.calls
	o.Warm = &solver.Warm{Model: best.result.Model, Dual: best.result.Dual}
	whole, err := j.pathBy(ctx, j.problem, []float64{best.lambda}, s, o, onStep)
	return j.orOfPart(ctx, best, calls, whole, err)
}

// fitLambdas returns the strengths to try in an offline fit.
func (j *refitJob) fitLambdas(ctx context.Context, in *FitInput, s solver.Settings) ([]float64, error) {
	if len(in.Lambdas) == 0 {
		j.progress.bounds()
		return j.lambdasFor(ctx, j.problem, s)
	}
	var lambdas []float64
	unit := lambdaUnit(j.problem)
	for _, l := range in.Lambdas {
		lambdas = append(lambdas, l*unit)
	}
	return lambdas, nil
}

// fitPrecision is what the precision of basis coordinates is multiplied by in the second of the variational stages that an offline fit compares.
const fitPrecision = 15.0 / 8

// fitVariational runs the variational stage of an offline fit under two priors, that of streams and a tighter one without a cap on what the sweeps
// make of it, and returns the one that predicts the select rows better. A cap is for bases that are young or go on from refit to refit: on ML-1M,
// where half a million rows start it, RMSE is .862 with and .8585 without. Outputs of their own have the first alone.
func (j *refitJob) fitVariational(ctx context.Context, vectors *solver.Model, k int) (*variationalFit, error) {
	fit, err := j.variational(ctx, nil, vectors, k, offlineSweeps, &j.budget)
	if err != nil || fit == nil || j.target.Task.HasClasses() || ctx.Err() != nil {
		return fit, err
	}
	prior := priorFor(j.target.Likelihood, j.problem)
	prior.Basis *= fitPrecision
	prior.Cap = math.Inf(1)
	tight, err := j.sweep(ctx, j.newPosterior(vectors, prior, k),
		&sweeping{problem: j.problem, prior: prior, limit: offlineSweeps, judge: j.judge, budget: &j.budget})
	if tight == nil || err != nil || !(tight.loss < fit.loss) {
		return fit, err
	}
	tight.uncapped = true
	return tight, nil
}

// convexAgain is how often the convex stage runs although it cannot win, by versions: what it cannot do may change with the stream. It is prime, for
// refits come every so many versions, updates between them.
const convexAgain = 11

// leavesConvexOut reports whether a refit that goes on from a posterior can do without the convex stage: that of the champion lost to the variational
// one, no basis vector is due that it would find, and the last version was not kept back. Where outputs have weights of their own it always runs.
func (j *refitJob) leavesConvexOut(warm *warmStart) bool {
	k := j.model.Train.VariationalBasis(j.problem.X.NumRows())
	t := &j.model.Train
	return t.Refit == "variational" && !t.ConvexAlone() && !j.target.Task.HasClasses() && j.champion.Version.Sweeps > 0 && j.rejections == 0 &&
		warm.version%convexAgain != 0 && warm.posterior.NumBasis >= k && (warm.gaussian == nil || warm.gaussian.NumBasis >= k)
}

// sweepAlone runs the variational stage without the convex one before it. The candidate is what the sweeps began with, nil if these gained nothing on
// the select rows, so that the convex stage is needed after all.
func (j *refitJob) sweepAlone(ctx context.Context, warm *warmStart, k int) (*candidate, *variationalFit, error) {
	lambda := warm.lambda
	if fixed := float64(j.model.Train.Lambda); fixed > 0 {
		lambda = fixed * lambdaUnit(j.problem)
	}
	before := &candidate{model: warm.model, lambda: lambda, result: &solver.Result{Model: warm.model, Status: solver.BasisLimit}, unsolved: true,
		loss: j.judge(warm.posterior.Model())}
	start := warm.posterior.Clone()
	fit, err := j.variational(ctx, warm, warm.model, k, j.model.Train.Sweeps, &j.budget)
	if err != nil {
		return nil, nil, err
	}
	if j.budget.endedInSweeps() {
		before.result.Status = solver.TimeBudget
		return before, fit, nil
	}
	if fit == nil || !(fit.loss <= before.loss) {
		warm.posterior = start
		return nil, nil, nil
	}
	return before, fit, nil
}
