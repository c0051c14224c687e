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

// fit is the state of one call of SVM.Fit. It is one type: passes share the dual variables, and the sums over rows that
// belong to them.
type fit struct {
	memory
	p       *solver.Problem
	s       solver.Settings
	method  Method
	basis   *solver.Model // nil without
	workers parallel.Workers
	scratch []*scratch // by worker
	started time.Time

	// of p, or the activations of the basis with the columns fitted together with them, and a last column of ones for a
	// bias
	x       *solver.Rows
	columns columns // of x where it is not whole
	n, m    int
	rule    *rule
	class   []int32

	alpha  []float64   // n×m
	w      []float64   // columns of x × m: the sum over alpha
	parts  [][]float64 // the rows of w, views
	turned []float64   // w by class, m×columns of x, where x is whole: see turn
	// mixture is where the next evaluation takes the objective, nil for w; shown is where the last one did.
	mixture, shown []float64
	move           []float64 // n×m, of Frank–Wolfe: Δα
	step           []float64 // of the size of w: ΔW

	objective float64 // P there
	value     float64 // D there
	nothing   float64 // P without weights, of a rough fit
	linear    float64 // of Frank–Wolfe: ⟨∇D, Δα⟩
	sums      [][3]float64
	sweeps    int
	stuck     int

	best struct {
		w                []float64
		objective, value float64
	}
	result solver.Result
}

// rowBlock is the number of rows between two looks at the context.
const rowBlock = 256

// newFit returns a fit of rows of the given classes, without dual variables: see load.
func (a SVM) newFit(ctx context.Context, p *solver.Problem, class []int32, s solver.Settings) *fit {
	if s.Now == nil {
		s.Now = time.Now
	}
	size := s.Workers
	if size == 0 {
		size = runtime.GOMAXPROCS(0)
	}
	f := &fit{
		memory:  memoryOf(p.X.NumRows()),
		p:       p,
		s:       s,
		method:  a.Method,
		basis:   a.Basis,
		started: s.Now(),
		n:       p.X.NumRows(),
		m:       p.Outputs,
		class:   class,
		workers: parallel.Workers{Size: size, Pause: s.Yield, Done: ctx.Done()},
	}
	f.rule = p.Loss.(Loss).rule(f.m)
	for range size {
		f.scratch = append(f.scratch, newScratch(f.m))
	}
	f.x = f.rows()
	if f.fill(); len(f.whole) == 0 {
		f.columns = columnsOf(f.x)
	}
	if s.Rough {
		none := f.scratch[0].scores
		clear(none)
		for i, y := range f.class {
			f.nothing += p.Weight(i) * f.rule.eval(f.scratch[0].v, none, int(y), f.scratch[0])
		}
	}
	f.parts = make([][]float64, f.x.NumColumns)
	f.setWeights(make([]float64, f.x.NumColumns*f.m))
	f.sums = make([][3]float64, (f.n+rowBlock-1)/rowBlock)
	f.best.w = make([]float64, len(f.w))
	f.best.objective, f.best.value = math.Inf(1), math.Inf(-1)
	if f.method != BlockAscent {
		f.move, f.step = make([]float64, f.n*f.m), make([]float64, len(f.w))
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

// load takes over dual variables, 0 for nil, those rows that the loss does not allow projected: max −½‖v + α‖²
// over v is the envelope at −α without costs.
func (f *fit) load(dual []float64) error {
	if dual == nil {
		f.alpha = make([]float64, f.n*f.m)
		return nil
	}
	if !(dense.Dot(dual, dual) <= maxDual*maxDual) { // mostly says it of all
		for i, x := range dual {
			if !(math.Abs(x) <= maxDual) {
				return fmt.Errorf("%w: warm start: dual variable %d of row %d is %g", solver.ErrSettings, i%f.m, i/f.m,
					x)
			}
		}
	}
	f.alpha = append([]float64(nil), dual...) // which does not clear it first
	f.workers.Blocks(f.n, rowBlock, func(worker, _, lo, hi int) {
		s := f.scratch[worker]
		for i := lo; i < hi; i++ {
			if alpha := f.alpha[i*f.m : (i+1)*f.m]; !f.rule.allows(alpha, int(f.class[i]), s) {
				f.rule.project(alpha, alpha, int(f.class[i]), s)
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

// evaluate sets objective, dual value and the gap of each row at the current point, or the objective at a mixture, and,
// for Frank–Wolfe, the direction to the vertices that the gap points to.
func (f *fit) evaluate() {
	own, dualRidge := f.w, f.ridge()
	if f.mixture != nil {
		f.setWeights(f.mixture)
		f.mixture = nil
	}
	f.turn()
	total := f.evaluateRows(f.all)
	f.objective, f.value, f.linear = total[0]+f.ridge(), total[1]-dualRidge, total[2]
	f.shown = f.w
	f.setWeights(own)
}

// evaluateRows sets the gaps of rows at W, which is turned, and returns the sums over them of their losses, of less
// their conjugates, and of linear.
func (f *fit) evaluateRows(rows []int32) (total [3]float64) {
	f.workers.Blocks(len(rows), rowBlock, func(worker, b, lo, hi int) {
		f.sums[b] = [3]float64{}
		for first := lo; first < hi; first += scoreBatch {
			f.evaluateBatch(rows[first:min(first+scoreBatch, hi)], &f.sums[b], f.scratch[worker])
		}
	})
	for _, part := range f.sums[:(len(rows)+rowBlock-1)/rowBlock] {
		for k, x := range part {
			total[k] += x
		}
	}
	return total
}

// evaluateBatch adds what at most scoreBatch rows have in the sums, and sets their gaps: Φ, ⟨α, o⟩ and the
// conjugate of Φ at −α.
func (f *fit) evaluateBatch(rows []int32, sums *[3]float64, s *scratch) {
	m, n := f.m, len(rows)
	block, batch, class := f.scoresOf(rows, s), s.batch[:m*n], s.class[:n]
	for k, i := range rows {
		scores, y := block[k*m:(k+1)*m], f.class[i]
		s.inner[k], s.own[k], class[k] = turnRow(batch[k:], n, scores, f.alpha[int(i)*m:int(i+1)*m]), scores[y], y
	}
	together := f.move == nil && f.rule.plain && f.rule.ranked <= maxRanked
	if together {
		f.rule.values(batch, s.own[:n], class)
	}
	for k, i := range rows {
		row, y, scores := int(i), int(class[k]), block[k*m:(k+1)*m]
		alpha, weight := f.alpha[row*m:(row+1)*m], f.p.Weight(row)
		var value float64
		if together {
			value = batch[k]
		} else {
			value = f.rule.eval(s.v, scores, y, s)
		}
		conjugate := f.rule.conjugate(alpha, y)
		sums[0] += weight * value
		sums[1] -= weight * conjugate
		gap := value + s.inner[k] + conjugate
		if gap < 0 { // by rounding
			gap = 0
		}
		f.gap[row] = weight * gap
		if f.move != nil {
			sums[2] += weight * f.direct(f.move[row*m:(row+1)*m], alpha, scores, y, s)
		}
	}
}

// turnRow stores o in a column of dst, dst[c·stride], and returns ⟨x, o⟩.
func turnRow(dst []float64, stride int, o, x []float64) float64 {
	even, odd := 0.0, 0.0
	c, at := 0, 0
	x = x[:len(o)]
	for ; c+1 < len(o); c += 2 {
		p, q := o[c], o[c+1]
		dst[at], dst[at+stride] = p, q
		even += x[c] * p
		odd += x[c+1] * q
		at += 2 * stride
	}
	if c < len(o) {
		dst[at] = o[c]
		even += x[c] * o[c]
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
	step := solver.Step{
		Objective: f.objective,
		Gap:       math.Max(f.objective-f.value, 0),
		Seconds:   f.s.Now().Sub(f.started).Seconds(),
	}
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

// statusOf returns the status that a done context means.
func statusOf(ctx context.Context) solver.Status {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return solver.TimeBudget
	}
	return solver.Interrupted
}
