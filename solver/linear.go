package solver

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/solver/internal/dense"
)

// linearFit fits one linear term and bias per output on top of the predictions of the basis:
//
//	min_{W,b} Σ_i w_i ℓ(t_i, offset_i + W'x_i + b) + ½ ridge ‖W‖² + ½ biasRidge ‖b‖²
//
// A separate, lightly ridge-penalised linear term beats folding it into the interactions by a constant feature, where the penalty of the
// basis shrinks it too (ML-100k: RMSE 0.930 against 0.950). It runs L-BFGS (Liu and Nocedal 1989) in coordinates scaled by the diagonal of
// a bound of the Hessian. A step takes one pass over the rows, which gathers the predictions of the direction, evaluates the loss and
// scatters the gradients while a tile of them is in the caches.
type linearFit struct {
	p         *Problem
	ridge     float64 // 0: no linear term
	biasRidge float64 // 0: no bias
	workers   workers

	theta []float64 // d×m feature-major linear weights, then m biases
	scale []float64 // sqrt of the diagonal, same length
	// In tiles, see toTiles; minimize takes the predictions of the basis in pred and leaves those of the whole model there.
	pred   []float64 // n×m
	trial  []float64 // n×m predictions at the trial point
	move   []float64 // n×m predictions of the direction
	target []float64 // n×m

	columns [][]float64 // of besideWeights, made when they are first asked for

	memory     bfgs // in scaled coordinates
	biasMemory bfgs // of settleBias, in units of the root of its bound

	size     int // rows per block, a multiple of fitTile
	partials [][]float64
	scratch  []fitScratch
}

func newLinearFit(p *Problem, ridge, biasRidge float64, workers workers) *linearFit {
	n, d, m := p.X.NumRows(), p.X.NumColumns, p.Outputs
	f := &linearFit{p: p, ridge: ridge, biasRidge: biasRidge, workers: workers}
	f.theta = make([]float64, d*m+m)
	f.scale = make([]float64, d*m+m)
	f.pred = make([]float64, n*m)
	f.size = max(minGammaBlock, (n+gammaBlocks-1)/gammaBlocks)
	f.size = (f.size + fitTile - 1) / fitTile * fitTile
	f.scratch = newFitScratch(p, workers.size)
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

// idle reports whether there is neither a linear term nor a bias to fit.
func (f *linearFit) idle() bool { return f.ridge == 0 && f.biasRidge == 0 }

// penalty returns the ridge terms of the objective.
func (f *linearFit) penalty() float64 { return f.ridgeOf(f.theta, f.theta) }

// ridgeOf returns ½ Σ α a b over both blocks.
func (f *linearFit) ridgeOf(a, b []float64) float64 {
	split := len(a) - f.p.Outputs
	return 0.5 * (f.ridge*floats.Dot(a[:split], b[:split]) + f.biasRidge*floats.Dot(a[split:], b[split:]))
}

// jointColumns is how many columns a linear term may have to be fitted together with the output weights, as dense columns.
const jointColumns = 40

// beside returns what is fitted together with the output weights: the bias and a linear term of few columns; nil if
// neither is fitted. It takes what they predict out of offset (n×m), the predictions of the linear term and the bias.
// The weights alias theta.
func (f *linearFit) beside(offset []float64) *besideWeights {
	d, m, n := f.p.X.NumColumns, f.p.Outputs, f.p.X.NumRows()
	linear := f.ridge > 0 && f.biasRidge > 0 && d <= jointColumns
	if f.biasRidge == 0 {
		return nil
	}
	b := &besideWeights{ridges: []float64{f.biasRidge}, weights: f.theta[d*m:]}
	if f.columns == nil {
		f.columns = [][]float64{slices.Repeat([]float64{1}, n)}
		if linear {
			f.columns = append(f.p.X.columns(), f.columns...)
		}
	}
	b.columns = f.columns
	if linear {
		b.ridges, b.weights = append(slices.Repeat([]float64{f.ridge}, d), f.biasRidge), f.theta
		clear(offset)
		return b
	}
	f.workers.blocks(n, f.size, func(_, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			floats.Sub(offset[i*m:i*m+m], b.weights)
		}
	})
	return b
}

// predictTo stores the predictions of theta (linear term and bias alone) in dst (n×m).
func (f *linearFit) predictTo(dst, theta []float64) {
	m := f.p.Outputs
	f.workers.blocks(f.p.X.NumRows(), f.size, func(_, _, lo, hi int) {
		if m == 1 && f.ridge != 0 { // the same, without slices of one number
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
func (f *linearFit) predictRow(dst, theta []float64, i int) {
	m := len(dst)
	copy(dst, theta[len(theta)-m:])
	if f.ridge == 0 {
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

// addRow adds to sum, laid out like theta, the part of row i in the gradient, given the loss gradients g of the row (m).
func (f *linearFit) addRow(sum, g []float64, i int) {
	m := len(g)
	bias := sum[len(sum)-m:]
	bias = bias[:len(g)]
	for c, x := range g {
		bias[c] += x
	}
	if f.ridge == 0 {
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
func (f *linearFit) gradientTo(dst, rows []float64) {
	f.sumRows(dst, rows)
	f.addRidge(dst)
}

// sumRows stores in dst, laid out like theta, the sums of the rows' columns times numbers of the rows (n×m).
func (f *linearFit) sumRows(dst, rows []float64) {
	m := f.p.Outputs
	f.workers.blocks(f.p.X.NumRows(), f.size, func(_, b, lo, hi int) {
		f.partials[b] = room(f.partials[b], len(dst))
		if sum := f.partials[b]; m == 1 && f.ridge != 0 { // as in predictTo
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
	sumInto(dst, f.partials)
}

// pass evaluates the loss at pred + step·move, stores those predictions in trial and returns the loss and, in dst, the gradient of the
// loss in theta. The predictions move are first gathered from direction unless it is nil.
func (f *linearFit) pass(dst, direction []float64, step float64) float64 {
	m, size := f.p.Outputs, len(f.theta)
	f.workers.blocks(f.p.X.NumRows(), f.size, func(worker, b, lo, hi int) {
		f.partials[b] = room(f.partials[b], size+1)
		sum, work := f.partials[b][:size], &f.scratch[worker]
		for ; lo < hi && f.workers.yield(); lo += fitTile { // blocks are large
			n := min(hi-lo, fitTile)
			move, trial := f.move[lo*m:(lo+n)*m], f.trial[lo*m:(lo+n)*m]
			row, grad := work.row, work.tile[:n*m]
			if direction != nil {
				f.gather(move, direction, row, lo, n)
			}
			for i, x := range f.pred[lo*m : (lo+n)*m] {
				trial[i] = x + step*move[i]
			}
			var weight []float64
			if f.p.Weights != nil {
				weight = f.p.Weights[lo : lo+n]
			}
			f.partials[b][size] += work.loss.eval(grad, trial, f.target[lo*m:(lo+n)*m], weight, n)
			f.scatter(sum, grad, row, lo, n)
		}
	})
	total := make([]float64, size+1)
	sumInto(total, f.partials)
	copy(dst, total)
	return total[size]
}

// gather stores the predictions of theta for the tile of n rows that starts at lo in dst. Row is scratch memory (m).
func (f *linearFit) gather(dst, theta, row []float64, lo, n int) {
	if len(row) == 4 && f.ridge > 0 {
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

// scatter adds to sum, laid out like theta, the gradient of the tile of n rows that starts at lo, given the loss gradients of the tile.
func (f *linearFit) scatter(sum, grad, row []float64, lo, n int) {
	if len(row) == 4 && f.ridge > 0 {
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

// addRidge completes a gradient of the loss to one of the objective.
func (f *linearFit) addRidge(dst []float64) {
	f.clearFixed(dst)
	split := len(dst) - f.p.Outputs
	floats.AddScaled(dst[:split], f.ridge, f.theta[:split])
	floats.AddScaled(dst[split:], f.biasRidge, f.theta[split:])
}

// clearFixed clears what belongs to a linear term or a bias that is left out.
func (f *linearFit) clearFixed(dst []float64) {
	split := len(dst) - f.p.Outputs
	if f.ridge == 0 {
		clear(dst[:split])
	}
	if f.biasRidge == 0 {
		clear(dst[split:])
	}
}

// minimize improves theta until the decrease the quadratic model promises is below tolerance·objective, and returns the iterations
// used. The curvature pairs of the last call are kept: warm starts begin near the same minimum. When the solve is cancelled, theta stays at the last
// point that was evaluated whole.
func (f *linearFit) minimize(tolerance float64, iterations int) int {
	if f.idle() || f.workers.cancelled() {
		return 0
	}
	size, n, m := len(f.theta), f.p.X.NumRows(), f.p.Outputs
	if f.trial == nil {
		f.trial, f.move = make([]float64, n*m), make([]float64, n*m)
	}
	if f.target == nil {
		f.target = make([]float64, n*m)
		toTiles(f.target, f.p.Targets, m, 0, n)
	}
	gradient, trialGradient := make([]float64, size), make([]float64, size)
	direction := make([]float64, size)
	value := f.pass(gradient, f.theta, 1) + f.penalty()
	if f.workers.cancelled() {
		return 0
	}
	f.pred, f.trial = f.trial, f.pred
	f.toScaled(gradient)
	for iteration := range iterations {
		f.memory.direction(direction, gradient)
		slope := floats.Dot(direction, gradient)
		if !(slope < 0) { // rounding left no descent: start over from the scaled gradient
			f.memory = bfgs{}
			f.memory.direction(direction, gradient)
			slope = floats.Dot(direction, gradient)
		}
		if !(-slope > tolerance*math.Abs(value)) {
			return iteration
		}
		floats.Div(direction, f.scale) // now in the original coordinates
		cross, square := 2*f.ridgeOf(f.theta, direction), f.ridgeOf(direction, direction)
		ridge := f.penalty()
		gather := direction
		step := 1.0
		for ; ; step /= 2 {
			trial := f.pass(trialGradient, gather, step) + ridge + step*cross + step*step*square
			if f.workers.cancelled() {
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
		floats.AddScaled(f.theta, step, direction)
		f.pred, f.trial = f.trial, f.pred
		f.toScaled(trialGradient)
		floats.Mul(direction, f.scale)
		floats.Scale(step, direction)
		f.memory.remember(direction, trialGradient, gradient)
		gradient, trialGradient = trialGradient, gradient
	}
	return iterations
}

// toScaled turns a gradient of the loss into one of the objective in scaled coordinates.
func (f *linearFit) toScaled(gradient []float64) {
	f.addRidge(gradient)
	floats.Div(gradient, f.scale)
}

const (
	// settlePasses bounds settleBias, which takes two or three.
	settlePasses = 25
	// settleShare leaves the rest of the tolerance to the other parts of the gap.
	settleShare = 0.1
)

// settleBias evaluates the loss at pred (n×m, the predictions of the whole model), stores the weighted gradients in
// grad and moves the bias, in theta and pred, until its part ‖∇_b‖²/2α of the gap is below settleShare of
// tolerance·loss: with the small ridge α of the bias, a gradient that no fit of the rest would notice makes the gap
// useless. It runs L-BFGS, which keeps its state from call to call, with steps that are not searched along: where the
// gradient is twice the least so far it starts anew, with a step over a bound of the Hessian, which cannot fail. It
// returns the loss.
func (f *linearFit) settleBias(pred, grad []float64, tolerance float64) float64 {
	m, n := f.p.Outputs, f.p.X.NumRows()
	loss := rowLosses(f.workers, f.p, pred, grad)
	if f.biasRidge == 0 {
		return loss
	}
	bias := f.theta[len(f.theta)-m:]
	bound := f.biasRidge
	for i := range n {
		bound += f.p.Weight(i) * f.p.Loss.Curvature(m)
	}
	unit := math.Sqrt(bound)
	gradient, last, step := make([]float64, m), make([]float64, m), make([]float64, m)
	least := math.Inf(1)
	for pass := range settlePasses {
		copy(gradient, bias)
		floats.Scale(f.biasRidge, gradient)
		for i := 0; i < len(grad); i += m {
			for c, g := range grad[i : i+m] {
				gradient[c] += g
			}
		}
		norm := norm2(gradient)
		if norm*norm <= 2*f.biasRidge*settleShare*tolerance*loss || f.workers.cancelled() {
			break
		}
		floats.Scale(1/unit, gradient)
		switch {
		case !(norm < 2*least):
			f.biasMemory = bfgs{}
		case pass > 0:
			floats.Scale(unit, step)
			f.biasMemory.remember(step, gradient, last)
		}
		f.biasMemory.direction(step, gradient)
		if !(floats.Dot(step, gradient) < 0) {
			f.biasMemory = bfgs{}
			f.biasMemory.direction(step, gradient)
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
		loss = rowLosses(f.workers, f.p, pred, grad)
	}
	return loss
}

// rowLosses returns Σ_i w_i ℓ(t_i, pred_i) and stores the weighted gradients in grad (n×m).
func rowLosses(workers workers, p *Problem, pred, grad []float64) float64 {
	n, m := p.X.NumRows(), p.Outputs
	sums := make([]float64, numBlocks(n))
	scratch := newFitScratch(p, workers.size)
	workers.blocks(n, rowBlock(n), func(worker, b, lo, hi int) {
		work := &scratch[worker]
		if work.target == nil {
			work.target = make([]float64, fitTile*m)
		}
		for ; lo < hi; lo += fitTile {
			size := min(hi-lo, fitTile)
			tile, target := work.tile[:size*m], work.target[:size*m]
			toTiles(tile, pred[lo*m:(lo+size)*m], m, 0, size)
			toTiles(target, p.Targets[lo*m:(lo+size)*m], m, 0, size)
			var weight []float64
			if p.Weights != nil {
				weight = p.Weights[lo : lo+size]
			}
			sums[b] += work.loss.eval(tile, tile, target, weight, size)
			fromTile(grad[lo*m:(lo+size)*m], tile, m, size)
		}
	})
	return floats.Sum(sums)
}
