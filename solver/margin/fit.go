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
	columns columns
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
	f.columns = columnsOf(f.x)
	f.class, f.square = make([]int32, f.n), make([]float64, f.n)
	for i := range f.n {
		f.class[i] = int32(classOf(p.Target(i)))
		_, value := f.x.Row(i)
		for _, x := range value {
			f.square[i] += x * x
		}
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

// rows returns what the weights are over.
func (f *fit) rows() *solver.Rows {
	bias := 0
	if f.s.BiasRidge > 0 {
		bias = 1
	}
	if f.basis == nil && bias == 0 {
		return f.p.X
	}
	k, own := 0, f.p.X.NumColumns
	var phi, work []float64
	if f.basis != nil {
		if k = f.basis.NumBasis; f.s.LinearRidge == 0 {
			own = 0
		}
		phi, work = make([]float64, k), make([]float64, k)
	}
	x := solver.NewRows(k+own+bias, f.n, len(f.p.X.Value)+(k+bias)*f.n)
	var columns []int32
	var values []float64
	for i := range f.n {
		index, value := f.p.X.Row(i)
		columns, values = columns[:0], values[:0]
		if k > 0 {
			f.basis.Activations(phi, work, index, value)
			for r, v := range phi {
				columns, values = append(columns, int32(r)), append(values, v)
			}
		}
		if own > 0 {
			for e, j := range index {
				columns, values = append(columns, int32(k)+j), append(values, value[e])
			}
		}
		if bias > 0 {
			columns, values = append(columns, int32(k+own)), append(values, 1)
		}
		x.Append(columns, values)
	}
	return x
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

// load takes over dual variables, each row projected onto what the loss allows: max −½‖v + α‖² over v is the envelope at −α without costs.
func (f *fit) load(dual []float64) error {
	for i, x := range dual {
		if !(math.Abs(x) <= maxDual) {
			return fmt.Errorf("%w: warm start: dual variable %d of row %d is %g", solver.ErrSettings, i%f.m, i/f.m, x)
		}
	}
	f.workers.Blocks(f.n, rowBlock, func(worker, _, lo, hi int) {
		s := f.scratch[worker]
		for i := lo; i < hi; i++ {
			f.rule.project(f.alpha[i*f.m:(i+1)*f.m], dual[i*f.m:(i+1)*f.m], int(f.class[i]), s)
		}
	})
	return nil
}

// maxDual bounds dual variables, which are at most a sum of weights.
const maxDual = 1e12

// scores stores W'x_i in dst.
func (f *fit) scores(dst []float64, i int, s *scratch) {
	s.visits++
	clear(dst)
	index, value := f.x.Row(i)
	parts := f.parts
	if len(index) < len(parts) {
		s.parts = s.parts[:0]
		for _, j := range index {
			s.parts = append(s.parts, f.parts[j])
		}
		parts = s.parts
	}
	dense.MulAdd(dst, f.m, parts, 0, f.m, value, 1)
}

// shift adds x_i v' to W.
func (f *fit) shift(i int, v []float64, s *scratch) {
	m := f.m
	index, value := f.x.Row(i)
	if len(index) == len(f.parts) {
		s.parts = append(s.parts[:0], v)
		dense.MulAdd(f.w, m, s.parts, 0, m, value, len(index))
		return
	}
	for e, j := range index {
		dense.AddScaled(f.parts[j], value[e], v)
	}
}

// setWeights puts other weights in the place of W.
func (f *fit) setWeights(w []float64) {
	f.w = w
	for j := range f.parts {
		f.parts[j] = w[j*f.m : (j+1)*f.m]
	}
}

// sum makes W from α.
func (f *fit) sum() { f.sumTo(f.w, f.alpha) }

// sumTo stores (1/Λ) Σ_i w_i x_i a_i' in dst.
func (f *fit) sumTo(dst, a []float64) {
	m := f.m
	f.workers.Blocks(f.x.NumColumns, max(1, rowBlock*len(dst)/m/max(1, len(f.x.Value))), func(_, _, lo, hi int) {
		clear(dst[lo*m : hi*m])
		for j := lo; j < hi; j++ {
			to := dst[j*m : (j+1)*m]
			rows, values := f.columns.column(j)
			for e, i := range rows {
				dense.AddScaled(to, values[e]*f.p.Weight(int(i))/f.s.Lambda, a[int(i)*m:(int(i)+1)*m])
			}
		}
	})
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
			weight := f.p.Weight(i)
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

// row returns Φ, ⟨α, o⟩ and the conjugate of Φ at −α of a row, which add up to its part in the gap, and leaves its scores o in s.
func (f *fit) row(i int, s *scratch) (loss, inner, conjugate float64) {
	alpha, y, o := f.alpha[i*f.m:(i+1)*f.m], int(f.class[i]), s.scores
	f.scores(o, i, s)
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

// columns are the entries of rows by column.
type columns struct {
	start []int
	row   []int32
	value []float64
}

func columnsOf(x *solver.Rows) columns {
	c := columns{make([]int, x.NumColumns+2), make([]int32, len(x.Index)), make([]float64, len(x.Index))}
	for _, j := range x.Index {
		c.start[j+2]++
	}
	for j := range x.NumColumns {
		c.start[j+2] += c.start[j+1]
	}
	for i := range x.NumRows() {
		index, value := x.Row(i)
		for e, j := range index {
			at := c.start[j+1]
			c.row[at], c.value[at] = int32(i), value[e]
			c.start[j+1]++
		}
	}
	return c
}

func (c *columns) column(j int) (rows []int32, values []float64) {
	return c.row[c.start[j]:c.start[j+1]], c.value[c.start[j]:c.start[j+1]]
}
