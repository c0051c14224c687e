package coordinate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/columns"
)

// Limits of starts.
const (
	startSweeps = 10 // after which a start is compared and has to be better than no interactions
	maxAttempts = 4  // to start anew where one diverged, each with a tenth of the variance of the one before
	// startLinear is how often linear term and bias move before the first sweep.
	startLinear = 3
	// stallSpan is over how many sweeps the objective has to fall by the tolerance.
	stallSpan = 10
	// freshSweeps is after how many sweeps the predictions are taken anew, for rounding adds up.
	freshSweeps = 32
)

// run is one call of Fit.
type run struct {
	ctx     context.Context
	d       Descent
	p       *solver.Problem
	s       solver.Settings
	pace    *pace
	groups  []*descent
	warm    bool
	started time.Time
	result  solver.Result
}

// descent is the state of a group between sweeps.
type descent struct {
	*group
	rng      *rand.Rand
	variance float64
	attempt  int
	sweeps   int     // since the start
	bar      float64 // objective without interactions
}

// pace calls Settings.Yield and looks at the context now and then.
type pace struct {
	ctx     context.Context
	yield   func()
	left    int
	stopped bool
}

// quantum is the work, in about as many multiplications, between two looks at the context.
const quantum = 1 << 18

// spend counts work and reports whether to continue.
func (p *pace) spend(work int) bool {
	if p.left -= work; p.left > 0 {
		return !p.stopped
	}
	p.left = quantum
	if p.yield != nil && p.ctx.Err() == nil {
		p.yield()
	}
	p.stopped = p.stopped || p.ctx.Err() != nil
	return !p.stopped
}

func newRun(ctx context.Context, d Descent, p *solver.Problem, s solver.Settings) *run {
	if s.Now == nil {
		s.Now = time.Now
	}
	d = d.complete()
	r := &run{ctx: ctx, d: d, p: p, s: s, pace: &pace{ctx: ctx, yield: s.Yield, left: quantum}, started: s.Now()}
	x := columns.New(p.X.NumColumns, p.X.Start, p.X.Index, p.X.Value)
	if d.Objective != Lifted && x.Short() {
		x.KeepRest(p.X.Start, p.X.Index, p.X.Value)
	}
	if d.Shared || p.Outputs == 1 || gradientsOf(p.Loss) == perRow {
		r.add(newGroup(d, p, x, s, r.pace, 0, p.Outputs))
		return r
	}
	for c := range p.Outputs {
		r.add(newGroup(d, p, x, s, r.pace, c, c+1))
	}
	return r
}

func (r *run) add(g *group) {
	stream := 0x636f6f7264 + uint64(len(r.groups)) // "coord": apart from other uses of the seed
	r.groups = append(r.groups,
		&descent{group: g, rng: rand.New(rand.NewPCG(r.s.Seed, stream)), variance: r.d.Variance})
}

// newGroup returns the descent of outputs lo to hi.
func newGroup(d Descent, p *solver.Problem, x *columns.Matrix, s solver.Settings, pace *pace, lo, hi int) *group {
	n, m := p.X.NumRows(), hi-lo
	g := &group{
		x:      x,
		rows:   p.X,
		n:      n,
		d:      p.X.NumColumns,
		m:      m,
		k:      s.MaxBasis,
		loss:   p.Loss,
		target: p.Targets,
		weight: p.Weights,
		kernel: s.Kernel,
		degree: s.Kernel.Degree(),
		lifted: d.lifted(s.Kernel),
		norm:   solver.L1,
		beta:   s.Lambda,
		ridges: [2]float64{s.LinearRidge, s.BiasRidge},
		pace:   pace,
	}
	if m < p.Outputs {
		g.target = make([]float64, n*m)
		for i := range n {
			copy(g.target[i*m:i*m+m], p.Target(i)[lo:hi])
		}
	}
	if g.lifted && g.k > 0 {
		g.k = max(1, g.k/g.degree)
	}
	shared := d.Shared && m > 1
	switch {
	case shared && (g.lifted || g.degree == 3):
		g.rule = ridged
	case shared:
		g.rule, g.norm = normed, s.Penalty
	case !g.lifted && g.degree == 2 && d.Weights == Fitted:
		g.rule = single
	}
	g.signs = !shared && !g.lifted && g.degree == 2 && d.Weights != Ones
	if m > 1 && !shared {
		each := g.k
		g.k *= m
		for unit := range g.k {
			g.output = append(g.output, unit/each)
		}
	}
	g.byFeature = !g.lifted && x.Short()
	g.filled = make([]bool, g.k)
	g.v, g.w, g.b = make([]float64, g.k*m), make([]float64, g.d*m), make([]float64, m)
	if g.lifted {
		for range g.degree * g.k {
			g.p = append(g.p, make([]float64, g.d))
		}
	} else {
		g.h = make([]float64, g.d*g.k)
	}
	g.state, g.z, g.a, g.ones = make([]float64, n*m), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range g.ones {
		g.ones[i] = 1
	}
	for range g.degree {
		g.part = append(g.part, make([]float64, n))
	}
	g.block = block{loss: p.Loss, mu: p.Loss.Curvature(m), kind: gradientsOf(p.Loss), m: m, omega: d.Relaxation}
	return g
}

// descend sweeps until there is a reason to stop.
func (r *run) descend() (*solver.Result, error) {
	if !r.begin() {
		return nil, r.ctx.Err()
	}
	if stop, status := r.record(true); stop {
		return r.finish(status)
	}
	if r.s.MaxBasis == 0 && r.idle() {
		return r.finish(solver.BasisLimit)
	}
	start := r.fresh
	if r.warm {
		start = r.resume
	}
	if stop, status := start(); stop {
		return r.finish(status)
	}
	return r.finish(r.sweeps())
}

// fresh takes every group to a random point: the best of several where Starts asks for them.
func (r *run) fresh() (stop bool, status solver.Status) {
	if r.spent() {
		return true, solver.TimeBudget
	}
	start := r.start
	if r.d.Starts > 1 {
		start = r.choose
	}
	for _, g := range r.groups {
		if !start(g) {
			return true, r.cut()
		}
	}
	if r.d.Starts > 1 {
		return r.record(false)
	}
	return false, 0
}

// resume takes every group to the point of the warm model, and what it has not to a random one.
func (r *run) resume() (stop bool, status solver.Status) {
	for _, g := range r.groups {
		if g.randomize(g.rng, g.variance); !g.predict() {
			return true, r.cut()
		}
	}
	return false, 0
}

// sweeps makes sweeps over the groups until there is a reason to stop, and returns it.
func (r *run) sweeps() solver.Status {
	trace := []float64{r.objective()}
	most := r.s.MaxIterations
	if r.d.MaxSweeps > 0 {
		most = min(most, r.d.MaxSweeps)
	}
	for sweep := range most {
		if r.spent() {
			return solver.TimeBudget
		}
		for _, g := range r.groups {
			if !r.sweep(g, sweep) {
				return r.cut()
			}
		}
		if stop, status := r.record(false); stop {
			return status
		}
		trace = append(trace, r.objective())
		t := len(trace)
		stalled := t > stallSpan && trace[t-1-stallSpan]-trace[t-1] <= r.s.Tolerance*trace[t-1]
		if stalled && r.settled() {
			return solver.Stalled
		}
	}
	return solver.BasisLimit
}

// begin fits linear term and bias, or takes the warm model, and the objectives without interactions.
func (r *run) begin() bool {
	for _, g := range r.groups {
		from := g.point
		g.point = from.clone()
		g.clearUnits()
		if !g.predict() {
			return false
		}
		for range startLinear {
			if !g.moveBias() || !g.moveLinear() {
				return false
			}
		}
		g.score()
		if g.bar = g.objective; r.warm {
			g.point = from
			if !g.predict() {
				return false
			}
			g.score()
			g.sweeps = startSweeps // it is the best there is
			g.bar = math.Inf(1)
		}
	}
	return r.pace.ctx.Err() == nil
}

// idle reports whether nothing moves.
func (r *run) idle() bool { return r.s.LinearRidge == 0 && r.s.BiasRidge == 0 }

// start begins a descent at a random point.
func (r *run) start(g *descent) bool {
	g.randomize(g.rng, g.variance)
	g.sweeps, g.swept = 0, 0
	return g.predict()
}

// choose descends from several random points and keeps the best.
func (r *run) choose(g *descent) bool {
	var best point
	lowest := math.Inf(1)
	linear := g.clone()
	for range r.d.Starts {
		copy(g.w, linear.w)
		copy(g.b, linear.b)
		if !r.start(g) {
			return false
		}
		for range startSweeps {
			if !g.group.sweep() {
				return false
			}
		}
		if g.objective < lowest {
			lowest, best = g.objective, g.clone()
		}
	}
	if best.v != nil { // else none is finite
		g.point = best
	}
	if !g.predict() {
		return false
	}
	g.score()
	g.sweeps = startSweeps
	return r.check(g)
}

// sweep makes one sweep of a group. It reports whether it was not called off.
func (r *run) sweep(g *descent, number int) bool {
	if number%freshSweeps == freshSweeps-1 && !g.predict() {
		return false
	}
	if !g.group.sweep() {
		return false
	}
	g.sweeps++
	return r.check(g)
}

// check begins again where a descent diverged: after startSweeps sweeps it is worse than no interactions, beyond what
// vanishing ones leave. It reports whether it was not called off.
func (r *run) check(g *descent) bool {
	worse := !(g.objective <= g.bar*(1+r.s.Tolerance))
	if !worse || g.sweeps < startSweeps && isFinite(g.objective) {
		return true
	}
	g.attempt++
	if g.variance /= 10; g.attempt < maxAttempts {
		clear(g.w)
		clear(g.b)
		return r.start(g)
	}
	clear(g.w)
	clear(g.b)
	g.clearUnits()
	g.sweeps = 0
	g.bar = math.Inf(1)
	return g.predict()
}

// settled reports whether no group is yet to show that it did not diverge.
func (r *run) settled() bool {
	for _, g := range r.groups {
		if g.sweeps < startSweeps {
			return false
		}
	}
	return true
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (r *run) objective() float64 {
	total := 0.0
	for _, g := range r.groups {
		total += g.objective
	}
	return total
}

// spent reports whether the budget allows no further step.
func (r *run) spent() bool { return r.s.Budget.Spent(r.s.Lambda, len(r.result.Steps)) }

// cut returns the status of a context that is done.
func (r *run) cut() solver.Status {
	if errors.Is(r.ctx.Err(), context.DeadlineExceeded) {
		return solver.TimeBudget
	}
	return solver.Interrupted
}

// record keeps the current point as a step, unless it is worse than the one before.
func (r *run) record(first bool) (stop bool, status solver.Status) {
	objective := r.objective()
	if !isFinite(objective) || !first && objective > r.result.Objective {
		return false, 0
	}
	model := r.model()
	if !model.IsFinite() {
		return false, 0
	}
	r.result.Model, r.result.Objective = model, objective
	step := solver.Step{
		K:         model.NumBasis,
		Objective: objective,
		Gap:       objective,
		Seconds:   r.s.Now().Sub(r.started).Seconds(),
	}
	for _, v := range model.Weights {
		if v != 0 {
			step.Units++
		}
	}
	r.result.Steps = append(r.result.Steps, step)
	if r.s.OnStep != nil && r.s.OnStep(step, model.Clone()) {
		return true, solver.Interrupted
	}
	if r.ctx.Err() != nil {
		return true, r.cut()
	}
	return false, 0
}

// finish completes the result.
func (r *run) finish(status solver.Status) (*solver.Result, error) {
	res := &r.result
	res.Status = status
	res.CutShort = status == solver.TimeBudget || r.ctx.Err() != nil
	res.ConvexObjective, res.Gap, res.GapEstimate = res.Objective, res.Objective, res.Objective
	if res.Objective > 0 {
		res.GapRelative = 1
	}
	own := *res // a pointer into the run would keep all its scratch as long as the result
	return &own, nil
}
