package convex

import (
	"context"
	"math"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/solver"
)

// AutoPatience is how many λ in a row of a cold `lambda: auto` are no better than the best before it tries no more.
// Chosen by hand.
const AutoPatience = 2

// A path of `lambda: auto` leaves a λ after stepPatience steps in a row that the select rows say are no better, or as
// many as stepShare of MaxBasis. Chosen by hand.
const (
	stepPatience = 5
	stepShare    = 0.25
)

// lambdaStep is the factor by which a warm `lambda: auto` moves λ: up in one refit, down in the next, if the select
// rows agree. Chosen by hand.
const lambdaStep = 1.5

// RoughIterations bounds the FISTA iterations by which strengths are compared. Chosen by hand.
const RoughIterations = 30

// better reports whether the candidate beats another one; any does if there is no other, and the later one if nothing
// can judge.
func better(c *task.Candidate, than *task.Candidate) bool {
	return than == nil || math.IsNaN(c.Loss) && math.IsNaN(than.Loss) || c.Loss < than.Loss || math.IsNaN(than.Loss)
}

// Full refits after every basis vector pay on small sets of dense numbers. Over names, or with more vectors than
// manyBasis, those after every sparseFull vectors reach the same quality in a fraction of the time (measured on ML-100k
// and letter). Both are tuned on these.
const (
	manyBasis  = 50
	sparseFull = 5
)

// Settings returns those of the solver.
func Settings(j *task.Task) (solver.Settings, error) {
	m, s := j.Model, solver.DefaultSettings()
	var err error
	if s.Penalty, err = solver.ParsePenalty(m.Train.Penalty); err != nil {
		return s, err
	}
	if s.Solver, err = solver.ParseMethod(m.Train.Solver); err != nil {
		return s, err
	}
	names := len(m.Schema.Categorical)+len(m.Schema.Multi) > 0
	if s.Kernel, err = solver.KernelOf(m.Train.Kernel, m.Train.KernelDegree()); err != nil {
		return s, err
	}
	switch m.Train.Refit {
	case solver.LineSearch.String():
		s.Refit = solver.LineSearch
	case solver.Full.String():
		s.Refit = solver.Full
		if names || m.Train.MaxBasis > manyBasis {
			s.FullEvery = sparseFull
		}
	}
	if _, err := m.Algorithm(); err != nil {
		return s, err
	}
	s.MaxBasis, s.LinearRidge, s.Seed, s.Workers, s.Yield = m.Train.MaxBasis, float64(
		m.Train.Linear), m.Train.Seed, j.Workers, j.Yield
	s.Budget.Deadline = j.Budget.Deadline
	return s, nil
}

// SolvePath runs Algorithm 1 for every λ, until patience of them in a row are no better, and returns the best model of
// all steps by loss on the select rows, polished. onStep, if not nil, sees every step; those of several λ interleave.
func SolvePath(ctx context.Context, j *task.Task, p *solver.Problem, lambdas []float64, patience int, s solver.Settings,
	onStep func(*task.Candidate)) (*task.Candidate, error) {
	best, err := WalkPath(ctx, j, p, lambdas, patience, s, onStep)
	if err != nil {
		return nil, err
	}
	return polish(ctx, j, best, p, s)
}

// WalkPath is SolvePath without the polish. With Task.Carries, the rough solve of each λ starts from that of the λ
// before and stops early; only that of the best λ then runs to its end. Else each solve starts from nothing. To solve
// the best λ from nothing once more takes the time that this saves and was no better (segment, electricity).
func WalkPath(ctx context.Context, j *task.Task, p *solver.Problem, lambdas []float64, patience int, s solver.Settings,
	onStep func(*task.Candidate)) (*task.Candidate, error) {
	o := solver.PathOptions{Judge: j.Judge, Patience: patience}
	if !j.Carries || !s.Rough || len(lambdas) < 2 {
		return path(ctx, j, p, lambdas, s, o, onStep)
	}
	// Each λ is left early: which one is best shows long before its solve ends.
	o.Carry, o.StepPatience = true, max(stepPatience, int(stepShare*float64(s.MaxBasis)))
	best, err := path(ctx, j, p, lambdas, s, o, onStep)
	if err != nil || !best.Left || j.Budget.Over(ctx) {
		return best, err
	}
	calls := j.Budget.Calls
	o.StepPatience, o.Warm = 0, &solver.Warm{Model: best.Result.Model}
	whole, err := path(ctx, j, p, []float64{best.Lambda}, s, o, onStep)
	if whole, err = OrOfPart(ctx, j, best, calls, whole, err); err != nil || !better(whole, best) {
		return best, err
	}
	return whole, nil
}

// path runs solver.Path and returns the best model.
func path(ctx context.Context, j *task.Task, p *solver.Problem, lambdas []float64, s solver.Settings,
	o solver.PathOptions, onStep func(*task.Candidate)) (*task.Candidate, error) {
	if onStep != nil {
		o.OnStep = func(lambda float64, step solver.Step, model *solver.Model, score float64) {
			onStep(&task.Candidate{Model: model, Lambda: lambda, Step: step, Loss: score})
		}
	}
	// A refit that is repeated tries those λ that the clock let begin, and each for as many steps.
	tried := j.Budget.Begun(lambdas)
	s.Budget = j.Budget.Next(tried)
	points, at, err := solver.Path(ctx, p, tried, s, o)
	if err != nil {
		return nil, err
	}
	results := make([]*solver.Result, len(points))
	for i, point := range points {
		results[i] = point.Result
	}
	j.Budget.Solved(len(lambdas), o.Ended(points, len(tried)), results...)
	best := points[at]
	return &task.Candidate{
		Model:  best.Best,
		Lambda: best.Lambda,
		Step:   best.Step,
		Result: best.Result,
		Final:  best.Final,
		Rough:  s.Rough,
		Left:   best.Left,
		Loss:   best.Score,
	}, nil
}

// PathRows bounds the rows on which a cold streaming refit looks for λ and its first basis vectors. Chosen by hand.
const PathRows = 20_000

// ColdPath finds λ and the first basis vectors by a path over at most PathRows rows, spread evenly over the sample, and
// continues from there on all rows.
func ColdPath(ctx context.Context, j *task.Task, s solver.Settings) (*task.Candidate, error) {
	p, part := j.Rows.Problem, j.Rows.Problem
	if p.X.NumRows() > PathRows {
		part = task.Thin(p, PathRows)
	}
	lambdas, err := LambdasFor(ctx, j, part, s)
	if err != nil {
		return nil, err
	}
	rough := s
	rough.Rough = true
	var best *task.Candidate
	if j.Rough {
		best, err = WalkPath(ctx, j, part, lambdas, 1, rough, nil)
	} else {
		best, err = SolvePath(ctx, j, part, lambdas, 1, rough, nil)
	}
	if err != nil || part == p || j.Budget.Over(ctx) {
		return best, err
	}
	start := best.Result.Model
	if best.Path != nil {
		start = best.Path
	}
	calls := j.Budget.Calls
	found, err := Resume(ctx, j, &task.WarmStart{Model: start, Lambda: best.Lambda, Up: true}, s)
	return OrOfPart(ctx, j, best, calls, found, err)
}

// OrOfPart returns what was found on all rows or by continuing. If the clock ended that, it returns part, which was
// found before, after a number of solves (calls).
func OrOfPart(ctx context.Context, j *task.Task, part *task.Candidate, calls int, found *task.Candidate,
	err error) (*task.Candidate, error) {
	if task.IsInterrupted(err) && j.Budget.Over(ctx) {
		j.Budget.CutBefore(calls)
		return part, nil
	}
	return found, err
}

// LinearOnly fits the linear term alone, with the least λ at which no basis vector would enter.
func LinearOnly(ctx context.Context, j *task.Task, s solver.Settings) (*task.Candidate, error) {
	lambda, err := solver.LambdaMax(ctx, j.Rows.Problem, s)
	if err != nil {
		return nil, err
	}
	s.MaxSteps = 0
	return SolveOne(ctx, j, j.Rows.Problem, nil, max(lambda, math.SmallestNonzeroFloat32), s)
}

// SolveOne runs Algorithm 1 for one λ and returns its best step.
func SolveOne(ctx context.Context, j *task.Task, p *solver.Problem, warm *solver.Model, lambda float64,
	s solver.Settings) (*task.Candidate, error) {
	best, _, err := steps(ctx, j, p, warm, lambda, s)
	return best, err
}

// steps is SolveOne, and returns where it ended, too.
func steps(ctx context.Context, j *task.Task, p *solver.Problem, warm *solver.Model, lambda float64,
	s solver.Settings) (best, last *task.Candidate, err error) {
	s.Lambda = lambda
	s.OnStep = func(step solver.Step, model *solver.Model) bool {
		c := &task.Candidate{Model: model, Lambda: lambda, Step: step, Loss: j.Judge(model)}
		if better(c, best) {
			best = c
		}
		return false
	}
	s.Budget = j.Budget.Next([]float64{lambda})
	result, err := solver.Solve(ctx, p, warm, s)
	if err != nil {
		return nil, nil, err
	}
	j.Budget.Solved(1, true, result)
	last = &task.Candidate{Model: result.Model, Lambda: lambda, Loss: j.Judge(result.Model), Final: true}
	if n := len(result.Steps); n > 0 {
		last.Step = result.Steps[n-1]
	}
	if best == nil || !better(best, last) {
		best = last
	}
	for _, c := range []*task.Candidate{best, last} {
		c.Result, c.Rough = result, s.Rough
	}
	return best, last, nil
}

// polish refits a model from the middle of a path to the optimum over its basis, so that its objective and gap are
// those of a solve that ended there. Path keeps the model at the end of the path, with the vectors found later.
func polish(ctx context.Context, j *task.Task, c *task.Candidate, p *solver.Problem,
	s solver.Settings) (*task.Candidate, error) {
	if c.Final || j.Budget.Over(ctx) {
		return c, nil
	}
	s.MaxSteps, s.MaxBasis = 0, max(s.MaxBasis, c.Model.NumBasis)
	_, polished, err := steps(
		ctx,
		j,
		p,
		c.Model,
		c.Lambda,
		s,
	) // where it ends, even if a step before that predicted better
	if err != nil {
		return nil, err
	}
	polished.Path = c.Result.Model
	return polished, nil
}

// LambdasFor returns the λ to try: the configured one scaled to the rows, or fractions of λ_max.
func LambdasFor(ctx context.Context, j *task.Task, p *solver.Problem, s solver.Settings) ([]float64, error) {
	if fixed := float64(j.Model.Train.Lambda); fixed > 0 {
		return []float64{fixed * LambdaUnit(p)}, nil
	}
	a, err := j.Model.Algorithm()
	if err != nil {
		return nil, err
	}
	return a.Strengths(ctx, p, s)
}

// LambdaUnit returns the absolute λ of a configured λ of 1 on a problem. Losses are sums, so it is proportional to the
// weight of the rows.
func LambdaUnit(p *solver.Problem) float64 {
	total := 0.0
	for i := range p.X.NumRows() {
		total += p.Weight(i)
	}
	return total / fitted.RowsPerLambda
}

// pathLambdas returns the λ to try from a warm model: that of the model and an adjacent one, or the configured one.
func pathLambdas(ctx context.Context, j *task.Task, p *solver.Problem, warm *task.WarmStart,
	s solver.Settings) ([]float64, error) {
	if j.Model.Train.Lambda > 0 {
		return LambdasFor(ctx, j, p, s)
	}
	if warm.Up {
		return []float64{warm.Lambda, warm.Lambda * lambdaStep}, nil
	}
	return []float64{warm.Lambda, warm.Lambda / lambdaStep}, nil
}

// Resume continues from a warm model. Rough output refits choose between the last λ and an adjacent one, the larger if
// warm.Up. Then Algorithm 1 continues from the better one, output refit first, with new basis vectors as far as the
// settings allow.
func Resume(ctx context.Context, j *task.Task, warm *task.WarmStart, s solver.Settings) (*task.Candidate, error) {
	p := j.Rows.Problem
	lambdas, err := pathLambdas(ctx, j, p, warm, s)
	if err != nil {
		return nil, err
	}
	lambda, start := lambdas[0], warm.Model
	if len(lambdas) > 1 {
		var best *task.Candidate
		rough := s
		rough.MaxIterations, rough.WeightsOnly = RoughIterations, true
		for _, l := range lambdas {
			found, err := SolveOne(ctx, j, p, warm.Model, l, rough)
			if err != nil {
				return nil, err
			}
			if better(found, best) {
				best = found
			}
		}
		lambda, start = best.Lambda, best.Model
	}
	s.Rough = j.Rough
	found, err := SolveOne(ctx, j, p, start, lambda, s)
	if err != nil || j.Rough {
		return found, err
	}
	return polish(ctx, j, found, p, s)
}

// Finish polishes and certifies the best model of rough solves. Where the clock ends that before it began, the model
// stays as it is.
func Finish(ctx context.Context, j *task.Task, c *task.Candidate, s solver.Settings) (*task.Candidate, error) {
	if !j.Rough || !c.Rough {
		return c, nil
	}
	ended, whole := c.Result.Status, c.Final
	c.Final = false
	polished, err := polish(ctx, j, c, j.Rows.Problem, s)
	switch {
	case task.IsInterrupted(err) && j.Budget.Over(ctx):
		return c, nil
	case err == nil && whole && polished.Result.Status == solver.BasisLimit:
		polished.Result.Status = ended // the polish looks for no vector
	}
	return polished, err
}

// MapModel maps a model onto another vocabulary by feature name. Known columns keep their basis coordinates and linear
// weights, on the scales of numbers that the other has, new ones start from zero; basis vectors are normalised again
// with their norm moved into the output weights, exactly.
func MapModel(model *solver.Model, from, to *encode.Vocabulary) *solver.Model {
	k, m := model.NumBasis, model.NumOutputs
	out := solver.NewModel(model.Kernel, to.NumColumns(), m, model.Linear != nil)
	copy(out.Bias, model.Bias)
	out.NumBasis, out.Basis, out.Weights = k, make([]float64, to.NumColumns()*k), append([]float64{}, model.Weights...)
	place := func(j, old int) {
		copy(out.Basis[j*k:j*k+k], model.Basis[old*k:old*k+k])
		if model.Linear != nil {
			copy(out.Linear[j*m:j*m+m], model.Linear[old*m:old*m+m])
		}
	}
	j := 0
	for f, names := range to.Names {
		for _, name := range names {
			if old := from.Column(f, name); old >= 0 {
				place(j, int(old))
			}
			j++
		}
	}
	for e := to.NumFields() - len(to.Names); e > 0; e-- {
		place(to.NumColumns()-e, from.NumColumns()-e)
	}
	encode.RescaleModel(out, from, to)
	out.Normalize()
	return out
}
