package linear

import (
	"math"

	"github.com/refitd/refitd/solver/loss"
	"gonum.org/v1/gonum/floats"
)

const (
	// settleRounds bounds the Newton steps of SettleWeights; squared loss takes one.
	settleRounds = 20
	// settleProducts bounds the products with the Hessian of a Newton step.
	settleProducts = 500
	// settleForcing is the part of the gradient, by its share of the gap, that a Newton step of another loss than the
	// squared one leaves: less would be wasted on a quadratic model that the step leaves.
	settleForcing = 1e-4
)

// SettleWeights is SettleBias for linear term and bias together, of one output: it moves them, and pred, until their
// part Σ ‖∇‖²/2α of the gap is below SettleShare of tolerance·loss. A linear term that is all but free, as in Blondel
// et al. 2015, has no finite gap otherwise. It takes Newton steps, each by conjugate gradients with a diagonal
// preconditioner, given the loss and its gradients at pred, and returns the loss.
func (f *LinearFit) SettleWeights(pred, grad []float64, fitLoss, tolerance float64) float64 {
	if f.Idle() {
		return fitLoss
	}
	size, n := len(f.Theta), f.p.X.NumRows()
	gradient, direction := make([]float64, size), make([]float64, size)
	move, trial, curve := make([]float64, n), make([]float64, n), make([]float64, n)
	for range settleRounds {
		f.GradientTo(gradient, grad)
		enough := SettleShare * tolerance * fitLoss
		part := f.RidgePart(gradient)
		if part <= enough || f.Workers.Cancelled() {
			break
		}
		f.Workers.Blocks(n, loss.FitTile, func(worker, _, lo, hi int) {
			var weight []float64
			if f.p.Weights != nil {
				weight = f.p.Weights[lo:hi]
			}
			f.Scratch[worker].Loss.Curvature(curve[lo:hi], pred[lo:hi], f.p.Targets[lo:hi], weight, hi-lo)
		})
		if _, isSquared := f.p.Loss.(loss.Squared); !isSquared {
			enough = max(enough, settleForcing*part)
		}
		f.newtonDirection(direction, gradient, curve, move, 0.5*enough)
		f.PredictTo(move, direction)
		if f.Workers.Cancelled() {
			break
		}
		value, fell := f.backtrack(direction, pred, move, trial, grad, fitLoss)
		if f.Workers.Cancelled() {
			return fitLoss
		}
		if fitLoss = value; !fell {
			break
		}
	}
	return fitLoss
}

// backtrack halves a step until the objective falls, and takes it: pred moves by it along move. It returns the loss,
// and whether a step was taken; grad is that of the rows at pred. Trial is room for as many numbers.
func (f *LinearFit) backtrack(direction, pred, move, trial, grad []float64,
	fitLoss float64) (value float64, fell bool) {
	before, cross, square := fitLoss+f.Penalty(), 2*f.RidgeOf(f.Theta, direction), f.RidgeOf(direction, direction)
	for step := 1.0; step > 1e-3; step /= 2 {
		for i, x := range pred {
			trial[i] = x + step*move[i]
		}
		value = RowLosses(f.Workers, f.p, trial, grad)
		if f.Workers.Cancelled() {
			return fitLoss, false
		}
		if value+f.Penalty()+step*cross+step*step*square <= before*(1+1e-15) {
			floats.AddScaled(f.Theta, step, direction)
			copy(pred, trial)
			return value, true
		}
	}
	return RowLosses(f.Workers, f.p, pred, grad), false
}

// RidgePart returns Σ ‖g‖²/2α over the blocks, given the gradient of the whole objective in them.
func (f *LinearFit) RidgePart(g []float64) float64 {
	part, split := 0.0, len(g)-f.p.Outputs
	if f.Ridge > 0 {
		part += 0.5 * floats.Dot(g[:split], g[:split]) / f.Ridge
	}
	if f.BiasRidge > 0 {
		part += 0.5 * floats.Dot(g[split:], g[split:]) / f.BiasRidge
	}
	return part
}

// newtonDirection stores in x the solution of H x = −g, until the ridge part of the residual is at most enough; H is
// the Hessian of the objective at rows of the given curvature. Rows is room for n numbers.
func (f *LinearFit) newtonDirection(x, g, curve, rows []float64, enough float64) {
	size, split := len(x), len(x)-f.p.Outputs
	residual, scaled, product := make([]float64, size), make([]float64, size), make([]float64, size)
	floats.ScaleTo(residual, -1, g)
	clear(x)
	precondition := func() {
		for i, s := range f.scale {
			scaled[i] = residual[i] / (s * s)
		}
	}
	precondition()
	search := append([]float64(nil), scaled...)
	inner := floats.Dot(residual, scaled)
	for range settleProducts {
		f.PredictTo(rows, search)
		floats.Mul(rows, curve)
		f.sumRows(product, rows)
		floats.AddScaled(product[:split], f.Ridge, search[:split])
		floats.AddScaled(product[split:], f.BiasRidge, search[split:])
		f.ClearFixed(product)
		curvature := floats.Dot(search, product)
		if !(curvature > 0) || f.Workers.Cancelled() {
			return
		}
		step := inner / curvature
		floats.AddScaled(x, step, search)
		floats.AddScaled(residual, -step, product)
		if f.RidgePart(residual) <= enough {
			return
		}
		precondition()
		next := floats.Dot(residual, scaled)
		if !(next > 0) || math.IsInf(next, 0) {
			return
		}
		floats.Scale(next/inner, search)
		floats.Add(search, scaled)
		inner = next
	}
}
