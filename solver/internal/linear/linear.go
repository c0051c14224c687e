package linear

import (
	"math"
	"slices"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

// LinearFit fits one linear term and bias per output on top of the predictions of the basis:
//
//	min_{W,b} Σ_i w_i ℓ(t_i, offset_i + W'x_i + b) + ½ ridge ‖W‖² + ½ BiasRidge ‖b‖²
//
// A separate, lightly ridge-penalised linear term beats folding it into the interactions by a constant feature, where
// the penalty of the basis shrinks it too (ML-100k: RMSE 0.930 against 0.950). It runs L-BFGS (Liu and Nocedal 1989) in
// coordinates scaled by the diagonal of a bound of the Hessian. A step takes one pass over the rows, which gathers the
// predictions of the direction, evaluates the loss and scatters the gradients while a tile of them is in the caches.
type LinearFit struct {
	p         *problem.Problem
	Ridge     float64 // 0: no linear term
	BiasRidge float64 // 0: no bias
	Workers   parallel.Workers

	Theta []float64 // d×m feature-major linear weights, then m biases
	scale []float64 // sqrt of the diagonal, same length
	// In tiles, see ToTiles; minimize takes the predictions of the basis in pred and leaves those of the whole model
	// there.
	Pred   []float64 // n×m
	trial  []float64 // n×m predictions at the trial point
	move   []float64 // n×m predictions of the direction
	Target []float64 // n×m

	columns [][]float64 // of JointWeights, made when they are first asked for

	Memory     output.Bfgs // in scaled coordinates
	BiasMemory output.Bfgs // of SettleBias, in units of the root of its bound

	size     int // rows per block, a multiple of FitTile
	partials [][]float64
	Scratch  []output.FitScratch
}

func NewLinearFit(p *problem.Problem, ridge, biasRidge float64, workers parallel.Workers) *LinearFit {
	n, d, m := p.X.NumRows(), p.X.NumColumns, p.Outputs
	f := &LinearFit{p: p, Ridge: ridge, BiasRidge: biasRidge, Workers: workers}
	f.Theta = make([]float64, d*m+m)
	f.scale = make([]float64, d*m+m)
	f.Pred = make([]float64, n*m)
	f.size = max(gamma.MinGammaBlock, (n+gamma.GammaBlocks-1)/gamma.GammaBlocks)
	f.size = (f.size + loss.FitTile - 1) / loss.FitTile * loss.FitTile
	f.Scratch = output.NewFitScratch(p, workers.Size)
	f.partials = make([][]float64, (n+f.size-1)/f.size)
	// Half the curvature bound is closer to the Hessian than the bound; L-BFGS corrects the rest.
	curvature := 0.5 * p.Loss.Curvature(m)
	total := 0.0
	for i := range n {
		index, value := p.X.Row(i)
		w := p.Weight(i)
		total += w
		for e, j := range index {
			f.scale[int(j)*m] += w * value[e] * value[e]
		}
	}
	for j := range d {
		s := math.Sqrt(curvature*f.scale[j*m] + ridge)
		for c := range m {
			f.scale[j*m+c] = s
		}
	}
	for c := range m {
		f.scale[d*m+c] = math.Sqrt(curvature*total + biasRidge)
	}
	for i, s := range f.scale {
		if s == 0 { // an empty column without ridge: its gradient is 0 as well
			f.scale[i] = 1
		}
	}
	return f
}

// Idle reports whether there is neither a linear term nor a bias to fit.
func (f *LinearFit) Idle() bool { return f.Ridge == 0 && f.BiasRidge == 0 }

// Penalty returns the ridge terms of the objective.
func (f *LinearFit) Penalty() float64 { return f.RidgeOf(f.Theta, f.Theta) }

// ridgeOf returns ½ Σ α a b over both blocks.
func (f *LinearFit) RidgeOf(a, b []float64) float64 {
	split := len(a) - f.p.Outputs
	return 0.5 * (f.Ridge*floats.Dot(a[:split], b[:split]) + f.BiasRidge*floats.Dot(a[split:], b[split:]))
}

// JointColumns is how many columns a linear term may have to be fitted together with the output weights, as dense
// columns.
const JointColumns = 40

// Joint returns what is fitted together with the output weights: the bias and a linear term of few columns; nil if
// neither is fitted. It takes what they predict out of offset (n×m), the predictions of the linear term and the bias.
// The weights alias theta.
func (f *LinearFit) Joint(offset []float64) *output.JointWeights {
	d, m, n := f.p.X.NumColumns, f.p.Outputs, f.p.X.NumRows()
	linear := f.Ridge > 0 && f.BiasRidge > 0 && d <= JointColumns
	if f.BiasRidge == 0 {
		return nil
	}
	b := &output.JointWeights{Ridges: []float64{f.BiasRidge}, Weights: f.Theta[d*m:]}
	if f.columns == nil {
		f.columns = [][]float64{slices.Repeat([]float64{1}, n)}
		if linear {
			f.columns = append(f.p.X.Columns(), f.columns...)
		}
	}
	b.Columns = f.columns
	if linear {
		b.Ridges, b.Weights = append(slices.Repeat([]float64{f.Ridge}, d), f.BiasRidge), f.Theta
		clear(offset)
		return b
	}
	f.Workers.Blocks(n, f.size, func(_, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			floats.Sub(offset[i*m:i*m+m], b.Weights)
		}
	})
	return b
}

// PredictTo stores the predictions of theta (linear term and bias alone) in dst (n×m).
func (f *LinearFit) PredictTo(dst, theta []float64) {
	m := f.p.Outputs
	f.Workers.Blocks(f.p.X.NumRows(), f.size, func(_, _, lo, hi int) {
		if m == 1 && f.Ridge != 0 { // the same, without slices of one number
			bias := theta[len(theta)-1]
			for i := lo; i < hi; i++ {
				sum := bias
				index, value := f.p.X.Row(i)
				value = value[:len(index)]
				for e, j := range index {
					sum += value[e] * theta[j]
				}
				dst[i] = sum
			}
			return
		}
		for i := lo; i < hi; i++ {
			f.predictRow(dst[i*m:i*m+m], theta, i)
		}
	})
}

// manyOutputs is from how many outputs on a call for the numbers of a row pays.
const manyOutputs = 12

// predictRow stores the predictions of theta for row i in dst (m).
func (f *LinearFit) predictRow(dst, theta []float64, i int) {
	m := len(dst)
	copy(dst, theta[len(theta)-m:])
	if f.Ridge == 0 {
		return
	}
	index, value := f.p.X.Row(i)
	value = value[:len(index)]
	if m >= manyOutputs {
		for e, j := range index {
			dense.AddScaled(dst, value[e], theta[int(j)*m:int(j)*m+m])
		}
		return
	}
	for e, j := range index {
		x, row := value[e], theta[int(j)*m:int(j)*m+m]
		row = row[:len(dst)]
		for c, w := range row {
			dst[c] += x * w
		}
	}
}

// addRow adds to sum, laid out like theta, the part of row i in the gradient, given the loss gradients g of the row
// (m).
func (f *LinearFit) addRow(sum, g []float64, i int) {
	m := len(g)
	bias := sum[len(sum)-m:]
	bias = bias[:len(g)]
	for c, x := range g {
		bias[c] += x
	}
	if f.Ridge == 0 {
		return
	}
	index, value := f.p.X.Row(i)
	value = value[:len(index)]
	if m >= manyOutputs {
		for e, j := range index {
			dense.AddScaled(sum[int(j)*m:int(j)*m+m], value[e], g)
		}
		return
	}
	for e, j := range index {
		x, row := value[e], sum[int(j)*m:int(j)*m+m]
		row = row[:len(g)]
		for c, y := range g {
			row[c] += x * y
		}
	}
}

// gradientTo stores in dst the gradient of the objective in theta, given the weighted loss gradients of the rows (n×m).
func (f *LinearFit) GradientTo(dst, rows []float64) {
	f.sumRows(dst, rows)
	f.AddRidge(dst)
}

// sumRows stores in dst, laid out like theta, the sums of the rows' columns times numbers of the rows (n×m).
func (f *LinearFit) sumRows(dst, rows []float64) {
	m := f.p.Outputs
	f.Workers.Blocks(f.p.X.NumRows(), f.size, func(_, b, lo, hi int) {
		f.partials[b] = problem.Room(f.partials[b], len(dst))
		if sum := f.partials[b]; m == 1 && f.Ridge != 0 { // as in PredictTo
			bias := len(sum) - 1
			for i := lo; i < hi; i++ {
				g := rows[i]
				sum[bias] += g
				index, value := f.p.X.Row(i)
				value = value[:len(index)]
				for e, j := range index {
					sum[j] += value[e] * g
				}
			}
			return
		}
		for i := lo; i < hi; i++ {
			f.addRow(f.partials[b], rows[i*m:i*m+m], i)
		}
	})
	clear(dst)
	parallel.SumInto(dst, f.partials)
}

// Pass evaluates the loss at pred + step·move, stores those predictions in trial and returns the loss and, in dst, the
// gradient of the loss in theta. The predictions move are first gathered from direction unless it is nil.
func (f *LinearFit) Pass(dst, direction []float64, step float64) float64 {
	m, size := f.p.Outputs, len(f.Theta)
	f.Workers.Blocks(f.p.X.NumRows(), f.size, func(worker, b, lo, hi int) {
		f.partials[b] = problem.Room(f.partials[b], size+1)
		sum, work := f.partials[b][:size], &f.Scratch[worker]
		for ; lo < hi && f.Workers.Yield(); lo += loss.FitTile { // blocks are large
			n := min(hi-lo, loss.FitTile)
			move, trial := f.move[lo*m:(lo+n)*m], f.trial[lo*m:(lo+n)*m]
			row, grad := work.Row, work.Tile[:n*m]
			if direction != nil {
				f.gather(move, direction, row, lo, n)
			}
			for i, x := range f.Pred[lo*m : (lo+n)*m] {
				trial[i] = x + step*move[i]
			}
			var weight []float64
			if f.p.Weights != nil {
				weight = f.p.Weights[lo : lo+n]
			}
			f.partials[b][size] += work.Loss.Eval(grad, trial, f.Target[lo*m:(lo+n)*m], weight, n)
			f.scatter(sum, grad, row, lo, n)
		}
	})
	total := make([]float64, size+1)
	parallel.SumInto(total, f.partials)
	copy(dst, total)
	return total[size]
}

// gather stores the predictions of theta for the tile of n rows that starts at lo in dst. Row is scratch memory (m).
func (f *LinearFit) gather(dst, theta, row []float64, lo, n int) {
	if len(row) == 4 && f.Ridge > 0 {
		f.gather4(dst, theta, lo, n)
		return
	}
	for i := range n {
		f.predictRow(row, theta, lo+i)
		for c, x := range row {
			dst[c*n+i] = x
		}
	}
}

// scatter adds to sum, laid out like theta, the gradient of the tile of n rows that starts at lo, given the loss
// gradients of the tile.
func (f *LinearFit) scatter(sum, grad, row []float64, lo, n int) {
	if len(row) == 4 && f.Ridge > 0 {
		f.scatter4(sum, grad, lo, n)
		return
	}
	for i := range n {
		for c := range row {
			row[c] = grad[c*n+i]
		}
		f.addRow(sum, row, lo+i)
	}
}

// AddRidge completes a gradient of the loss to one of the objective.
func (f *LinearFit) AddRidge(dst []float64) {
	f.ClearFixed(dst)
	split := len(dst) - f.p.Outputs
	floats.AddScaled(dst[:split], f.Ridge, f.Theta[:split])
	floats.AddScaled(dst[split:], f.BiasRidge, f.Theta[split:])
}

// ClearFixed clears what belongs to a linear term or a bias that is left out.
func (f *LinearFit) ClearFixed(dst []float64) {
	split := len(dst) - f.p.Outputs
	if f.Ridge == 0 {
		clear(dst[:split])
	}
	if f.BiasRidge == 0 {
		clear(dst[split:])
	}
}

// Minimize improves theta until the decrease the quadratic model promises is below tolerance·objective, and returns the
// iterations used. The curvature pairs of the last call are kept: warm starts begin near the same minimum. When the
// solve is cancelled, theta stays at the last point that was evaluated whole.
func (f *LinearFit) Minimize(tolerance float64, iterations int) int {
	if f.Idle() || f.Workers.Cancelled() {
		return 0
	}
	size, n, m := len(f.Theta), f.p.X.NumRows(), f.p.Outputs
	if f.trial == nil {
		f.trial, f.move = make([]float64, n*m), make([]float64, n*m)
	}
	if f.Target == nil {
		f.Target = make([]float64, n*m)
		loss.ToTiles(f.Target, f.p.Targets, m, 0, n)
	}
	gradient, trialGradient := make([]float64, size), make([]float64, size)
	direction := make([]float64, size)
	value := f.Pass(gradient, f.Theta, 1) + f.Penalty()
	if f.Workers.Cancelled() {
		return 0
	}
	f.Pred, f.trial = f.trial, f.Pred
	f.toScaled(gradient)
	for iteration := range iterations {
		f.Memory.Direction(direction, gradient)
		slope := floats.Dot(direction, gradient)
		if !(slope < 0) { // rounding left no descent: start over from the scaled gradient
			f.Memory = output.Bfgs{}
			f.Memory.Direction(direction, gradient)
			slope = floats.Dot(direction, gradient)
		}
		if !(-slope > tolerance*math.Abs(value)) {
			return iteration
		}
		floats.Div(direction, f.scale) // now in the original coordinates
		cross, square := 2*f.RidgeOf(f.Theta, direction), f.RidgeOf(direction, direction)
		ridge := f.Penalty()
		gather := direction
		step := 1.0
		for ; ; step /= 2 {
			trial := f.Pass(trialGradient, gather, step) + ridge + step*cross + step*step*square
			if f.Workers.Cancelled() {
				return iteration
			}
			gather = nil
			if trial <= value+1e-4*step*slope {
				value = trial
				break
			}
			if step < 1e-6 {
				return iteration
			}
		}
		floats.AddScaled(f.Theta, step, direction)
		f.Pred, f.trial = f.trial, f.Pred
		f.toScaled(trialGradient)
		floats.Mul(direction, f.scale)
		floats.Scale(step, direction)
		f.Memory.Remember(direction, trialGradient, gradient)
		gradient, trialGradient = trialGradient, gradient
	}
	return iterations
}

// toScaled turns a gradient of the loss into one of the objective in scaled coordinates.
func (f *LinearFit) toScaled(gradient []float64) {
	f.AddRidge(gradient)
	floats.Div(gradient, f.scale)
}

const (
	// settlePasses bounds SettleBias, which takes two or three.
	settlePasses = 25
	// SettleShare leaves the rest of the tolerance to the other parts of the gap.
	SettleShare = 0.1
)

// SettleBias evaluates the loss at pred (n×m, the predictions of the whole model), stores the weighted gradients in
// grad and moves the bias, in theta and pred, until its part ‖∇_b‖²/2α of the gap is below SettleShare of
// tolerance·loss: with the small ridge α of the bias, a gradient that no fit of the rest would notice makes the gap
// useless. It runs L-BFGS, which keeps its state from call to call, with steps that are not searched along: where the
// gradient is twice the least so far it starts anew, with a step over a bound of the Hessian, which cannot fail. It
// returns the loss.
func (f *LinearFit) SettleBias(pred, grad []float64, tolerance float64) float64 {
	m, n := f.p.Outputs, f.p.X.NumRows()
	loss := RowLosses(f.Workers, f.p, pred, grad)
	if f.BiasRidge == 0 {
		return loss
	}
	bias := f.Theta[len(f.Theta)-m:]
	bound := f.BiasRidge
	for i := range n {
		bound += f.p.Weight(i) * f.p.Loss.Curvature(m)
	}
	unit := math.Sqrt(bound)
	gradient, last, step := make([]float64, m), make([]float64, m), make([]float64, m)
	least := math.Inf(1)
	for pass := range settlePasses {
		copy(gradient, bias)
		floats.Scale(f.BiasRidge, gradient)
		for i := 0; i < len(grad); i += m {
			for c, g := range grad[i : i+m] {
				gradient[c] += g
			}
		}
		norm := dense.Norm2(gradient)
		if norm*norm <= 2*f.BiasRidge*SettleShare*tolerance*loss || f.Workers.Cancelled() {
			break
		}
		floats.Scale(1/unit, gradient)
		switch {
		case !(norm < 2*least):
			f.BiasMemory = output.Bfgs{}
		case pass > 0:
			floats.Scale(unit, step)
			f.BiasMemory.Remember(step, gradient, last)
		}
		f.BiasMemory.Direction(step, gradient)
		if !(floats.Dot(step, gradient) < 0) {
			f.BiasMemory = output.Bfgs{}
			f.BiasMemory.Direction(step, gradient)
		}
		copy(last, gradient)
		least = min(least, norm)
		floats.Scale(1/unit, step)
		floats.Add(bias, step)
		for i := 0; i < len(pred); i += m {
			for c, s := range step {
				pred[i+c] += s
			}
		}
		loss = RowLosses(f.Workers, f.p, pred, grad)
	}
	return loss
}

// RowLosses returns Σ_i w_i ℓ(t_i, pred_i) and stores the weighted gradients in grad (n×m).
func RowLosses(workers parallel.Workers, p *problem.Problem, pred, grad []float64) float64 {
	n, m := p.X.NumRows(), p.Outputs
	sums := make([]float64, problem.NumBlocks(n))
	scratch := output.NewFitScratch(p, workers.Size)
	workers.Blocks(n, problem.RowBlock(n), func(worker, b, lo, hi int) {
		work := &scratch[worker]
		if work.Target == nil {
			work.Target = make([]float64, loss.FitTile*m)
		}
		for ; lo < hi; lo += loss.FitTile {
			size := min(hi-lo, loss.FitTile)
			tile, target := work.Tile[:size*m], work.Target[:size*m]
			loss.ToTiles(tile, pred[lo*m:(lo+size)*m], m, 0, size)
			loss.ToTiles(target, p.Targets[lo*m:(lo+size)*m], m, 0, size)
			var weight []float64
			if p.Weights != nil {
				weight = p.Weights[lo : lo+size]
			}
			sums[b] += work.Loss.Eval(tile, tile, target, weight, size)
			loss.FromTile(grad[lo*m:(lo+size)*m], tile, m, size)
		}
	})
	return floats.Sum(sums)
}
