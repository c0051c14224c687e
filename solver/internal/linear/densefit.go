package linear

import (
	"fmt"
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// DenseFit fits linear weights of k dense columns and a bias on top of given outputs:
//
//	min_{W,b} Σ_i w_i ℓ(t_i, offset_i + W'z_i + b) + ½ ridge ‖W‖² + ½ BiasRidge ‖b‖²
//
// It runs L-BFGS in coordinates in which half the bound L·Z'diag(w)Z of the Hessian, L the curvature of the loss, is
// the identity (Böhning 1992): columns of a feature map are far from orthogonal. Forming it costs O(n k²) once, an
// iteration O(n k m). It belongs to one goroutine, and starts the workers of its Settings; results do not depend on how
// many.
type DenseFit struct {
	p         *problem.Problem // X has no part in it
	workers   parallel.Workers
	BiasRidge float64
	tolerance float64
	limit     int

	K       int       // columns, the constant not counted
	columns []float64 // (k+1)×n, column after column, the last one all ones
	views   [][]float64
	gram    []float64 // (k+1)×(k+1), half the bound

	offset, target []float64 // n×m in tiles, see ToTiles
	pred           []float64 // of offset and theta
	move, trial    []float64
	Theta          []float64 // (k+1)×m: W, then b
	factor         blas64.Triangular
	ridge          float64
	value          float64 // of the objective at theta
	converged      bool
	scratch        []output.FitScratch
	partials       [][]float64
	memory         output.Bfgs
}

// NewDenseFit returns a fit for the rows of p with all columns and weights zero. The span of the limits is not used.
func NewDenseFit(p *problem.Problem, offset []float64, columns int, workers parallel.Workers, biasRidge float64,
	limits output.FitLimits) *DenseFit {
	n, m := p.X.NumRows(), p.Outputs
	if len(offset) != n*m || len(p.Targets) != n*m || columns < 1 {
		panic(
			fmt.Sprintf("solver: %d offsets and %d targets for %d rows of %d outputs, %d columns", len(offset),
				len(p.Targets), n, m, columns),
		)
	}
	f := &DenseFit{
		p:         p,
		workers:   workers,
		BiasRidge: biasRidge,
		tolerance: limits.Tolerance,
		limit:     limits.Iterations,
		K:         columns,
		value:     math.NaN(),
	}
	f.columns, f.Theta = make([]float64, (columns+1)*n), make([]float64, (columns+1)*m)
	for j := range columns + 1 {
		f.views = append(f.views, f.columns[j*n:(j+1)*n])
	}
	for i := range f.views[columns] {
		f.views[columns][i] = 1
	}
	f.offset, f.target, f.pred = make([]float64, n*m), make([]float64, n*m), make([]float64, n*m)
	f.move, f.trial = make([]float64, n*m), make([]float64, n*m)
	loss.ToTiles(f.offset, offset, m, 0, n)
	loss.ToTiles(f.target, p.Targets, m, 0, n)
	f.scratch = output.NewFitScratch(p, f.workers.Size)
	f.partials = make([][]float64, problem.NumBlocks(n))
	return f
}

// SetRow sets the k columns of row i.
func (f *DenseFit) SetRow(i int, values []float64) {
	for j, x := range values[:f.K] {
		f.views[j][i] = x
	}
}

// Weights returns W, k×m row-major, and b. The slices alias the fit.
func (f *DenseFit) Weights() (weights, bias []float64) {
	split := f.K * f.p.Outputs
	return f.Theta[:split], f.Theta[split:]
}

// Objective returns the value of the objective where the last Fit ended, NaN before the first, and whether it ended
// within Tolerance of the minimum, or as near as rounding lets it, rather than after MaxIterations.
func (f *DenseFit) Objective() (value float64, converged bool) { return f.value, f.converged }

// Fit moves W and b from where they are, or from zero if the objective is less there, to the minimum for a ridge,
// positive, until the decrease that the quadratic model promises is below Tolerance of the objective, for MaxIterations
// at most. It reports false, with W and b as before, if ctx was done or the bound could not be factored, which finite
// columns and row weights never lead to.
func (f *DenseFit) Fit(ridge float64) bool {
	if f.gram == nil {
		f.gram = f.Bound()
	}
	before := append([]float64(nil), f.Theta...)
	if !f.workers.Cancelled() && f.prepare(ridge) && f.minimize() {
		return true
	}
	copy(f.Theta, before)
	return false
}

// Bound returns half the bound of the Hessian, without the ridges, in its upper triangle. It is formed in blocks of its
// rows, each a sum over all rows of the problem in order.
func (f *DenseFit) Bound() []float64 {
	n, width := f.p.X.NumRows(), f.K+1
	total := make([]float64, width*width)
	f.workers.Blocks(width, gamma.BoundColumns, func(_, _, first, end int) {
		sum := make([]float64, (end-first)*(width-first))
		tile := make([]float64, (end-first)*loss.FitTile)
		views := make([][]float64, end-first)
		for lo := 0; lo < n && f.workers.Yield(); lo += loss.FitTile {
			rows := min(n-lo, loss.FitTile)
			for j := range views {
				views[j] = tile[j*loss.FitTile : j*loss.FitTile+rows]
				copy(views[j], f.views[first+j][lo:lo+rows])
				if f.p.Weights != nil {
					floats.Mul(views[j], f.p.Weights[lo:lo+rows])
				}
			}
			dense.DotAdd(sum, views, 0, rows, f.columns[first*n+lo:], n, width-first)
		}
		for j := range views {
			copy(total[(first+j)*width+first:(first+j+1)*width], sum[j*(width-first):(j+1)*(width-first)])
		}
	})
	floats.Scale(0.5*f.p.Loss.Curvature(f.p.Outputs), total)
	return total
}

// prepare factors half the bound with the ridges: A = R'R.
func (f *DenseFit) prepare(ridge float64) bool {
	width := f.K + 1
	a := blas64.Symmetric{N: width, Stride: width, Data: append([]float64(nil), f.gram...), Uplo: blas.Upper}
	for j := range f.K {
		a.Data[j*width+j] += ridge
	}
	top := 0.0
	for j := range width {
		top = max(top, a.Data[j*width+j])
	}
	a.Data[width*width-1] += f.BiasRidge + 1e-12*top // rows of weight 0 alone have no bound
	var ok bool
	f.factor, ok = lapack64.Potrf(a)
	f.ridge, f.memory = ridge, output.Bfgs{}
	return ok
}

// solveScaled turns x ((k+1)×m) into R⁻ᵀx, of a gradient, or R⁻¹x, of a step back to weights.
func (f *DenseFit) solveScaled(trans blas.Transpose, x []float64) {
	m := f.p.Outputs
	blas64.Trsm(blas.Left, trans, 1, f.factor, blas64.General{Rows: f.K + 1, Cols: m, Stride: m, Data: x})
}

// ridgeOf returns Σ of the ridges times a·b.
func (f *DenseFit) ridgeOf(a, b []float64) float64 {
	split := f.K * f.p.Outputs
	return f.ridge*floats.Dot(a[:split], b[:split]) + f.BiasRidge*floats.Dot(a[split:], b[split:])
}

// pass evaluates the loss at pred + step·move, stores those predictions in trial and returns the loss and, in dst, the
// gradient of the objective but for its ridges. move is first made of direction unless that is nil.
func (f *DenseFit) pass(dst, direction []float64, step float64) float64 {
	m, size := f.p.Outputs, len(f.Theta)
	f.workers.Blocks(f.p.X.NumRows(), problem.RowBlock(f.p.X.NumRows()), func(worker, b, lo, hi int) {
		f.partials[b] = problem.Room(f.partials[b], size+1)
		work := &f.scratch[worker]
		for ; lo < hi; lo += loss.FitTile {
			n := min(hi-lo, loss.FitTile)
			move, trial, grad := f.move[lo*m:(lo+n)*m], f.trial[lo*m:(lo+n)*m], work.Tile[:n*m]
			if direction != nil {
				clear(move)
				dense.MulAdd(move, n, f.views, lo, n, direction, m)
			}
			for i, x := range f.pred[lo*m : (lo+n)*m] {
				trial[i] = x + step*move[i]
			}
			var weight []float64
			if f.p.Weights != nil {
				weight = f.p.Weights[lo : lo+n]
			}
			f.partials[b][size] += work.Loss.Eval(grad, trial, f.target[lo*m:(lo+n)*m], weight, n)
			dense.DotAdd(f.partials[b][:size], f.views, lo, n, grad, n, m)
		}
	})
	total := make([]float64, size+1)
	parallel.SumInto(total, f.partials)
	copy(dst, total)
	return total[size]
}

// complete adds the ridges to a gradient and turns it into scaled coordinates.
func (f *DenseFit) complete(gradient []float64) {
	split := f.K * f.p.Outputs
	floats.AddScaled(gradient[:split], f.ridge, f.Theta[:split])
	floats.AddScaled(gradient[split:], f.BiasRidge, f.Theta[split:])
	f.solveScaled(blas.Trans, gradient)
}

// minimize runs L-BFGS from theta and reports whether it was not called off.
func (f *DenseFit) minimize() bool {
	size := len(f.Theta)
	gradient, next, direction := make([]float64, size), make([]float64, size), make([]float64, size)
	step := make([]float64, size)
	copy(f.pred, f.offset)
	zero := f.pass(next, f.Theta, 0)
	value := f.pass(gradient, nil, 1) + 0.5*f.ridgeOf(f.Theta, f.Theta)
	f.converged = false
	if !(value < zero) {
		clear(f.Theta)
		value = f.pass(gradient, f.Theta, 1)
	}
	f.pred, f.trial = f.trial, f.pred
	f.complete(gradient)
	for range f.limit {
		f.memory.Direction(direction, gradient)
		slope := floats.Dot(direction, gradient)
		if f.workers.Cancelled() {
			break
		}
		if f.converged = !(-slope > f.tolerance*math.Abs(value)); f.converged {
			break
		}
		copy(step, direction)
		f.solveScaled(blas.NoTrans, step)
		length, moved := f.search(next, step, value, slope)
		if length == 0 {
			f.converged = !f.workers.Cancelled()
			break
		}
		value = moved
		floats.AddScaled(f.Theta, length, step)
		f.pred, f.trial = f.trial, f.pred
		f.complete(next)
		floats.Scale(length, direction)
		f.memory.Remember(direction, next, gradient)
		gradient, next = next, gradient
	}
	f.value = value
	return !f.workers.Cancelled() && !floats.HasNaN(f.Theta) && !math.IsInf(floats.Norm(f.Theta, math.Inf(1)), 0)
}

// search halves the length of a step until the objective falls as it should, and returns it with the objective there,
// or 0. The gradient of the loss there is in next.
func (f *DenseFit) search(next, step []float64, value, slope float64) (length, moved float64) {
	ridge, cross, square := 0.5*f.ridgeOf(f.Theta, f.Theta), f.ridgeOf(f.Theta, step), 0.5*f.ridgeOf(step, step)
	gather := step
	for length = 1; length > 1e-6; length /= 2 {
		moved = f.pass(next, gather, length) + ridge + length*cross + length*length*square
		if f.workers.Cancelled() {
			return 0, value
		}
		if moved <= value+1e-4*length*slope {
			return length, moved
		}
		gather = nil
	}
	return 0, value
}
