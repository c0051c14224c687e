package cycle

import (
	"context"
	"math"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// rowsPerLambda is the amount of row weight that a configured λ is stated for.
const rowsPerLambda = 10_000

// autoPatience is how many λ in a row of a cold `lambda: auto` are no better than the best before it tries no more.
const autoPatience = 2

// A path of `lambda: auto` leaves a λ after stepPatience steps in a row that the select rows say are no better, or as many as stepShare of MaxBasis.
const (
	stepPatience = 5
	stepShare    = 0.25
)

// lambdaStep is the factor by which a warm `lambda: auto` moves λ: up in one refit, down in the next, if the select rows agree.
const lambdaStep = 1.5

// roughIterations bounds the FISTA iterations by which strengths are compared.
const roughIterations = 30

// candidate is a model on the path of the convex stage.
type candidate struct {
	model  *solver.Model
	lambda float64 // absolute
	step   solver.Step
	result *solver.Result // of the solve it belongs to
	path   *solver.Model  // of a polished candidate: where the path it was taken from ended
	final  bool           // it is the model that solve ended with
	rough  bool           // that solve was: nothing is polished or certified
	left   bool           // as solver.PathPoint.Left
	loss   float64        // on the select rows

	scale     float64 // its outputs are those of the solve times this; 0 is 1
	unsolved  bool    // no basis vector was looked for: there is no gap to speak of
	quadratic bool    // the whole polynomial of degree 2
	ridge     float64 // of that
}

// better reports whether the candidate beats another one; any does if there is no other, and the later one if nothing can judge.
func (c *candidate) better(than *candidate) bool {
	return than == nil || math.IsNaN(c.loss) && math.IsNaN(than.loss) || c.loss < than.loss || math.IsNaN(than.loss)
}

// Full refits after every basis vector pay on small sets of dense numbers. Over names, or with more vectors than manyBasis, those after
// every sparseFull vectors reach the same quality in a fraction of the time (measured on ML-100k and letter).
const (
	manyBasis  = 50
	sparseFull = 5
)

// settings returns those of the solver.
func (j *refitJob) settings() (solver.Settings, error) {
	m, s := j.model, solver.DefaultSettings()
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
	s.MaxBasis, s.LinearRidge, s.Seed, s.Workers, s.Yield = m.Train.MaxBasis, float64(m.Train.Linear), m.Train.Seed, j.workers, j.yield
	s.Budget.Deadline = j.budget.deadline
	return s, nil
}

// solvePath runs Algorithm 1 for every λ, until patience of them in a row are no better, and returns the best model of all
// steps by loss on the select rows, polished. onStep, if not nil, sees every step; those of several λ interleave.
func (j *refitJob) solvePath(ctx context.Context, p *solver.Problem, lambdas []float64, patience int, s solver.Settings,
	onStep func(*candidate)) (*candidate, error) {
	best, err := j.walkPath(ctx, p, lambdas, patience, s, onStep)
	if err != nil {
		return nil, err
	}
	return j.polish(ctx, best, p, s)
}

// walkPath is solvePath without the polish. Rough solves of a path that carries go on from one λ to the next and are left early, but for that of the best
// λ, which goes on to its end; others begin with nothing, each for itself. To solve the best λ from nothing once more takes what that saves and was
// no better (segment, electricity).
func (j *refitJob) walkPath(ctx context.Context, p *solver.Problem, lambdas []float64, patience int, s solver.Settings,
	onStep func(*candidate)) (*candidate, error) {
	o := solver.PathOptions{Judge: j.judge, Patience: patience}
	if !j.carries || !s.Rough || len(lambdas) < 2 {
		return j.path(ctx, p, lambdas, s, o, onStep)
	}
	o.Carry, o.StepPatience = true, max(stepPatience, int(stepShare*float64(s.MaxBasis)))
	best, err := j.path(ctx, p, lambdas, s, o, onStep)
	if err != nil || !best.left || j.budget.over(ctx) {
		return best, err
	}
	calls := j.budget.calls
	o.StepPatience, o.Warm = 0, &solver.Warm{Model: best.result.Model}
	whole, err := j.path(ctx, p, []float64{best.lambda}, s, o, onStep)
	if whole, err = j.orOfPart(ctx, best, calls, whole, err); err != nil || !whole.better(best) {
		return best, err
	}
	return whole, nil
}

// path runs solver.Path and returns the best model.
func (j *refitJob) path(ctx context.Context, p *solver.Problem, lambdas []float64, s solver.Settings, o solver.PathOptions,
	onStep func(*candidate)) (*candidate, error) {
	if onStep != nil {
		o.OnStep = func(lambda float64, step solver.Step, model *solver.Model, score float64) {
			onStep(&candidate{model: model, lambda: lambda, step: step, loss: score})
		}
	}
	tried := j.budget.begun(lambdas)
	s.Budget = j.budget.next(tried)
	points, at, err := solver.Path(ctx, p, tried, s, o)
	if err != nil {
		return nil, err
	}
	results := make([]*solver.Result, len(points))
	for i, point := range points {
		results[i] = point.Result
	}
	j.budget.solved(len(lambdas), o.Ended(points, len(tried)), results...)
	best := points[at]
	return &candidate{model: best.Best, lambda: best.Lambda, step: best.Step, result: best.Result, final: best.Final, rough: s.Rough,
		left: best.Left, loss: best.Score}, nil
}

// pathRows bounds the rows on which a cold streaming refit looks for λ and its first basis vectors.
const pathRows = 20_000

// coldStart finds λ and the first basis vectors by a path over at most pathRows rows, spread evenly over the sample, and goes on from
// there on all of them.
func (j *refitJob) coldStart(ctx context.Context, s solver.Settings) (*candidate, error) {
	p, part := j.problem, j.problem
	if p.X.NumRows() > pathRows {
		part = thin(p, pathRows)
	}
	lambdas, err := j.lambdasFor(ctx, part, s)
	if err != nil {
		return nil, err
	}
	rough := s
	rough.Rough = true
	var best *candidate
	if j.rough {
		best, err = j.walkPath(ctx, part, lambdas, 1, rough, nil)
	} else {
		best, err = j.solvePath(ctx, part, lambdas, 1, rough, nil)
	}
	if err != nil || part == p || j.budget.over(ctx) {
		return best, err
	}
	start := best.result.Model
	if best.path != nil {
		start = best.path
	}
	calls := j.budget.calls
	found, err := j.resume(ctx, &warmStart{model: start, lambda: best.lambda, up: true}, s)
	return j.orOfPart(ctx, best, calls, found, err)
}

// orOfPart returns what was found, on all rows or by going on, or where the clock ended that before it began, what had been found before, after so many
// solves.
func (j *refitJob) orOfPart(ctx context.Context, part *candidate, calls int, found *candidate, err error) (*candidate, error) {
	if IsInterrupted(err) && j.budget.over(ctx) {
		j.budget.cut = &snapshot.CutShort{Solves: calls}
		return part, nil
	}
	return found, err
}

// linearOnly fits the linear term alone, with the least λ at which no basis vector would enter.
func (j *refitJob) linearOnly(ctx context.Context, s solver.Settings) (*candidate, error) {
	lambda, err := solver.LambdaMax(ctx, j.problem, s)
	if err != nil {
		return nil, err
	}
	s.MaxSteps = 0
	return j.solveOne(ctx, j.problem, nil, max(lambda, math.SmallestNonzeroFloat32), s)
}

// thin returns about n evenly spaced rows of a problem.
func thin(p *solver.Problem, n int) *solver.Problem {
	return pick(p, evenly(p.X.NumRows(), n))
}

// evenly returns the places of most of n things, spread evenly and in order, or of all of them if there are no more.
func evenly(n, most int) []int {
	places := make([]int, min(n, most))
	for i := range places {
		places[i] = int(int64(i) * int64(n) / int64(len(places)))
	}
	return places
}

// spread returns most of a list, spread evenly and in order, or all of it if there is no more.
func spread[T any](list []T, most int) []T {
	if len(list) <= most {
		return list
	}
	out := make([]T, 0, most)
	for _, at := range evenly(len(list), most) {
		out = append(out, list[at])
	}
	return out
}

// pick returns the problem of some rows of another.
func pick(p *solver.Problem, rows []int) *solver.Problem {
	out := *p
	out.X, out.Targets, out.Weights = p.X.Select(rows), make([]float64, 0, len(rows)*p.Outputs), nil
	for _, i := range rows {
		out.Targets = append(out.Targets, p.Target(i)...)
		if p.Weights != nil {
			out.Weights = append(out.Weights, p.Weights[i])
		}
	}
	return &out
}

// solveOne runs Algorithm 1 for one λ and returns its best step.
func (j *refitJob) solveOne(ctx context.Context, p *solver.Problem, warm *solver.Model, lambda float64, s solver.Settings) (*candidate, error) {
	best, _, err := j.steps(ctx, p, warm, lambda, s)
	return best, err
}

// steps is solveOne, and returns where it ended, too.
func (j *refitJob) steps(ctx context.Context, p *solver.Problem, warm *solver.Model, lambda float64, s solver.Settings) (best, last *candidate, err error) {
	s.Lambda = lambda
	s.OnStep = func(step solver.Step, model *solver.Model) bool {
		c := &candidate{model: model, lambda: lambda, step: step, loss: j.judge(model)}
		if c.better(best) {
			best = c
		}
		return false
	}
	s.Budget = j.budget.next([]float64{lambda})
	result, err := solver.Solve(ctx, p, warm, s)
	if err != nil {
		return nil, nil, err
	}
	j.budget.solved(1, true, result)
	last = &candidate{model: result.Model, lambda: lambda, loss: j.judge(result.Model), final: true}
	if n := len(result.Steps); n > 0 {
		last.step = result.Steps[n-1]
	}
	if best == nil || !best.better(last) {
		best = last
	}
	for _, c := range []*candidate{best, last} {
		c.result, c.rough = result, s.Rough
	}
	return best, last, nil
}

// polish refits a model from the middle of a path to the optimum of its own basis, so that its objective and gap are those of a solve
// that ended there. The vectors that the path found after it stay known in result.
func (j *refitJob) polish(ctx context.Context, c *candidate, p *solver.Problem, s solver.Settings) (*candidate, error) {
	if c.final || j.budget.over(ctx) {
		return c, nil
	}
	s.MaxSteps, s.MaxBasis = 0, max(s.MaxBasis, c.model.NumBasis)
	_, polished, err := j.steps(ctx, p, c.model, c.lambda, s) // where it ends, even if a step before that predicted better
	if err != nil {
		return nil, err
	}
	polished.path = c.result.Model
	return polished, nil
}

// lambdasFor returns the λ to try: the configured one scaled to the rows, or fractions of λ_max.
func (j *refitJob) lambdasFor(ctx context.Context, p *solver.Problem, s solver.Settings) ([]float64, error) {
	if fixed := float64(j.model.Train.Lambda); fixed > 0 {
		return []float64{fixed * lambdaUnit(p)}, nil
	}
	a, err := j.model.Algorithm()
	if err != nil {
		return nil, err
	}
	return a.Strengths(ctx, p, s)
}

// lambdaUnit returns the absolute λ that a stated λ of 1 stands for on a problem: the losses are sums, so it goes with the rows.
func lambdaUnit(p *solver.Problem) float64 {
	total := 0.0
	for i := range p.X.NumRows() {
		total += p.Weight(i)
	}
	return total / rowsPerLambda
}

// lambdasBeside returns the λ to try from a warm model: its own and one beside it, or the configured one.
func (j *refitJob) lambdasBeside(ctx context.Context, p *solver.Problem, warm *warmStart, s solver.Settings) ([]float64, error) {
	if j.model.Train.Lambda > 0 {
		return j.lambdasFor(ctx, p, s)
	}
	if warm.up {
		return []float64{warm.lambda, warm.lambda * lambdaStep}, nil
	}
	return []float64{warm.lambda, warm.lambda / lambdaStep}, nil
}

// resume continues from a warm model: rough output refits choose between the last λ and one beside it, then Algorithm 1 goes on from
// the better one, output refit first, with new basis vectors as far as the settings allow. up says on which side to look.
func (j *refitJob) resume(ctx context.Context, warm *warmStart, s solver.Settings) (*candidate, error) {
	p := j.problem
	lambdas, err := j.lambdasBeside(ctx, p, warm, s)
	if err != nil {
		return nil, err
	}
	lambda, start := lambdas[0], warm.model
	if len(lambdas) > 1 {
		var best *candidate
		rough := s
		rough.MaxIterations, rough.WeightsOnly = roughIterations, true
		for _, l := range lambdas {
			found, err := j.solveOne(ctx, p, warm.model, l, rough)
			if err != nil {
				return nil, err
			}
			if found.better(best) {
				best = found
			}
		}
		lambda, start = best.lambda, best.model
	}
	s.Rough = j.rough
	found, err := j.solveOne(ctx, p, start, lambda, s)
	if err != nil || j.rough {
		return found, err
	}
	return j.polish(ctx, found, p, s)
}

// finish polishes and certifies the best model of rough solves. Where the clock ends that before it began, the model stays as it is.
func (j *refitJob) finish(ctx context.Context, c *candidate, s solver.Settings) (*candidate, error) {
	if !j.rough || !c.rough {
		return c, nil
	}
	ended, whole := c.result.Status, c.final
	c.final = false
	polished, err := j.polish(ctx, c, j.problem, s)
	switch {
	case IsInterrupted(err) && j.budget.over(ctx):
		return c, nil
	case err == nil && whole && polished.result.Status == solver.BasisLimit:
		polished.result.Status = ended // the polish looks for no vector
	}
	return polished, err
}

// mapModel maps a model onto another vocabulary by feature name. Known columns keep their basis coordinates and linear weights, on the scales of
// numbers that the other has, new ones start from zero; basis vectors are normalised again with their norm moved into the output weights, exactly.
func mapModel(model *solver.Model, from, to *Vocabulary) *solver.Model {
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
	rescaleModel(out, from, to)
	out.Normalize()
	return out
}
