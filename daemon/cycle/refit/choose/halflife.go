package choose

import (
	"context"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/solver"
)

// How horizons are compared: by the losses on the select rows, which count half for each recentHalfLife events of age,
// of models after horizonSweeps sweeps. Another horizon is taken if its mean loss is less by horizonErrors standard
// errors of the paired difference. Literature: horizonErrors is the 5 % level. The others are chosen by hand.
const (
	recentHalfLife = 5_000
	horizonSweeps  = 2
	horizonErrors  = 2.0
	horizonRows    = 50 // select rows of equal weight, below which nothing is changed
)

// HalfLife returns with which half-life the training rows fade, an index of fitted.HalfLives: the given one of a refit
// that is repeated, else one that it chooses. ahead are the sweeps that the choice has made with it; nil without.
func HalfLife(ctx context.Context, j *task.Task, warm *task.WarmStart) (chosen int, ahead *task.Sweeper, err error) {
	if j.Choices.Given >= 0 {
		return j.Choices.Given, nil, nil
	}
	if j.Model.LeavesOut(task.ChoiceHalfLife) {
		return 0, nil, nil
	}
	return chooseHalfLife(ctx, j, warm)
}

// chooseHalfLife returns how fast training rows fade in this refit, from what the last one chose: the select rows,
// recent ones before all, decide whether a shorter or longer horizon predicts better, and as long as it does the next
// is tried. Where the time budget ends that, what was found so far counts.
func chooseHalfLife(ctx context.Context, j *task.Task,
	warm *task.WarmStart) (chosen int, ahead *task.Sweeper, err error) {
	if j.Model.Sample.HalfLife > 0 || len(j.Rows.Sample.TrainAge) != j.Rows.Problem.X.NumRows() ||
		len(j.Rows.Sample.SelectAge) != len(j.Rows.Select_.Events) {
		return 0, nil, nil
	}
	if warm == nil {
		if j.Champion != nil { // what the stream is like does not depend on where a refit starts
			chosen = j.Champion.Horizon
		}
		return chosen, nil, nil
	}
	chosen = warm.Horizon
	weight := RecentWeights(j)
	if !halfLivesDiffer(j, weight) {
		return chosen, nil, nil
	}
	// Each half-life gets as many sweeps from the same state: what differs is the fading alone.
	now, ahead, err := lossesAt(ctx, j, warm, chosen)
	// Uphill in one direction, and in the other only if the first gained nothing.
	for _, step := range []int{1, -1} {
		moved := false
		for h := next(j, chosen, step); err == nil && h >= 0; h = next(j, h, step) {
			losses, other, failed := lossesAt(ctx, j, warm, h)
			if err = failed; err != nil || !task.IsLess(losses, now, weight, horizonErrors) {
				break
			}
			chosen, now, ahead, moved = h, losses, other, true
		}
		if moved {
			break
		}
	}
	if task.IsInterrupted(err) {
		err = nil
	}
	return chosen, ahead, err
}

// RecentWeights returns the weights of the select rows by which horizons are compared: of those since the last alarm of
// the drift detector, if they are enough, for what predicts earlier ones does not matter any more.
func RecentWeights(j *task.Task) []float64 {
	fading := fitted.Decayed(j.SelectCounts(), j.Rows.Sample.SelectAge, recentHalfLife)
	since := slices.Clone(fading)
	for i, age := range j.Rows.Sample.SelectAge {
		if age > j.Criteria.AlarmAge { // older than the change
			since[i] = 0
		}
	}
	if since = j.ChosenBy(since, j.Rows.Select_.Events); halfLivesDiffer(j, since) {
		return since
	}
	return j.ChosenBy(fading, j.Rows.Select_.Events)
}

// halfLivesDiffer reports whether the select rows, of these weights, are enough to compare horizons by: as many as
// horizonRows of equal weight, and LeastOfLabel of either binary label. Nearly all of the difference between two models
// of rare labels is in the few rows that have one.
func halfLivesDiffer(j *task.Task, weight []float64) bool {
	if enough := fitted.EffectiveRows(weight) >= horizonRows; !enough || j.Target.Task != event.Binary {
		return enough
	}
	var of [2][]float64
	for i, one := range gate.OnesOf(j, j.Rows.Select_) {
		label := 0
		if one {
			label = 1
		}
		of[label] = append(of[label], weight[i])
	}
	return fitted.EffectiveRows(of[0]) >= gate.LeastOfLabel && fitted.EffectiveRows(of[1]) >= gate.LeastOfLabel
}

// next returns the half-life before or after h, -1 at the end of the list. Half-lives longer than the age of the oldest
// row, but for the first, are left out: they are much the same.
func next(j *task.Task, h, step int) int {
	oldest := slices.Max(j.Rows.Sample.TrainAge)
	for h += step; h > 0 && h < len(fitted.HalfLives); h += step {
		if fitted.HalfLives[h] <= oldest {
			return h
		}
	}
	if h == 0 {
		return 0
	}
	return -1
}

// lossesAt returns the losses on the select rows of what the last model becomes by a few steps over rows that fade with
// a horizon, and the sweeps that made it, nil without a posterior.
func lossesAt(ctx context.Context, j *task.Task, warm *task.WarmStart, horizon int) ([]float64, *task.Sweeper, error) {
	if warm.Posterior == nil {
		model, err := solvedAt(ctx, j, warm, fitted.HalfLives[horizon])
		if err != nil {
			return nil, nil, err
		}
		return Losses(j, model), nil, nil
	}
	run, err := sweptAt(ctx, j, warm, fitted.HalfLives[horizon])
	if err != nil {
		return nil, nil, err
	}
	return Losses(j, run.State.Model()), run, nil
}

// sweptAt makes a few sweeps of the live posterior over rows that fade with a half-life.
func sweptAt(ctx context.Context, j *task.Task, warm *task.WarmStart, halfLife float64) (*task.Sweeper, error) {
	p := *j.Rows.Problem
	p.Weights = fitted.Decayed(p.Weights, j.Rows.Sample.TrainAge, halfLife)
	state := warm.Posterior.Clone()
	prior := variational.PriorFor(j.Target.Likelihood, &p)
	renewed := prior
	renewed.Basis = prior.Cap
	state.SetPrior(renewed)
	run, err := variational.NewSweeper(j, state, &p, prior.Cap, j.Budget.Deadline)
	if err != nil {
		return nil, err
	}
	return run, variational.MakeAhead(run, ctx, horizonSweeps)
}

// Models without a posterior are compared on rows of up to horizonAges half-lives, horizonFew of them at least and
// horizonTrain at most. Derived: horizonAges, as a row of five half-lives counts a thirtieth. The others are chosen by
// hand.
const (
	horizonAges  = 5
	horizonTrain = 10_000
	horizonFew   = 1000
)

// solvedAt returns the last model with its weights, and those on its feature map, moved towards rows that fade with a
// half-life.
func solvedAt(ctx context.Context, j *task.Task, warm *task.WarmStart, halfLife float64) (*solver.Model, error) {
	if !j.Budget.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, j.Budget.Deadline)
		defer cancel()
	}
	s, err := convex.Settings(j)
	if err != nil {
		return nil, err
	}
	p := *j.Rows.Problem
	p.Weights = fitted.Decayed(p.Weights, j.Rows.Sample.TrainAge, halfLife)
	rows := rowsWithin(j, horizonAges*halfLife)
	part := task.Pick(&p, rows)
	// λ of the part, for as much strength a row.
	share := convex.LambdaUnit(part) / convex.LambdaUnit(&p)
	s.Lambda, s.MaxIterations, s.MaxSteps, s.WeightsOnly, s.Tolerance = warm.Lambda*share, convex.RoughIterations, 0, true,
		task.StreamTolerance
	result, err := solver.Solve(ctx, part, warm.Model, s)
	if err != nil {
		return nil, err
	}
	model := result.Model
	if warm.MapWeights != nil && warm.FeatureMap == j.Vocab.Map {
		fit := mapFit(ctx, j, model, part, rows, warm)
		if !fit.Fit(warm.MapRidge * share) {
			return nil, context.DeadlineExceeded
		}
		model = withMap(model, fit)
	}
	return model, ctx.Err()
}

// rowsWithin returns up to horizonTrain training rows of at most some age in events, spread evenly, or, of a sample
// that has too few so young, of its newest ones.
func rowsWithin(j *task.Task, age float64) (rows []int) {
	ages := j.Rows.Sample.TrainAge
	if few := min(horizonFew, len(ages)); few > 0 {
		sorted := slices.Sorted(slices.Values(ages))
		age = max(age, sorted[few-1])
	}
	for i, a := range ages {
		if a <= age {
			rows = append(rows, i)
		}
	}
	return task.Spread(rows, horizonTrain)
}
