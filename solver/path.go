package solver

import (
	"context"
	"math"
	"runtime"
	"sync"

	"github.com/refitd/refitd/solver/internal/parallel"
)

// PathPoint is what one strength of a regularisation path came to.
type PathPoint struct {
	Lambda float64
	Result *Result // of the whole solve
	// Best is the model of lowest score: the final one where it is as good as any step, else the earliest of the best
	// steps. Step describes it, and is the last one for the final model. Score is NaN without a judge; Best is the
	// final model then.
	Best  *Model
	Step  Step
	Score float64
	Final bool // Best is Result.Model
	Left  bool // StepPatience ended the solve; its status is Stalled
}

// better reports whether a point beats another one: any beats nil, and where nothing can judge the later one does.
func (p *PathPoint) better(than *PathPoint) bool {
	return than == nil || math.IsNaN(p.Score) && math.IsNaN(than.Score) || p.Score < than.Score ||
		math.IsNaN(than.Score)
}

// PathOptions are what a path is judged by and reported to. The zero value judges nothing and tries every λ.
type PathOptions struct {
	// Judge scores a model on rows that are held out; lower is better, NaN is no verdict. It is called after each step
	// and for the final model, by several goroutines at once.
	Judge func(*Model) float64
	// OnStep is called after each step with its model, which the callee may keep, and its score: never concurrently and
	// in order for one λ, but those of several λ interleave as they run.
	OnStep func(lambda float64, step Step, model *Model, score float64)
	// Patience > 0 ends the path once that many λ in a row were no better than the best before them.
	Patience int
	// StepPatience > 0 leaves a λ once that many steps of it in a row were no better than its best before them.
	StepPatience int
	// Carry lets each λ of ConditionalGradient start from the basis vectors, weights and linear term that the one
	// before ended with, as Solve does from a warm model, one λ after the other with all workers. The λ are to fall:
	// what is optimal for one is a little short of the optimum of the next, so that a few vectors are left to find.
	Carry bool
	// Algorithm fits; nil is ConditionalGradient.
	Algorithm Algorithm
	// Warm is what the first λ starts from, of ConditionalGradient with Carry only; nil for nothing.
	Warm *Warm
	// FinalOnly lets Best be the final model whatever steps score: the one that Result and its gap are of. Steps are
	// not judged, StepPatience has no use, and OnStep is called once for each λ, with its last step and the final
	// model.
	FinalOnly bool
}

// Path runs Algorithm 1 for each λ in turn, from no basis vectors to MaxBasis, and judges every step: the protocol of
// Blondel et al. 2017, section 6.1. It returns one point for each λ tried, in the order given, and the index of the
// best. What does not depend on λ is done once: the fit of the linear term and the first search for a basis vector.
// Lambda, Tau and OnStep of s are not used.
//
// As many λ run at a time as there are workers, and workers beyond the number of λ share the rows of a solve. The
// points do not depend on that. When ctx is done, each solve that has begun ends as Solve does, and those that have
// not, always the last, are left out; without any point the error is that of ctx. Other errors wrap ErrProblem or
// ErrSettings.
//
// Another algorithm of o, and ConditionalGradient with Carry, runs one λ after the other, each from where the one
// before ended, with all workers.
func Path(ctx context.Context, p *Problem, lambdas []float64, s Settings,
	o PathOptions) (points []*PathPoint, best int, err error) {
	s.Lambda, s.Tau, s.OnStep = 1, 0, nil
	a := o.Algorithm
	if a == nil {
		a = ConditionalGradient{}
	}
	if (a != ConditionalGradient{} || o.Carry) && len(lambdas) > 0 {
		return pathOf(ctx, a, p, lambdas, s, o) // which knows what it can do
	}
	for _, lambda := range lambdas {
		one := s
		one.Lambda = lambda
		if err := one.Validate(); err != nil {
			return nil, 0, err
		}
	}
	if len(lambdas) == 0 {
		return nil, 0, nil
	}
	ctx, cancel := s.Budget.within(ctx)
	defer cancel()
	start, err := newSolve(ctx, p, s)
	if err != nil {
		return nil, 0, err
	}
	start.first()
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	workers := s.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	t := &pathRun{
		start:   start,
		lambdas: lambdas,
		options: o,
		points:  make([]*PathPoint, len(lambdas)),
		errs:    make([]error, len(lambdas)),
	}
	t.cut, t.cancel = len(lambdas), make([]context.CancelFunc, len(lambdas))
	contexts := make([]context.Context, len(lambdas))
	for i := range lambdas {
		own, cancel := context.WithCancel(ctx)
		defer cancel()
		contexts[i], t.cancel[i] = own, cancel
	}
	atOnce := min(workers, len(lambdas))
	s.Workers = workers / atOnce
	var running parallel.Group
	for range atOnce {
		running.Go(func() {
			for i, ok := t.begin(contexts); ok; i, ok = t.begin(contexts) {
				t.solve(contexts[i], i, s)
			}
		})
	}
	running.Wait()
	return t.outcome(ctx)
}

// pathRun is the state that the solves of a path share.
type pathRun struct {
	start   *solve
	lambdas []float64
	options PathOptions
	cancel  []context.CancelFunc

	mu     sync.Mutex
	begun  int // λ up to here have begun
	points []*PathPoint
	errs   []error
	cut    int // λ from here on are not tried: patience ended the path

	calls sync.Mutex // held while OnStep runs
}

// begin returns the next λ, if it is to run. None runs after one that does not: when ctx is done, the contexts of the λ
// come to know one by one and in no order, and while some do not yet, those of λ before them may.
func (t *pathRun) begin(contexts []context.Context) (i int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i = t.begun; i == len(contexts) || contexts[i].Err() != nil {
		return 0, false
	}
	t.begun++
	return i, true
}

// solve runs one λ of Algorithm 1.
func (t *pathRun) solve(ctx context.Context, i int, s Settings) {
	t.record(i, s, func(s Settings) (*Result, error) {
		run, err := newSolve(ctx, t.start.p, s)
		if err != nil {
			return nil, err
		}
		run.resume(t.start)
		run.loop(ctx, false)
		return run.finish(ctx), nil
	})
}

// record fits one λ and keeps the point or the error. It judges each step.
func (t *pathRun) record(i int, s Settings, fit func(Settings) (*Result, error)) {
	point := &PathPoint{Lambda: t.lambdas[i]}
	var best *PathPoint
	worse := 0 // steps since the best
	judge := func(model *Model) float64 {
		if t.options.Judge == nil {
			return math.NaN()
		}
		return t.options.Judge(model)
	}
	s.Lambda = point.Lambda
	onStep := func(step Step, model *Model) bool {
		found := &PathPoint{Best: model, Step: step, Score: judge(model)}
		if t.options.OnStep != nil {
			t.report(point.Lambda, found)
		}
		if worse++; found.better(best) {
			best, worse = found, 0
		}
		point.Left = t.options.StepPatience > 0 && worse >= t.options.StepPatience
		return point.Left
	}
	if !t.options.FinalOnly {
		s.OnStep = onStep
	}
	result, err := fit(s)
	if err == nil {
		point.Result = result
		if point.Left = point.Left && result.Status == Interrupted; point.Left {
			result.Status = Stalled
		}
		last := &PathPoint{Best: result.Model, Score: judge(result.Model), Final: true}
		if n := len(result.Steps); n > 0 {
			last.Step = result.Steps[n-1]
		}
		if t.options.FinalOnly && t.options.OnStep != nil {
			t.report(point.Lambda, last)
		}
		if t.options.FinalOnly || last.better(best) || last.Score == best.Score {
			best = last
		}
		point.Best, point.Step, point.Score, point.Final = best.Best, best.Step, best.Score, best.Final
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.errs[i] = err; err == nil {
		t.points[i] = point
	}
	t.judgeOrder()
}

// report calls OnStep, one call at a time.
func (t *pathRun) report(lambda float64, found *PathPoint) {
	t.calls.Lock()
	defer t.calls.Unlock() // also after a panic: the others wait for their turn
	t.options.OnStep(lambda, found.Step, found.Best, found.Score)
}

// judgeOrder calls off what comes after the end that patience sets. It goes by the order of the λ, not by which ended
// first, so that the number tried does not depend on the workers.
func (t *pathRun) judgeOrder() {
	if end := t.options.end(t.points[:t.cut]); end > 0 {
		t.cut = end
		for _, cancel := range t.cancel[t.cut:] {
			cancel()
		}
	}
}

// end returns how many points there are when patience ends the path, 0 if it has not by the first one that is missing.
func (o PathOptions) end(points []*PathPoint) int {
	if o.Patience <= 0 {
		return 0
	}
	var best *PathPoint
	worse := 0
	for i, point := range points {
		if point == nil {
			return 0
		}
		if worse++; point.better(best) {
			best, worse = point, 0
		}
		if worse >= o.Patience {
			return i + 1
		}
	}
	return 0
}

// Ended reports whether a path of so many λ ended in order, with the last of them or by Patience, given the points
// that it returned: else the clock or its context kept it from beginning the others.
func (o PathOptions) Ended(points []*PathPoint, lambdas int) bool {
	return len(points) == lambdas || o.end(points) == len(points)
}

// outcome returns the points of the λ tried and the index of the best.
func (t *pathRun) outcome(ctx context.Context) (points []*PathPoint, best int, err error) {
	for i, point := range t.points[:t.cut] {
		if err := t.errs[i]; err != nil {
			return nil, 0, err
		}
		if point == nil {
			break // ctx was done before it began
		}
		if points = append(points, point); len(points) > 1 && point.better(points[best]) {
			best = len(points) - 1
		}
	}
	if len(points) == 0 {
		return nil, 0, ctx.Err()
	}
	return points, best, nil
}

// first fits the linear term and searches the first basis vector.
func (r *solve) first() {
	if r.begin(); r.workers.Cancelled() {
		return
	}
	r.refit(true)
	r.score()
	r.last = r.gamma.SelectBasis(r.s.Penalty, nil, r.oracle(), r.s.Seed)
}

// resume takes over what another solve of the same problem, which has no basis vectors, did in first. That one is only
// read.
func (r *solve) resume(from *solve) {
	copy(r.linear.Theta, from.linear.Theta)
	r.linear.Memory, r.linear.BiasMemory = from.linear.Memory.Clone(), from.linear.BiasMemory.Clone()
	copy(r.pred, from.pred)
	copy(r.gamma.Grad, from.gamma.Grad)
	r.gamma.Prepare()
	r.loss, r.last, r.scored = from.loss, from.last, true
	r.total()
	r.complete = r.here()
}
