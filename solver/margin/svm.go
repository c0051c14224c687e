package margin

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/solver"
)

// Method says how the dual is maximised.
type Method uint8

const (
	// BlockAscent maximises over the dual variables of one row at a time, exactly, over the rows that the gap is in. A
	// step is a number of sweeps and one evaluation. It reached a given gap in the least time on every set that was
	// tried, and is the default.
	BlockAscent Method = iota
	// LineSearch is the paper's algorithm 1: Frank–Wolfe over all rows at once with the best step.
	LineSearch
	// Scheduled is Frank–Wolfe with steps of 2/(t+2), without a search.
	Scheduled
)

// String returns block_ascent, line_search or scheduled.
func (m Method) String() string {
	switch m {
	case BlockAscent:
		return "block_ascent"
	case LineSearch:
		return "line_search"
	case Scheduled:
		return "scheduled"
	}
	return fmt.Sprintf("method(%d)", uint8(m))
}

// SVM is the algorithm frank_wolfe_svm: a multi-category SVM with one of the losses of this package. The zero value is
// ready.
//
// Settings.Lambda is Λ of the package comment. Of the other settings it takes BiasRidge (positive for a bias),
// Tolerance (of the gap relative to the objective), MaxIterations (two for each step of ascent, one of Frank–Wolfe),
// Rough (see roughGap), Seed (the order of rows), Workers, OnStep, Yield, Budget and Now. Steps have K, Units,
// Objective, Gap and Seconds.
//
// A warm start depends on the dual variables: those of rows that left are not there, those of new rows are 0, and all
// are first projected onto what the loss allows, so that the gap is a bound whatever they were. They do not depend on
// Λ or the row weights, so that those may change. Of a warm model over the same basis the weights say where those of
// new rows begin, and are a part of the first point (enter); without dual variables it has no part in a fit. The
// Model of a result is that of least objective among the steps; Dual is that of the last step. A fit ends Converged,
// TimeBudget, Interrupted, or Stalled after MaxIterations or where rounding leaves nothing to gain; the gap is
// certified in any case.
type SVM struct {
	Method Method
	// Basis, if not nil, is a model whose basis vectors stay as they are: the SVM is learned over their activations
	// and, with LinearRidge > 0, the features together with them, all with the ridge Λ. The result has that basis.
	// Its weights, linear term and bias are not looked at.
	Basis *solver.Model
}

var _ solver.Algorithm = SVM{}

// Name returns frank_wolfe_svm.
func (SVM) Name() string { return "frank_wolfe_svm" }

// Check returns an error that wraps solver.ErrProblem or solver.ErrSettings unless the loss is one of this package that
// fits the classes, the targets are one-hot and Lambda is positive.
func (a SVM) Check(p *solver.Problem, s solver.Settings) error {
	_, err := a.check(p, s)
	return err
}

// check is Check and returns the classes of the rows.
func (a SVM) check(p *solver.Problem, s solver.Settings) (class []int32, err error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	loss, ok := p.Loss.(Loss)
	if !ok {
		return nil, fmt.Errorf("%w: %s does not learn by the loss %s: use one of %v", solver.ErrProblem, a.Name(),
			p.Loss.Name(), Kinds())
	}
	if err := loss.Validate(p.Outputs); err != nil {
		return nil, fmt.Errorf("%w: %w", solver.ErrProblem, err)
	}
	class = make([]int32, p.X.NumRows())
	for i := range class {
		if class[i] = oneHot(p.Target(i)); class[i] < 0 {
			return nil, fmt.Errorf("%w: the target of row %d is not one class: %s learns multi-class tasks",
				solver.ErrProblem, i, a.Name())
		}
	}
	switch {
	case !(s.Lambda > 0):
		return nil, fmt.Errorf("%w: %s takes Lambda, not Tau", solver.ErrSettings, a.Name())
	case a.Method > Scheduled:
		return nil, fmt.Errorf("%w: Method is %v", solver.ErrSettings, a.Method)
	case a.Basis != nil && (a.Basis.NumFeatures != p.X.NumColumns || len(
		a.Basis.Basis) != a.Basis.NumFeatures*a.Basis.NumBasis || !a.Basis.IsFinite()):
		return nil, fmt.Errorf("%w: basis of %d vectors over %d features for a problem of %d", solver.ErrSettings,
			a.Basis.NumBasis, a.Basis.NumFeatures, p.X.NumColumns)
	}
	return class, nil
}

// oneHot returns where the only entry of a target that is not 0 is, and −1 unless there is one and it is 1.
func oneHot(target []float64) int32 {
	y, count := 0, 0
	for c, v := range target {
		set := isSet(v) // no branch: which entry it is cannot be foretold
		y, count = y+set*c, count+set
	}
	if count != 1 || target[y] != 1 {
		return -1
	}
	return int32(y)
}

// strengths are the parts of Σ_i w_i‖x_i‖² that an automatic choice tries for Λ: with the first, no row can move the
// scores of its kind by much more than a margin's thousandth; with the last, a few rows decide.
var strengths = []float64{3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5}

// Strengths returns parts of Σ_i w_i‖x_i‖², the squared length of all examples. They cost one pass.
func (a SVM) Strengths(ctx context.Context, p *solver.Problem, s solver.Settings) ([]float64, error) {
	s.Lambda, s.Tau = 1, 0
	class, err := a.check(p, s)
	if err != nil {
		return nil, err
	}
	f := a.newFit(ctx, p, class, s)
	defer f.release()
	total := 0.0
	for i := range f.n {
		total += p.Weight(i) * f.squareOf(i)
	}
	return solver.FractionsOf(total, strengths), ctx.Err()
}

// Fit minimises P of the package comment. Errors wrap solver.ErrProblem or solver.ErrSettings, or are those of ctx, or
// of one that ended with the budget, if that was before the start was evaluated.
func (a SVM) Fit(ctx context.Context, p *solver.Problem, warm *solver.Warm, s solver.Settings) (*solver.Result, error) {
	class, err := a.check(p, s)
	if err != nil {
		return nil, err
	}
	if !s.Budget.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, s.Budget.Deadline)
		defer cancel()
	}
	f := a.newFit(ctx, p, class, s)
	defer f.release()
	if warm != nil && warm.Dual != nil {
		if len(warm.Dual) != f.n*f.m {
			return nil, fmt.Errorf("%w: warm start: %d dual variables for %d rows of %d classes", solver.ErrSettings,
				len(warm.Dual), f.n, f.m)
		}
		for _, i := range warm.New {
			if i < 0 || int(i) >= f.n {
				return nil, fmt.Errorf("%w: warm start: row %d is new, of %d", solver.ErrSettings, i, f.n)
			}
		}
		if err := f.load(warm.Dual); err != nil {
			return nil, err
		}
		tolerance := s.Tolerance
		if s.Rough {
			tolerance = max(tolerance, roughGap)
		}
		f.enter(warm, tolerance)
	} else if err := f.load(nil); err != nil {
		return nil, err
	}
	f.evaluate()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f.loop(ctx)
	return f.finish(ctx), nil
}

// A rough fit ends at a relative gap of roughGap that is at most roughGain of what the model has gained over no
// weights: by the former alone a fit with a strong Λ, whose least objective is near that of no weights, would end with
// these.
const (
	roughGap  = 1e-2
	roughGain = 0.1
)

// enough returns the least value of the dual whose gap to the least objective so far is as small as was asked for.
func (f *fit) enough() float64 {
	best := f.best.objective
	gap := f.s.Tolerance * best
	if f.s.Rough {
		gap = max(gap, min(roughGap*best, roughGain*(f.nothing-best)))
	}
	return best - gap
}

// isClose reports whether a value of the dual is enough.
func (f *fit) isClose(value float64) bool { return value >= f.enough() }

// loop takes steps until there is a reason to stop, kept in result.Status.
func (f *fit) loop(ctx context.Context) {
	for {
		step := f.record()
		last := len(f.result.Steps) - 1
		switch {
		case f.s.OnStep != nil && f.s.OnStep(step, f.model(f.shown)):
			f.result.Status = solver.Interrupted
		case f.isClose(f.best.value):
			f.result.Status = solver.Stalled // a rough one; finish says where it is converged
		case f.s.Budget.Spent(f.s.Lambda, len(f.result.Steps)):
			f.result.Status, f.result.CutShort = solver.TimeBudget, true
		case f.taken(last) >= f.s.MaxIterations || f.method == BlockAscent && f.stuck >= maxStuck:
			f.result.Status = solver.Stalled
		}
		if f.result.Status != 0 {
			return
		}
		closed := false
		if f.method == BlockAscent {
			closed = f.ascend(last)
		} else {
			f.frankWolfe(last)
		}
		if !closed {
			f.evaluate()
		}
		if ctx.Err() != nil {
			f.result.Status, f.result.CutShort = statusOf(ctx), true
			f.restore()
			return
		}
	}
}

// keep notes the dual variables of rows, which a step may change.
func (f *fit) keep(rows []int32) {
	f.kept.rows, f.kept.dual = append(f.kept.rows[:0], rows...), slices.Grow(f.kept.dual[:0], len(rows)*f.m)
	for _, i := range rows {
		f.kept.dual = append(f.kept.dual, f.alpha[int(i)*f.m:int(i+1)*f.m]...)
	}
}

// restore puts back the dual variables before the step.
func (f *fit) restore() {
	for k, i := range f.kept.rows {
		copy(f.alpha[int(i)*f.m:int(i+1)*f.m], f.kept.dual[k*f.m:(k+1)*f.m])
	}
}

// taken returns what MaxIterations bounds.
func (f *fit) taken(steps int) int {
	if f.method == BlockAscent {
		return innerSweeps * steps
	}
	return steps
}

// maxStuck is the number of steps of exact ascent in a row without a gain of the dual or a lower objective after
// which only rounding is left to gain.
const maxStuck = 20

// finish returns the result.
func (f *fit) finish(ctx context.Context) *solver.Result {
	r := &f.result
	r.Model, r.Objective, r.Gap = f.model(f.best.w), f.best.objective, f.gapOf()
	r.ConvexObjective, r.GapKind, r.GapBound, r.GapEstimate, r.Dual = r.Objective, solver.Certified, DualObjective, r.Gap,
		f.alpha
	for _, s := range f.scratch {
		r.RowVisits += s.visits
	}
	if r.Gap > 0 {
		r.GapRelative = r.Gap / r.Objective
	}
	if r.Status == solver.Stalled && !f.s.Rough && r.Gap <= f.s.Tolerance*r.Objective && ctx.Err() == nil {
		r.Status = solver.Converged
	}
	own := *r // a pointer into the fit would keep all its scratch as long as the result
	return &own
}

// DualObjective is the GapBound of a gap to the value of a dual solution.
const DualObjective solver.GapBound = "dual objective"

// gapOf returns the least objective less the largest value of the dual, which bounds how far the former is from the
// minimum.
func (f *fit) gapOf() float64 { return math.Max(f.best.objective-f.best.value, 0) }
