package output

import (
	"math"

	"github.com/refitd/refitd/solver/internal/parallel"
)

// MaxSmooth is the Lipschitz estimate at which a search for a step gives up: no step is short enough for the rounding
// of such numbers.
const MaxSmooth = 1e200

// A proximal problem is to minimise f(x) + g(x) over a slice of numbers, f smooth and convex, g with a proximal
// operator. Predictions are linear in x, so that those of an extrapolated point are extrapolated too.
type proximal interface {
	// Pass evaluates f at z and at the point extrapolated from the last accepted one by momentum, with the gradient of
	// the latter.
	Pass(z []float64, momentum float64) (value, valueY float64, gradient []float64)
	// Accept makes z of the last pass the point that is extrapolated from.
	Accept()
	// Term returns g(z) at a feasible point.
	Term(z []float64) float64
	// Step replaces z by argmin_x ½‖x − z‖² + t g(x).
	Step(z []float64, t float64)
	// InitialSmoothness guesses the Lipschitz constant of the gradient of f.
	InitialSmoothness() float64
}

// Accelerated improves v by FISTA (Beck and Teboulle 2009) with a step that can grow, and returns the iterations used.
// The step length 1/L grows by 2 % an iteration and halves on failure of the quadratic bound; momentum restarts when it
// points uphill (O'Donoghue and Candès 2015, gradient scheme). Each iteration takes a pass. Smooth is the estimate L of
// the Lipschitz constant, carried over from call to call; 0 at first. On return v is the best proximal point seen (its
// zeros are exact) or, if none was better, unchanged.
func Accelerated(f proximal, workers parallel.Workers, smooth *float64, v []float64, limits FitLimits) int {
	if *smooth == 0 {
		*smooth = f.InitialSmoothness()
	}
	// The pass at the start makes y = v: with momentum 0 the extrapolated point is the trial point itself.
	value, valueY, gradient := f.Pass(v, 0)
	if workers.Cancelled() {
		return 0
	}
	f.Accept()
	best := value + f.Term(v)
	x := append([]float64(nil), v...) // last proximal point
	y := append([]float64(nil), v...) // extrapolated point
	z := make([]float64, len(v))      // trial point
	trace := make([]float64, 1, 1+limits.Iterations)
	trace[0] = best
	theta := 1.0            // t of Beck and Teboulle
	overshot := math.Inf(1) // best objective at the last overshoot
	iteration := 0
	for iteration < limits.Iterations {
		iteration++
		*smooth *= 0.98
		thetaNext, momentum := 0.0, 0.0
		for {
			linear, square, uphill := stepFrom(f, *smooth, z, x, y, gradient)
			thetaNext = 0.5 * (1 + math.Sqrt(1+4*theta*theta))
			momentum = (theta - 1) / thetaNext
			if uphill > 0 {
				thetaNext, momentum = 1, 0
			}
			trial, trialY, trialGradient := f.Pass(z, momentum)
			if workers.Cancelled() {
				return iteration
			}
			// The slack absorbs rounding in sums over the rows.
			if trial <= valueY+linear+0.5*(*smooth)*square+1e-13*math.Abs(valueY) || square == 0 {
				value, valueY, gradient = trial, trialY, trialGradient
				break
			}
			if *smooth *= 2; *smooth > MaxSmooth {
				*smooth = 0
				return iteration
			}
		}
		theta = thetaNext
		for i := range z {
			y[i] = z[i] + momentum*(z[i]-x[i])
		}
		x, z = z, x
		f.Accept()
		objective := value + f.Term(x)
		if objective < best {
			best = objective
			copy(v, x)
		}
		trace = append(trace, objective)
		t := len(trace) - 1
		if t < limits.Span || trace[t-limits.Span]-objective > limits.Tolerance*math.Abs(objective) {
			continue
		}
		// Momentum overshoots now and then. Unless that is rounding, continue from the best point without it.
		if objective <= best || best >= overshot {
			break
		}
		overshot, theta = best, 1
		copy(x, v)
		copy(y, v)
		if _, valueY, gradient = f.Pass(v, 0); workers.Cancelled() {
			break
		}
		f.Accept()
		trace = append(trace[:0], best)
	}
	return iteration
}

// stepFrom stores in z the proximal step of length 1/L from y, and returns what the quadratic bound at y and the
// restart need: ⟨∇, z − y⟩, ‖z − y‖² and ⟨y − z, z − x⟩, which is positive where momentum points uphill.
func stepFrom(f proximal, smooth float64, z, x, y, gradient []float64) (linear, square, uphill float64) {
	for i := range z {
		z[i] = y[i] - gradient[i]/smooth
	}
	f.Step(z, 1/smooth)
	for i := range z {
		step := z[i] - y[i]
		linear += gradient[i] * step
		square += step * step
		uphill -= step * (z[i] - x[i])
	}
	return linear, square, uphill
}
