package margin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/parallel"
)

// fit is the state of one call of SVM.Fit.
type fit struct {
	p       *solver.Problem
	s       solver.Settings
	method  Method
	basis   *solver.Model // nil without
	workers parallel.Workers
	scratch []*scratch // by worker
	started time.Time

	x       *solver.Rows // of p, or the activations of the basis and what stands beside them, and a last column of ones for a bias
	full    []float64    // x by row with its zeros where there are few of them, else nil: products over full rows are made many at a time
	columns columns      // of x where it is not full
	n, m    int
	rule    *rule
	class   []int32
	square  []float64 // ‖x_i‖²

	alpha []float64   // n×m
	w     []float64   // columns of x × m: the sum over alpha
	parts [][]float64 // the rows of w, views
	// mixture is where the next evaluation takes the objective, nil for w; shown is where the last one did.
	mixture, shown []float64
	move           []float64 // n×m, of Frank–Wolfe: Δα
	step           []float64 // of the size of w: ΔW

	gap       []float64 // w_i times what row i adds to the gap, at the last evaluation
	objective float64   // P there
	value     float64   // D there
	nothing   float64   // P without weights, of a rough fit
	linear    float64   // of Frank–Wolfe: ⟨∇D, Δα⟩
	sums      [][3]float64
	sweeps    int
	stuck     int

	best struct {
		w, dual          []float64
		objective, value float64
	}
	result solver.Result
}

// rowBlock is the number of rows between two looks at the context.
const rowBlock = 256

// newFit returns a fit at α = 0.
func (a SVM) newFit(ctx context.Context, p *solver.Problem, s solver.Settings) *fit {
	if s.Now == nil {
		s.Now = time.Now
	}
	size := s.Workers
	if size == 0 {
		size = runtime.GOMAXPROCS(0)
	}
	f := &fit{p: p, s: s, method: a.Method, basis: a.Basis, started: s.Now(), n: p.X.NumRows(), m: p.Outputs,
		workers: parallel.Workers{Size: size, Pause: s.Yield, Done: ctx.Done()}}
	f.rule = p.Loss.(Loss).rule(f.m)
	for range size {
		f.scratch = append(f.scratch, newScratch(f.m))
	}
	f.x = f.rows()
	if f.full = filled(f.x); f.full == nil {
		f.columns = columnsOf(f.x)
	}
	f.class, f.square = make([]int32, f.n), make([]float64, f.n)
	for i := range f.n {
		f.class[i] = int32(slices.Index(p.Target(i), 1)) // as Check says
		_, value := f.x.Row(i)
		f.square[i] = dense.Dot(value, value)
	}
	if s.Rough {
		none := f.scratch[0].scores
		clear(none)
		for i, y := range f.class {
			f.nothing += p.Weight(i) * f.rule.eval(f.scratch[0].v, none, int(y), f.scratch[0])
		}
	}
	f.alpha, f.parts = make([]float64, f.n*f.m), make([][]float64, f.x.NumColumns)
	f.setWeights(make([]float64, f.x.NumColumns*f.m))
	f.gap, f.sums = make([]float64, f.n), make([][3]float64, (f.n+rowBlock-1)/rowBlock)
	f.best.w, f.best.dual = make([]float64, len(f.w)), make([]float64, len(f.alpha))
	f.best.objective, f.best.value = math.Inf(1), math.Inf(-1)
	if f.method != BlockAscent {
		f.move, f.step = make([]float64, len(f.alpha)), make([]float64, len(f.w))
	}
	return f
}

// model returns the model of weights over x.
func (f *fit) model(w []float64) *solver.Model {
	d, m := f.p.X.NumColumns, f.m
	out := solver.NewModel(f.s.Kernel, d, m, f.basis == nil || f.s.LinearRidge > 0)
	if f.basis != nil {
		k := f.basis.NumBasis
		out.Kernel, out.NumBasis = f.basis.Kernel, k
		out.Basis, out.Weights = append([]float64(nil), f.basis.Basis...), append([]float64(nil), w[:k*m]...)
		w = w[k*m:]
	}
	w = w[copy(out.Linear, w):]
	copy(out.Bias, w)
	return out
}

// load takes over dual variables, those rows that the loss does not allow projected: max −½‖v + α‖² over v is the envelope at −α without costs.
func (f *fit) load(dual []float64) error {
	for i, x := range dual {
		if !(math.Abs(x) <= maxDual) {
			return fmt.Errorf("%w: warm start: dual variable %d of row %d is %g", solver.ErrSettings, i%f.m, i/f.m, x)
		}
	}
	f.workers.Blocks(f.n, rowBlock, func(worker, _, lo, hi int) {
		s := f.scratch[worker]
		for i := lo; i < hi; i++ {
			if to, given := f.alpha[i*f.m:(i+1)*f.m], dual[i*f.m:(i+1)*f.m]; f.rule.allows(given, int(f.class[i]), s) {
				copy(to, given)
			} else {
				f.rule.project(to, given, int(f.class[i]), s)
			}
		}
	})
	return nil
}

// maxDual bounds dual variables, which are at most a sum of weights.
const maxDual = 1e12

// setWeights puts other weights in the place of W.
func (f *fit) setWeights(w []float64) {
	f.w = w
	for j := range f.parts {
		f.parts[j] = w[j*f.m : (j+1)*f.m]
	}
}

// evaluate sets objective, dual value and the gap of each row at the current point, or the objective at a mixture, and, for Frank–Wolfe, the direction to the
// vertices that the gap points to.
func (f *fit) evaluate() {
	m, own, dualRidge := f.m, f.w, f.ridge()
	if f.mixture != nil {
		f.setWeights(f.mixture)
		f.mixture = nil
	}
	f.workers.Blocks(f.n, rowBlock, func(worker, b, lo, hi int) {
		s := f.scratch[worker]
		var loss, dual, linear float64
		for i := lo; i < hi; i++ {
			at := (i - lo) % scoreBatch
			if at == 0 {
				f.scoresOf(i, min(i+scoreBatch, hi), s)
			}
			weight := f.p.Weight(i)
			copy(s.scores, s.batch[at*m:(at+1)*m])
			value, inner, conjugate := f.row(i, s)
			loss += weight * value
			dual -= weight * conjugate
			f.gap[i] = weight * max(value+inner+conjugate, 0)
			if f.move != nil {
				linear += weight * f.direct(f.move[i*m:(i+1)*m], f.alpha[i*m:(i+1)*m], int(f.class[i]), s)
			}
		}
		f.sums[b] = [3]float64{loss, dual, linear}
	})
	total := [3]float64{}
	for _, part := range f.sums {
		for k, x := range part {
			total[k] += x
		}
	}
	f.objective, f.value, f.linear = total[0]+f.ridge(), total[1]-dualRidge, total[2]
	f.shown = f.w
	f.setWeights(own)
}

// row returns Φ, ⟨α, o⟩ and the conjugate of Φ at −α of a row, whose scores o are in s: they add up to its part in the gap.
func (f *fit) row(i int, s *scratch) (loss, inner, conjugate float64) {
	alpha, y, o := f.alpha[i*f.m:(i+1)*f.m], int(f.class[i]), s.scores
	square := 0.0
	for c, x := range alpha {
		inner += x * o[c]
		square += x * x
	}
	return f.rule.eval(s.v, o, y, s), inner, f.rule.linear(alpha, y) + 0.5*f.rule.gamma*square
}

// record notes the point of the last evaluation as a step.
func (f *fit) record() solver.Step {
	f.stuck++
	if f.value > f.best.value {
		f.best.value, f.stuck = f.value, 0
	}
	if f.objective < f.best.objective {
		f.best.objective, f.stuck = f.objective, 0
		copy(f.best.w, f.shown)
	}
	copy(f.best.dual, f.alpha)
	step := solver.Step{Objective: f.objective, Gap: math.Max(f.objective-f.value, 0), Seconds: f.s.Now().Sub(f.started).Seconds()}
	if f.basis != nil {
		step.K = f.basis.NumBasis
		for _, v := range f.shown[:step.K*f.m] {
			if v != 0 {
				step.Units++
			}
		}
	}
	f.result.Steps = append(f.result.Steps, step)
	return step
}

// statusOf returns the status that a done context stands for.
func statusOf(ctx context.Context) solver.Status {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return solver.TimeBudget
	}
	return solver.Interrupted
}
