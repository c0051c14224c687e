package margin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
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
	full    bool         // few entries of x are 0: products are with its zeros, over many rows at a time
	columns columns      // of x where it is not full
	n, m    int
	rule    *rule
	class   []int32
	square  []float64 // ‖x_i‖² of rows that were asked for: see squareOf

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

// newFit returns a fit at α = 0 of rows of the given classes.
func (a SVM) newFit(ctx context.Context, p *solver.Problem, class []int32, s solver.Settings) *fit {
	if s.Now == nil {
		s.Now = time.Now
	}
	size := s.Workers
	if size == 0 {
		size = runtime.GOMAXPROCS(0)
	}
	f := &fit{p: p, s: s, method: a.Method, basis: a.Basis, started: s.Now(), n: p.X.NumRows(), m: p.Outputs, class: class,
		workers: parallel.Workers{Size: size, Pause: s.Yield, Done: ctx.Done()}}
	f.rule = p.Loss.(Loss).rule(f.m)
	for range size {
		f.scratch = append(f.scratch, newScratch(f.m))
	}
	f.x = f.rows()
	switch f.full = isFull(f.x); {
	case !f.full:
		f.columns = columnsOf(f.x)
	case f.method != BlockAscent: // which meets all rows in every step
		f.x = filled(f.x)
	}
	for _, s := range f.scratch {
		s.row = make([]float64, turnRows*f.x.NumColumns)
	}
	f.square = make([]float64, f.n)
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
	f.best.w = make([]float64, len(f.w))
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
	if !(dense.Dot(dual, dual) <= maxDual*maxDual) { // mostly says it of all
		for i, x := range dual {
			if !(math.Abs(x) <= maxDual) {
				return fmt.Errorf("%w: warm start: dual variable %d of row %d is %g", solver.ErrSettings, i%f.m, i/f.m, x)
			}
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
	own, dualRidge := f.w, f.ridge()
	if f.mixture != nil {
		f.setWeights(f.mixture)
		f.mixture = nil
	}
	f.workers.Blocks(f.n, rowBlock, func(worker, b, lo, hi int) {
		f.sums[b] = [3]float64{}
		for first := lo; first < hi; first += scoreBatch {
			f.evaluateRows(first, min(first+scoreBatch, hi), &f.sums[b], f.scratch[worker])
		}
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

// evaluateRows adds what the rows from lo to hi − 1, at most scoreBatch, have in the sums, and sets their gaps: Φ, ⟨α, o⟩ and the conjugate of Φ at −α.
func (f *fit) evaluateRows(lo, hi int, sums *[3]float64, s *scratch) {
	m, n := f.m, hi-lo
	f.scoresOf(lo, hi, s)
	together := f.move == nil && f.rule.cost == nil && f.rule.gamma == 0 && f.rule.ranked <= maxRanked
	for i := range n {
		alpha := f.alpha[(lo+i)*m : (lo+i+1)*m]
		s.inner[i], s.own[i] = dotColumn(alpha, s.batch[i:], n), s.batch[int(f.class[lo+i])*n+i]
	}
	if together {
		f.rule.values(s.batch[:m*n], s.own[:n], f.class[lo:hi])
	}
	for i := range n {
		row := lo + i
		alpha, y, weight := f.alpha[row*m:(row+1)*m], int(f.class[row]), f.p.Weight(row)
		var value float64
		if together {
			value = s.batch[i]
		} else {
			for c := range s.scores {
				s.scores[c] = s.batch[c*n+i]
			}
			value = f.rule.eval(s.v, s.scores, y, s)
		}
		conjugate := f.rule.conjugate(alpha, y)
		sums[0] += weight * value
		sums[1] -= weight * conjugate
		f.gap[row] = weight * max(value+s.inner[i]+conjugate, 0)
		if f.move != nil {
			sums[2] += weight * f.direct(f.move[row*m:(row+1)*m], alpha, s.scores, y, s)
		}
	}
}

// dotColumn returns Σ_c x[c]·o[c·stride].
func dotColumn(x, o []float64, stride int) float64 {
	even, odd := 0.0, 0.0
	c := 0
	for ; c+1 < len(x); c += 2 {
		even += x[c] * o[c*stride]
		odd += x[c+1] * o[(c+1)*stride]
	}
	if c < len(x) {
		even += x[c] * o[c*stride]
	}
	return even + odd
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
