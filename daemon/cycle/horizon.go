package cycle

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/solver"
)

// horizons are the half-lives of a training row in events that a refit chooses from, without sample.half_life; the first one forgets nothing.
var horizons = []float64{math.Inf(1), 300_000, 100_000, 30_000, 10_000, 3_000}

// How horizons are compared: by the losses on the select rows, which count half for each recentHalfLife events of age, of models after
// horizonSweeps sweeps. Another horizon is taken if its mean loss is less by horizonErrors standard errors of the paired difference.
const (
	recentHalfLife = 5_000
	horizonSweeps  = 2
	horizonErrors  = 2.0
	horizonRows    = 50 // select rows of equal weight, below which nothing is changed
)

// decayed returns the weights of rows of the given ages, of mean 1 as sample weights are, base nil counting as 1 each. Where nothing decays it
// returns base. With a mean of 1 what is left of the sample is fitted as closely as a whole sample: on ratings that drift, weights of at
// most 1 took .86 RMSE where these take .76.
func decayed(base, age []float64, halfLife float64) []float64 {
	if math.IsInf(halfLife, 1) {
		return base
	}
	out := make([]float64, len(age))
	for i, a := range age {
		out[i] = math.Exp2(-a / halfLife)
		if base != nil {
			out[i] *= base[i]
		}
	}
	if sum := floats.Sum(out); sum > 0 {
		floats.Scale(float64(len(out))/sum, out)
	}
	return out
}

// fade lets the training rows fade from here on: with the given horizon of a refit that is repeated, else with one that it chooses.
func (j *refitJob) fade(ctx context.Context, warm *warmStart) error {
	if j.given >= 0 {
		j.horizon = j.given
	} else if err := j.chooseHorizon(ctx, warm); err != nil {
		return err
	}
	if j.horizon > 0 {
		j.problem.Weights = decayed(j.problem.Weights, j.sample.TrainAge, horizons[j.horizon])
	}
	return nil
}

// chooseHorizon sets how fast training rows fade in this refit, from what the last one chose: the select rows, recent ones before all, decide whether
// a shorter or longer horizon predicts better, and as long as it does the next is tried. Where the time budget ends that, what was found so far counts.
func (j *refitJob) chooseHorizon(ctx context.Context, warm *warmStart) error {
	if j.model.Sample.HalfLife > 0 || len(j.sample.TrainAge) != j.problem.X.NumRows() || len(j.sample.SelectAge) != len(j.select_.events) {
		return nil
	}
	if warm == nil {
		if j.champion != nil { // what the stream is like does not depend on where a refit starts
			j.horizon = j.champion.horizon
		}
		return nil
	}
	j.horizon = warm.horizon
	weight := j.recentWeights()
	if !j.horizonsTell(weight) {
		return nil
	}
	now, run, err := j.lossesAt(ctx, warm, j.horizon)
	for _, step := range []int{1, -1} {
		moved := false
		for h := j.next(j.horizon, step); err == nil && h >= 0; h = j.next(h, step) {
			losses, other, failed := j.lossesAt(ctx, warm, h)
			if err = failed; err != nil || !isLess(losses, now, weight, horizonErrors) {
				break
			}
			j.horizon, now, run, moved = h, losses, other, true
		}
		if moved {
			break
		}
	}
	j.ahead = run
	if IsInterrupted(err) {
		return nil
	}
	return err
}

// recentWeights returns the weights of the select rows by which horizons are compared: of those since the last alarm of the drift detector, if they are
// enough, for what predicts earlier ones does not matter any more.
func (j *refitJob) recentWeights() []float64 {
	fading := decayed(nil, j.sample.SelectAge, recentHalfLife)
	since := slices.Clone(fading)
	for i, age := range j.sample.SelectAge {
		if age > j.alarmAge {
			since[i] = 0
		}
	}
	if since = j.chosenBy(since, j.select_.events); j.horizonsTell(since) {
		return since
	}
	return j.chosenBy(fading, j.select_.events)
}

// horizonsTell reports whether the select rows, of these weights, are enough to compare horizons by: as many as horizonRows of equal weight, and
// leastOfLabel of either binary label. Nearly all of the difference between two models of rare labels is in the few rows that have one.
func (j *refitJob) horizonsTell(weight []float64) bool {
	if enough := effective(weight) >= horizonRows; !enough || j.target.Task != event.Binary {
		return enough
	}
	var of [2][]float64
	for i, one := range j.onesOf(j.select_) {
		label := 0
		if one {
			label = 1
		}
		of[label] = append(of[label], weight[i])
	}
	return effective(of[0]) >= leastOfLabel && effective(of[1]) >= leastOfLabel
}

// next returns the horizon beside h, -1 if there is none. Those beyond the oldest row, but for the first, are left out: they are much the same.
func (j *refitJob) next(h, step int) int {
	oldest := slices.Max(j.sample.TrainAge)
	for h += step; h > 0 && h < len(horizons); h += step {
		if horizons[h] <= oldest {
			return h
		}
	}
	if h == 0 {
		return 0
	}
	return -1
}

// effective returns the number of rows of equal weight that tell as much as rows of these weights.
func effective(weights []float64) float64 {
	sum, square := 0.0, 0.0
	for _, w := range weights {
		sum += w
		square += w * w
	}
	return sum * sum / square
}

// lossesAt returns the losses on the select rows of what the last model becomes by a few steps over rows that fade with a horizon, and the sweeps that
// made it, nil without a posterior.
func (j *refitJob) lossesAt(ctx context.Context, warm *warmStart, horizon int) ([]float64, *sweeper, error) {
	if warm.posterior == nil {
		model, err := j.solvedAt(ctx, warm, horizons[horizon])
		if err != nil {
			return nil, nil, err
		}
		return j.losses(model), nil, nil
	}
	run, err := j.sweptAt(ctx, warm, horizons[horizon])
	if err != nil {
		return nil, nil, err
	}
	return j.losses(run.state.Model()), run, nil
}

// sweptAt makes a few sweeps of the live posterior over rows that fade with a half-life.
func (j *refitJob) sweptAt(ctx context.Context, warm *warmStart, halfLife float64) (*sweeper, error) {
	p := *j.problem
	p.Weights = decayed(p.Weights, j.sample.TrainAge, halfLife)
	state := warm.posterior.Clone()
	prior := priorFor(j.target.Likelihood, &p)
	renewed := prior
	renewed.Basis = prior.Cap
	state.SetPrior(renewed)
	run, err := j.newSweeper(state, &p, prior.Cap, j.budget.deadline)
	if err != nil {
		return nil, err
	}
	return run, run.makeAhead(ctx, horizonSweeps)
}

// Models without a posterior are compared on rows of up to horizonAges half-lives, horizonFew of them at least and horizonTrain at most.
const (
	horizonAges  = 5
	horizonTrain = 10_000
	horizonFew   = 1000
)

// solvedAt returns the last model with its weights, and those on its feature map, moved towards rows that fade with a half-life.
func (j *refitJob) solvedAt(ctx context.Context, warm *warmStart, halfLife float64) (*solver.Model, error) {
	if !j.budget.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, j.budget.deadline)
		defer cancel()
	}
	s, err := j.settings()
	if err != nil {
		return nil, err
	}
	p := *j.problem
	p.Weights = decayed(p.Weights, j.sample.TrainAge, halfLife)
	rows := j.rowsWithin(horizonAges * halfLife)
	part := pick(&p, rows)
	share := lambdaUnit(part) / lambdaUnit(&p)
	s.Lambda, s.MaxIterations, s.MaxSteps, s.WeightsOnly, s.Tolerance = warm.lambda*share, roughIterations, 0, true, streamTolerance
	result, err := solver.Solve(ctx, part, warm.model, s)
	if err != nil {
		return nil, err
	}
	model := result.Model
	if warm.mapWeights != nil && warm.featureMap == j.vocab.Map {
		fit := j.mapFit(ctx, model, part, rows, warm)
		if !fit.Fit(warm.mapRidge * share) {
			return nil, context.DeadlineExceeded
		}
		model = withMap(model, fit)
	}
	return model, ctx.Err()
}

// rowsWithin returns up to horizonTrain training rows of at most some age in events, spread evenly, or, of a sample that has too few so young, of its
// newest ones.
func (j *refitJob) rowsWithin(age float64) (rows []int) {
	ages := j.sample.TrainAge
	if few := min(horizonFew, len(ages)); few > 0 {
		sorted := slices.Sorted(slices.Values(ages))
		age = max(age, sorted[few-1])
	}
	for i, a := range ages {
		if a <= age {
			rows = append(rows, i)
		}
	}
	return spread(rows, horizonTrain)
}

// horizonOf returns the place in horizons of a half-life in events, 0 for none, or -1.
func horizonOf(halfLife int64) int {
	if halfLife == 0 {
		return 0
	}
	return slices.Index(horizons, float64(halfLife))
}

// halfLife returns the half-life in events of a place in horizons, 0 for none.
func halfLife(horizon int) int64 {
	if horizon == 0 {
		return 0
	}
	return int64(horizons[horizon])
}
