package sweep

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/posterior"
)

// sweepBlock is the number of rows or features that one goroutine takes at a time; sums are added block by block in a
// fixed order. Chosen by hand.
const sweepBlock = 512

// Refit runs variational sweeps over a sample. It is made for one sample and used by one goroutine at a time. It is one
// type: a sweep takes all its fields in turn.
type Refit struct {
	// Yield, if not nil, is called before every feature or chunk of features, as solver.Settings.Yield is before every
	// block. Set it before the first sweep.
	Yield func()
	// Deadline, if not zero, is when sweeps are cut short, as solver.Budget.Deadline is.
	Deadline time.Time

	// The caller's: swept in place. Between two sweeps, and after one that was cut short, it is a valid state.
	state   *posterior.State
	problem *solver.Problem // read, never written
	cap     float64         // Prior.Cap: the largest precision of basis coordinates
	workers int             // at most 0: GOMAXPROCS, asked at each pass
	columns *columns        // which rows have a feature; empty for pairs without main effects, which need counts alone
	pairs   *pairs          // nil unless every example has two one-hot features: the fast path
	units   *unitRows       // nil unless fields have groups and the rows are no pairs
	totals  *rowTotals      // nil for pairs, units and groups
	// n, the weight of the pseudo-observation of each row. This and the next three are nil for pairs whose rows are
	// summed up: these take no pass over the rows.
	omega   []float64
	right   []float64 // n, its weight times its value: the right side of the normal equations
	mean    []float64 // n, E[z]
	spread  []float64 // n, Var z
	counts  []float64 // NumFields: features of the field that occur in the sample
	logDet  []float64 // d: log det of the covariance, from the last solve
	squares float64   // Gaussian: Σ weight·E(t − o)², from the last sweep
	// observed says that the last evidence has set the pseudo-observations of the next sweep: both take ξ of every
	// output.
	observed bool
	bounded  bool             // sweeps maximise the bound on the logistic loss: always but for one binary label, see Sweep
	reached  float64          // the evidence of the last sweep, where it is not bounded
	before   *posterior.State // as the last sweep found it, then
	epochs   int              // sweeps that ended
	// exclusive says for each field whether every row has exactly one of its features, of value 1.
	exclusive []bool
	apart     []bool          // per field: no row has two of its features
	leading   []*nestedFields // of State.Group
	outputs   *outputSweep    // nil for outputs that share z
}

// NewRefit prepares sweeps of s over p. The features of s are the columns of p.X. priorCap is Prior.Cap. workers is the
// number of goroutines, 0 takes GOMAXPROCS; results do not depend on it. The problem's targets must be those of the
// state's likelihood: numbers, ±1, or one-hot. Outputs that share z are one number or any number of binary labels.
func NewRefit(s *posterior.State, p *solver.Problem, priorCap float64, workers int) (*Refit, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.X.NumColumns != len(s.Field) || p.Outputs != len(s.Bias) ||
		(s.Likelihood == posterior.Gaussian && p.Outputs != 1 && !s.Separate) {
		return nil, fmt.Errorf("%w: %d columns and %d outputs for a posterior over %d features and %d outputs",
			solver.ErrProblem, p.X.NumColumns, p.Outputs, len(s.Field), len(s.Bias))
	}
	n := p.X.NumRows()
	r := &Refit{
		state: s, problem: p, cap: priorCap, workers: workers, columns: newColumns(p.X),
		counts: make([]float64, s.NumFields), logDet: make([]float64, len(s.Field)), bounded: !s.IsBinary(),
	}
	if !s.Separate {
		r.pairs = newPairs(r)
	}
	if r.pairs == nil || s.MainOnly != nil {
		r.columns.fill(p.X)
	}
	for j := range s.Field {
		if r.columns.count(j) > 0 {
			r.counts[s.Field[j]]++
		}
	}
	r.exclusive, r.leading, r.apart = r.exclusiveFields(), r.leadings(), r.columns.apart(p.X, s.Field, s.NumFields)
	if s.Separate {
		r.outputs = newOutputSweep(r)
		return r, nil
	}
	if r.pairs == nil || !r.pairs.summed {
		r.omega, r.right, r.mean, r.spread = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64,
			n)
	}
	if r.pairs == nil {
		if r.units = newUnitRows(r); r.units == nil {
			r.totals = newRowTotals(r)
		}
	}
	r.predict()
	return r, nil
}

// Sweep updates every feature's posterior once, field by field, then the precisions, θ and the noise, and returns the
// evidence bound (a lower bound on the log probability of the sample; of second order for Multinomial outputs and one
// binary label). O(nnz·k²), for separate outputs O(nnz·k·(k + m) + n·m·k²). Features that do not occur in the sample
// return to their prior. Each update maximises the bound in its block, so it does not fall between sweeps except by
// rounding; a sweep that a done context or Deadline cuts short returns the context's error and leaves a valid state
// between two blocks.
//
// The quadratics of one binary label are no bounds, see sharpen: a sweep from far off, over numbers of extreme size,
// may overshoot. A sweep that lowers the evidence is undone, and it and all that follow maximise the bound.
func (r *Refit) Sweep(ctx context.Context) (float64, error) {
	if !r.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.Deadline)
		defer cancel()
	}
	if r.bounded {
		return r.sweep(ctx)
	}
	// Quadratics that are no bounds need something to compare the first sweep with: the evidence of the state as it came.
	if r.epochs == 0 {
		r.takeLogDets()
		if r.outputs != nil {
			r.reached = r.outputs.evidence()
		} else {
			r.reached, r.observed = r.evidence(), true
		}
	}
	if r.before == nil {
		r.before = r.state.Clone()
	} else {
		r.before.Restore(r.state)
	}
	evidence, err := r.sweep(ctx)
	if ctx.Err() != nil && err != nil {
		return evidence, err
	}
	// What a rounding takes off is no fall.
	if err == nil && evidence >= r.reached-evidenceRounding*math.Abs(r.reached) {
		r.reached = evidence
		return evidence, nil
	}
	// The sweep overshot. From here on quadratics are bounds, under which each block can only raise the evidence; the
	// state before is dropped, as nothing is undone any more.
	if r.state.Restore(r.before); r.outputs != nil {
		r.outputs.predict()
	} else {
		r.predict()
	}
	r.bounded, r.observed, r.before = true, false, nil
	return r.sweep(ctx)
}

// evidenceRounding is how far a sweep may lower the evidence, in parts of it. Chosen by hand.
const evidenceRounding = 1e-9

// takeLogDets sets logDet from the covariances: before the first sweep nothing else has.
func (r *Refit) takeLogDets() {
	s := r.state
	r.parallel(len(s.Field), func(_, lo, hi int) {
		work := make([]float64, posterior.PackedSize(s.NumBasis+1))
		for j := lo; j < hi; j++ {
			q := s.Free(int(s.Field[j]))
			_, cov := s.Row(j)
			l := work[:posterior.PackedSize(q)]
			if s.Separate {
				posterior.PackOutput(l, cov, s.NumBasis)
			} else {
				copy(l, cov)
			}
			// A covariance that is not positive definite, by rounding, counts as a point: evidence −∞, so that the
			// first sweep is kept.
			r.logDet[j] = math.Inf(-1)
			if posterior.Cholesky(l, q) {
				r.logDet[j] = 0
				for a := range q {
					r.logDet[j] += 2 * math.Log(l[a*(a+1)/2+a])
				}
			}
		}
	})
}

// sweep is one sweep, of which the evidence may fall.
func (r *Refit) sweep(ctx context.Context) (float64, error) {
	if r.outputs != nil {
		return r.outputs.sweep(ctx)
	}
	if !r.observed {
		r.observe()
	}
	r.observed = false
	// The order is that of the bound's blocks: main effects, then fields in order, each given all others as they are
	// now. What follows the fields (θ, noise, precisions) has closed forms given the rows.
	if err := r.sweepMainEffects(ctx); err != nil {
		return 0, err
	}
	if r.totals != nil {
		r.totals.take()
	}
	for f := range r.state.NumFields {
		if r.state.IsMainOnly(f) {
			continue
		}
		if err := r.sweepField(ctx, f); err != nil {
			return 0, err
		}
	}
	// Nested fields share an offset that the likelihood does not see: move it to where the prior wants it.
	for _, l := range r.leading {
		l.recenter(r.state)
	}
	r.predict()
	r.updateOutputs()
	r.recenter(r.mean)
	r.updatePrecision()
	r.epochs++
	// For other likelihoods than the Gaussian the evidence sets ξ anew, which is half of observe: the next sweep skips
	// it.
	evidence := r.evidence()
	r.observed = r.state.Likelihood != posterior.Gaussian && r.bounded == !r.state.IsBinary()
	if math.IsNaN(evidence) || math.IsInf(evidence, 0) || !r.state.IsFinite() {
		return evidence, fmt.Errorf("posterior: sweep %d is not finite (evidence %g)", r.epochs, evidence)
	}
	return evidence, nil
}

// observe sets the pseudo-observations from the current moments of z.
func (r *Refit) observe() {
	s := r.state
	r.parallel(len(r.omega), func(_, lo, hi int) {
		if s.Likelihood == posterior.Gaussian {
			for i := lo; i < hi; i++ {
				w := r.problem.Weight(i)
				o, t := s.Pseudo(r.problem.Target(i), r.mean[i], r.spread[i])
				r.omega[i], r.right[i] = w*o, w*t
			}
			return
		}
		// Tiles of several outputs add up into one pseudo-observation of the shared z.
		clear(r.omega[lo:hi])
		clear(r.right[lo:hi])
		r.bounds(lo, hi, r.bounded, r.observeTile)
	})
}

// sweepField updates the features of one field.
func (r *Refit) sweepField(ctx context.Context, field int) error {
	s := r.state
	if r.pairs != nil {
		return r.pairs.sweepField(ctx, field)
	}
	if r.units != nil {
		return r.units.sweepField(ctx, field)
	}
	if r.totals != nil {
		return r.totals.sweepField(ctx, field)
	}
	return r.eachFeature(ctx, field, func() func(j int) {
		solve, view := posterior.NewSolver(s.NumBasis+1), posterior.NewRowView(s.Sign)
		return func(j int) { r.updateFeature(j, solve, view) }
	})
}

// eachFeature calls the updates that make returns, one for each goroutine, for the features of a field. Features of a
// field that never meet in one example are independent given the others and go in parallel; a field whose features do
// meet (a multi-hot field) goes feature by feature.
func (r *Refit) eachFeature(ctx context.Context, field int, make func() func(j int)) error {
	run := func(lo, hi int) error {
		update := make()
		for j := lo; j < hi; j++ {
			if int(r.state.Field[j]) != field {
				continue
			}
			if err := r.yield(ctx); err != nil {
				return err
			}
			update(j)
		}
		return nil
	}
	if !r.apart[field] {
		return run(0, len(r.state.Field))
	}
	r.parallel(len(r.state.Field),
		func(_, lo, hi int) { _ = run(lo, hi) }) // ctx is the only cause of an error and is asked again here
	return ctx.Err()
}

// yield calls Yield, unless ctx is done, and returns the error of ctx.
func (r *Refit) yield(ctx context.Context) error {
	if r.Yield != nil && ctx.Err() == nil {
		r.Yield()
	}
	return ctx.Err()
}

// updateFeature solves for the posterior of feature j.
func (r *Refit) updateFeature(j int, solve *posterior.RowSolver, view *posterior.RowView) {
	s := r.state
	rows, place := r.columns.column(j)
	if len(rows) == 0 {
		r.reset(j)
		return
	}
	solve.Start()
	for e, i := range rows {
		index, value := r.problem.X.Row(int(i))
		z := view.Gather(s, index, value)
		// Rank-one moments of the partner side, E[y yᵀ]·ω and E[y]·(ω·t): what row i says of feature j.
		view.Accumulate(solve.Evidence, solve.Right, int(place[e]), z, r.omega[i], r.right[i])
	}
	mean, cov := s.Row(j)
	solve.Finish(s.PrecisionOf(int(s.Field[j])), mean, cov, &r.logDet[j])
}

// reset returns a feature that the sample does not have to its prior.
func (r *Refit) reset(j int) {
	s := r.state
	s.Reset(j)
	r.logDet[j] = 0
	for _, d := range s.PrecisionOf(int(s.Field[j]))[:s.Free(int(s.Field[j]))] {
		r.logDet[j] -= math.Log(d)
	}
}

// predict refreshes the mean and variance of z for every example.
func (r *Refit) predict() {
	if r.pairs != nil {
		r.pairs.predict()
		return
	}
	if r.units != nil {
		r.units.predict()
		return
	}
	r.parallel(len(r.mean), func(_, lo, hi int) {
		view := posterior.NewRowView(r.state.Sign)
		for i := lo; i < hi; i++ {
			index, value := r.problem.X.Row(i)
			r.mean[i] = view.Gather(r.state, index, value)
			r.spread[i] = view.Variance()
		}
	})
}

// parallel runs f over [0, n) in blocks of sweepBlock on the workers and waits. Blocks are numbered from 0.
func (r *Refit) parallel(n int, f func(block, lo, hi int)) {
	blocks := (n + sweepBlock - 1) / sweepBlock
	workers := r.workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, blocks)
	if workers <= 1 {
		for b := range blocks {
			f(b, b*sweepBlock, min(n, (b+1)*sweepBlock))
		}
		return
	}
	var wg parallel.Group
	for w := range workers {
		wg.Go(func() {
			// Blocks are dealt out by number, not by who is free: sums of a block do not depend on the worker.
			for b := w; b < blocks; b += workers {
				f(b, b*sweepBlock, min(n, (b+1)*sweepBlock))
			}
		})
	}
	wg.Wait()
}
