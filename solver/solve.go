package solver

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/floats"
)

// Solve runs Algorithm 1 of Blondel et al. 2017 in penalised form: fit the linear term, select the basis vector that violates
// optimality most, append it, refit the output weights, drop basis vectors without weight, repeat. With a warm model, whose columns must
// be those of p, its linear term and weights are refitted first; if it already has MaxBasis vectors and is not optimal, a fifth of
// them, those of least gain, make room, and the model before that is returned if no better one is found.
//
// Solve ends when no basis vector enters (Converged), at MaxBasis or MaxSteps (BasisLimit), or when ctx is done (TimeBudget after a
// deadline, else Interrupted), and then returns the model it has: ctx is no source of errors. It is checked between passes over the rows
// (0.1 s and more for a million of them). Errors wrap ErrProblem or ErrSettings. The
// result depends on p, warm, s and the seed only, not on the number of workers. p and warm are read, never written.
func Solve(ctx context.Context, p *Problem, warm *Model, s Settings) (*Result, error) {
	run, err := newSolve(ctx, p, s)
	if err != nil {
		return nil, err
	}
	if warm != nil {
		if err := run.load(warm); err != nil {
			return nil, err
		}
	}
	run.loop(ctx, warm != nil)
	return run.finish(ctx), nil
}

// LambdaMax returns the criterion of the best basis vector found before any is in the model, with the linear term of s fitted: a λ at or
// above it gives a model without interactions. Lambda, MaxBasis and Solver are not used. Errors wrap ErrProblem or ErrSettings, or are
// those of ctx.
func LambdaMax(ctx context.Context, p *Problem, s Settings) (float64, error) {
	s.Lambda, s.Tau = 1, 0
	run, err := newSolve(ctx, p, s)
	if err != nil {
		return 0, err
	}
	run.refit(ctx, true)
	run.score(ctx)
	found := run.gamma.selectBasis(ctx, s.Penalty, nil, fineOracle, s.Seed)
	return found.criterion, ctx.Err()
}

// solve is the state of one call of Solve.
type solve struct {
	p      *Problem
	s      Settings
	k, m   int
	basis  [][]float64 // k unit vectors of length d
	v      []float64   // k×m
	output *outputFit
	linear *linearFit
	full   *fullFit // nil before the first full refit
	// sinceFull counts the refits since the last full one.
	sinceFull int
	gamma     *gamma
	pred      []float64 // n×m predictions of the whole model
	started   time.Time

	loss, norm, objective float64 // at the current point, set by score
	last                  selection
	result                Result
	saved                 *savedPoint
	shuffle               *rand.Rand // order of the stochastic epochs
	settled               bool       // stochastic epochs no longer help
}

// savedPoint is a complete model to come back to.
type savedPoint struct {
	basis     [][]float64
	phi       [][]float64
	v, theta  []float64
	objective float64
}

func newSolve(ctx context.Context, p *Problem, s Settings) (*solve, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	crew := s.crew(ctx)
	r := &solve{p: p, s: s, m: p.Outputs, started: s.Now()}
	r.output = newOutputFit(p, s.form(), crew)
	r.linear = newLinearFit(p, s.LinearRidge, s.BiasRidge, crew)
	r.gamma = newGamma(p.X, s.Kernel, p.Outputs, crew)
	r.pred = make([]float64, p.X.NumRows()*p.Outputs)
	r.shuffle = rand.New(rand.NewPCG(s.Seed, 0x65706f636873)) // "epochs": apart from other uses of the seed
	return r, nil
}

// load takes over a warm model, with basis vectors scaled to unit norm and the square of the norm moved into the weights.
func (r *solve) load(warm *Model) error {
	d := r.p.X.NumColumns
	switch {
	case warm.Kernel != r.s.Kernel:
		return fmt.Errorf("%w: warm model has kernel %v, not %v", ErrSettings, warm.Kernel, r.s.Kernel)
	case warm.NumFeatures != d || warm.NumOutputs != r.m:
		return fmt.Errorf("%w: warm model of %d features and %d outputs for a problem of %d and %d",
			ErrSettings, warm.NumFeatures, warm.NumOutputs, d, r.m)
	case !warm.IsFinite():
		return fmt.Errorf("%w: warm model has parameters that are not finite", ErrSettings)
	}
	if r.s.BiasRidge > 0 {
		copy(r.linear.theta[d*r.m:], warm.Bias)
	}
	if r.s.LinearRidge > 0 {
		copy(r.linear.theta[:d*r.m], warm.Linear)
	}
	for b := range warm.NumBasis {
		h := make([]float64, d)
		for j := range d {
			h[j] = warm.Basis[j*warm.NumBasis+b]
		}
		norm := norm2(h)
		if norm == 0 {
			continue
		}
		floats.Scale(1/norm, h)
		r.append(h)
		for c, w := range warm.Weights[b*r.m : b*r.m+r.m] {
			r.v[(r.k-1)*r.m+c] = w * norm * norm
		}
	}
	return nil
}

// append adds a basis vector with zero weights.
func (r *solve) append(h []float64) {
	n := r.p.X.NumRows()
	phi := make([]float64, n)
	one := Model{Kernel: r.s.Kernel, NumBasis: 1, Basis: h}
	r.output.crew.blocks(n, fitBlock, func(_, _, lo, hi int) {
		var work [1]float64
		for i := lo; i < hi; i++ {
			index, value := r.p.X.Row(i)
			one.Activations(phi[i:i+1], work[:], index, value)
		}
	})
	r.basis = append(r.basis, h)
	r.output.phi = append(r.output.phi, phi)
	r.v = append(r.v, make([]float64, r.m)...)
	r.k++
}

// keep drops the basis vectors for which wanted is false.
func (r *solve) keep(wanted func(row int) bool) {
	to := 0
	for row := range r.k {
		if !wanted(row) {
			continue
		}
		r.basis[to], r.output.phi[to] = r.basis[row], r.output.phi[row]
		copy(r.v[to*r.m:to*r.m+r.m], r.v[row*r.m:row*r.m+r.m])
		to++
	}
	r.basis, r.output.phi, r.v, r.k = r.basis[:to], r.output.phi[:to], r.v[:to*r.m], to
}

// stallFraction of Tolerance is the relative decrease of the objective below which a new basis vector did not help: it repeats one that
// the refit has not brought to its optimum.
const stallFraction = 0.01

// loop alternates refits and selections until there is a reason to stop, kept in result.Status.
func (r *solve) loop(ctx context.Context, warm bool) {
	tried, renewed := 0, false
	last := math.Inf(1)
	for step := 0; ; step++ {
		r.refit(ctx, step == 0)
		r.prune()
		r.score(ctx)
		if ctx.Err() != nil {
			r.result.Status = statusOf(ctx)
			return
		}
		found := r.search(ctx)
		if ctx.Err() != nil {
			r.result.Status = statusOf(ctx)
			return
		}
		now := r.step(found)
		r.result.Steps = append(r.result.Steps, now)
		if r.s.OnStep != nil && r.s.OnStep(now, r.model()) {
			r.result.Status = Interrupted
			return
		}
		stalled := last-r.objective <= stallFraction*r.s.Tolerance*r.objective
		last = r.objective
		switch {
		case found.criterion <= r.s.Lambda, now.Gap <= r.s.Tolerance*now.Objective, stalled && !renewed:
			r.result.Status = Converged
			return
		case tried >= r.s.MaxSteps:
			r.result.Status = BasisLimit
			return
		case r.k >= r.s.MaxBasis:
			if !warm || renewed || r.s.MaxBasis == 0 {
				r.result.Status = BasisLimit
				return
			}
			r.makeRoom()
			renewed = true
		}
		r.append(found.basis)
		tried++
	}
}

// score evaluates the current point: loss, objective and the gradients that the oracle and the gap need.
func (r *solve) score(ctx context.Context) {
	r.linear.predictTo(r.output.offset, r.linear.theta)
	r.output.predictions(r.pred, r.v)
	r.loss = r.linear.settleBias(ctx, r.pred, r.gamma.grad, r.s.Tolerance)
	r.norm = r.s.Penalty.Norm(r.v, r.k, r.m)
	r.objective = r.loss + r.s.Lambda*r.norm + r.linear.penalty() + r.basisRidge()
}

// search selects the next basis vector: quickly, and again carefully if the quick search finds none that enters.
func (r *solve) search(ctx context.Context) selection {
	oracle := quickOracle
	if r.exact() {
		oracle = fineOracle
	}
	found := r.gamma.selectBasis(ctx, r.s.Penalty, r.last.eigen.vectors, oracle, r.s.Seed)
	if oracle != fineOracle && found.criterion <= r.s.Lambda {
		found = r.gamma.selectBasis(ctx, r.s.Penalty, found.eigen.vectors, fineOracle, r.s.Seed)
	}
	r.last = found
	return found
}

// step describes the current point.
func (r *solve) step(found selection) Step {
	units := 0
	for _, w := range r.v {
		if w != 0 {
			units++
		}
	}
	return Step{
		K: r.k, Units: units, Objective: r.objective, Gap: r.gap(found.criterion), Criterion: found.criterion, Nu: found.factor,
		Seconds: r.s.Now().Sub(r.started).Seconds(),
	}
}

// gap returns the optimality gap of the current point if Ω*(∇F) is dual, or larger where a basis vector of the model shows that it is.
func (r *solve) gap(dual float64) float64 {
	gradient := make([]float64, r.k*r.m)
	r.output.outputGradient(gradient, r.gamma.grad)
	inner := floats.Dot(gradient, r.v)
	dual = max(dual, r.s.Penalty.DualNorm(gradient, r.k, r.m))
	return penalizedGap(inner, r.norm, r.objective, dual, r.s.Lambda, r.linear.ridgeGap(r.gamma.grad))
}

// makeRoom saves the current point and drops a fifth of the basis vectors, at least one: those of least ‖v_r‖ · ‖φ_r‖.
func (r *solve) makeRoom() {
	r.saved = &savedPoint{
		basis: append([][]float64(nil), r.basis...), phi: append([][]float64(nil), r.output.phi...),
		v: append([]float64(nil), r.v...), theta: append([]float64(nil), r.linear.theta...), objective: r.objective,
	}
	gain := make([]float64, r.k)
	order := make([]int, r.k)
	for row := range r.k {
		gain[row] = norm2(r.v[row*r.m:row*r.m+r.m]) * floats.Norm(r.output.phi[row], 2)
	}
	floats.ArgsortStable(append([]float64(nil), gain...), order)
	dropped := make([]bool, r.k)
	for _, row := range order[:(r.k+4)/5] {
		dropped[row] = true
	}
	r.keep(func(row int) bool { return !dropped[row] })
}

// finish polishes the model, returns to the saved point if that was better, and describes the result.
func (r *solve) finish(ctx context.Context) *Result {
	if n := len(r.result.Steps); r.s.Rough && n > 0 && r.saved == nil && ctx.Err() == nil {
		res, last := &r.result, r.result.Steps[n-1]
		res.Model, res.Objective, res.Gap, res.GapKind = r.model(), last.Objective, last.Gap, Estimated
		if res.Objective > 0 {
			res.GapRelative = res.Gap / res.Objective
		}
		return res
	}
	if ctx.Err() == nil {
		r.polish(ctx)
	}
	if r.saved != nil && r.saved.objective < r.objective {
		r.basis, r.output.phi, r.v = r.saved.basis, r.saved.phi, r.saved.v
		r.k = len(r.basis)
		copy(r.linear.theta, r.saved.theta)
		r.score(ctx)
	}
	res := &r.result
	res.Model, res.Objective, res.GapKind = r.model(), r.objective, Estimated
	switch dual, exact := 0.0, false; {
	case ctx.Err() != nil:
		// No time for an oracle: what an earlier step left to gain bounds what is left now, and no objective is below 0.
		res.Gap = r.objective
		for _, step := range res.Steps {
			res.Gap = min(res.Gap, max(0, r.objective-step.Objective+step.Gap))
		}
	default:
		dual, exact = r.gamma.exactDual(r.s.Penalty)
		if exact {
			res.GapKind = Certified
		} else {
			dual = r.search(ctx).criterion
		}
		res.Gap = r.gap(dual)
	}
	if res.Objective > 0 {
		res.GapRelative = res.Gap / res.Objective
	}
	return res
}

// model returns a copy of the current model.
func (r *solve) model() *Model {
	d := r.p.X.NumColumns
	model := NewModel(r.s.Kernel, d, r.m, r.s.LinearRidge > 0)
	model.NumBasis = r.k
	model.Basis = make([]float64, d*r.k)
	for row, h := range r.basis {
		for j, x := range h {
			model.Basis[j*r.k+row] = x
		}
	}
	model.Weights = append([]float64(nil), r.v...)
	copy(model.Linear, r.linear.theta[:d*r.m])
	copy(model.Bias, r.linear.theta[d*r.m:])
	return model
}
