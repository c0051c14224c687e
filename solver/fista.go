package solver

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
)

// outputFit refits the output weights V with the basis fixed: min_V Σ_i w_i ℓ(t_i, offset_i + (ΦV)_i) + λ Ω(V), a convex problem
// (Blondel et al. 2017, section 4 and appendix D). Φ is kept as k columns of length n, so that a basis vector is added or dropped
// without moving the others.
type outputFit struct {
	p    *Problem
	form form
	crew crew

	phi    [][]float64 // k columns of K(h_r, x_i), n each
	offset []float64   // n×m: linear term and bias
	smooth float64     // Lipschitz estimate carried over from refit to refit; 0 at first

	current []float64 // n×m predictions at the last point
	next    []float64 // n×m predictions at the trial point
	scratch []fitScratch
	parts   [][]float64 // per block: loss at the trial point, loss at the extrapolated point, gradient k×m
}

// fitScratch belongs to one worker.
type fitScratch struct {
	columns []float64 // m×tile: products by output
	rows    []float64 // tile×m: extrapolated predictions, then gradients
}

const (
	fitBlock = 4096 // rows per partial result
	fitTile  = 256  // rows whose tile of Φ (256·8·k bytes) stays in the caches between ΦV and Φ'D
)

func newOutputFit(p *Problem, form form, crew crew) *outputFit {
	n, m := p.X.NumRows(), p.Outputs
	f := &outputFit{p: p, form: form, crew: crew}
	f.offset = make([]float64, n*m)
	f.current = make([]float64, n*m)
	f.next = make([]float64, n*m)
	f.parts = make([][]float64, (n+fitBlock-1)/fitBlock)
	f.scratch = make([]fitScratch, crew.size)
	for w := range f.scratch {
		f.scratch[w] = fitScratch{columns: make([]float64, m*fitTile), rows: make([]float64, fitTile*m)}
	}
	return f
}

// fitLimits says when a refit ends: at iterations, or when the objective falls by less than tolerance of itself over span iterations.
// The size of steps or parameter changes would stop far too early on ill-conditioned features.
type fitLimits struct {
	tolerance        float64
	span, iterations int
}

// minimize improves v (k×m) by FISTA (Beck and Teboulle 2009) with a step that can grow, and returns the iterations used. The step
// length 1/L grows by 2 % an iteration and halves on failure of the quadratic bound; momentum restarts when it points uphill
// (O'Donoghue and Candès 2015, gradient scheme). Each iteration takes one product with Φ and one with Φ': predictions are linear in V,
// so those of the extrapolated point are extrapolated too. On return v is the best proximal point seen (its zeros are exact) or, if none
// was better, unchanged.
func (f *outputFit) minimize(ctx context.Context, v []float64, limits fitLimits) int {
	k, m := len(f.phi), f.p.Outputs
	if k == 0 || ctx.Err() != nil {
		return 0
	}
	if f.smooth == 0 {
		f.smooth = f.initialSmoothness()
	}
	// The pass at the start makes y = v: with momentum 0 the extrapolated point is the trial point itself.
	value, valueY, gradient := f.pass(v, 0)
	f.current, f.next = f.next, f.current
	best := value + f.form.term(v, k, m)
	x := append([]float64(nil), v...) // last proximal point
	y := append([]float64(nil), v...) // extrapolated point
	z := make([]float64, len(v))      // trial point
	trace := make([]float64, 1, 1+limits.iterations)
	trace[0] = best
	theta := 1.0            // t of Beck and Teboulle
	overshot := math.Inf(1) // best objective at the last overshoot
	iteration := 0
	for iteration < limits.iterations && ctx.Err() == nil {
		iteration++
		f.smooth *= 0.98
		thetaNext, momentum := 0.0, 0.0
		for {
			for i := range z {
				z[i] = y[i] - gradient[i]/f.smooth
			}
			f.form.step(z, k, m, 1/f.smooth)
			linear, square, uphill := 0.0, 0.0, 0.0
			for i := range z {
				step := z[i] - y[i]
				linear += gradient[i] * step
				square += step * step
				uphill -= step * (z[i] - x[i])
			}
			thetaNext = 0.5 * (1 + math.Sqrt(1+4*theta*theta))
			momentum = (theta - 1) / thetaNext
			if uphill > 0 {
				thetaNext, momentum = 1, 0
			}
			trial, trialY, trialGradient := f.pass(z, momentum)
			// The slack absorbs rounding in sums over the rows.
			if trial <= valueY+linear+0.5*f.smooth*square+1e-13*math.Abs(valueY) || square == 0 {
				value, valueY, gradient = trial, trialY, trialGradient
				break
			}
			f.smooth *= 2
			if ctx.Err() != nil {
				return iteration
			}
		}
		theta = thetaNext
		for i := range z {
			y[i] = z[i] + momentum*(z[i]-x[i])
		}
		x, z = z, x
		f.current, f.next = f.next, f.current
		objective := value + f.form.term(x, k, m)
		if objective < best {
			best = objective
			copy(v, x)
		}
		trace = append(trace, objective)
		t := len(trace) - 1
		if t < limits.span || trace[t-limits.span]-objective > limits.tolerance*math.Abs(objective) {
			continue
		}
		// Momentum overshoots now and then. Unless that is rounding, go on from the best point without it.
		if objective <= best || best >= overshot {
			break
		}
		overshot, theta = best, 1
		copy(x, v)
		copy(y, v)
		value, valueY, gradient = f.pass(v, 0)
		f.current, f.next = f.next, f.current
		trace = append(trace[:0], best)
	}
	return iteration
}

// initialSmoothness is ‖Φ‖_F² · curvature / 16: the estimate ends 13 to 50 times below the bound, and a value too small is doubled.
func (f *outputFit) initialSmoothness() float64 {
	sum := 0.0
	for _, column := range f.phi {
		for i, a := range column {
			sum += a * a * f.p.Weight(i)
		}
	}
	return max(sum*f.p.Loss.Curvature(f.p.Outputs)/16, 1e-12)
}

// pass stores the predictions of v in f.next and evaluates the loss there and at the point extrapolated from f.current by momentum, with
// the gradient of the latter in V (k×m).
func (f *outputFit) pass(v []float64, momentum float64) (value, valueY float64, gradient []float64) {
	k, m := len(f.phi), f.p.Outputs
	f.crew.blocks(f.p.X.NumRows(), fitBlock, func(worker, b, lo, hi int) {
		f.parts[b] = room(f.parts[b], 2+k*m)
		for a := lo; a < hi; a += fitTile {
			f.tile(f.parts[b], v, momentum, &f.scratch[worker], a, min(hi, a+fitTile))
		}
	})
	total := make([]float64, 2+k*m)
	sumInto(total, f.parts)
	return total[0], total[1], total[2:]
}

func (f *outputFit) tile(part, v []float64, momentum float64, work *fitScratch, lo, hi int) {
	p, m, size := f.p, f.p.Outputs, hi-lo
	f.predict(f.next, v, work, lo, hi)
	rows, at := work.rows[:size*m], f.next[lo*m:hi*m]
	target, weight := p.Targets[lo*m:hi*m], p.Weights
	if weight != nil {
		weight = weight[lo:hi]
	}
	var value, valueY float64
	if momentum == 0 {
		value = evalRows(p.Loss, rows, at, target, weight, m)
		valueY = value
	} else {
		value = evalRows(p.Loss, nil, at, target, weight, m)
		for i, last := range f.current[lo*m : hi*m] {
			rows[i] = at[i] + momentum*(at[i]-last)
		}
		valueY = evalRows(p.Loss, rows, rows, target, weight, m)
	}
	part[0] += value
	part[1] += valueY
	for c := range m {
		column := work.columns[c*fitTile : c*fitTile+size]
		for i := range column {
			column[i] = rows[i*m+c]
		}
	}
	for r, phi := range f.phi {
		for c := range m {
			part[2+r*m+c] += floats.Dot(phi[lo:hi], work.columns[c*fitTile:c*fitTile+size])
		}
	}
}

// predict stores offset + ΦV of rows lo..hi−1 in dst (n×m).
func (f *outputFit) predict(dst, v []float64, work *fitScratch, lo, hi int) {
	m, size := f.p.Outputs, hi-lo
	for c := range m {
		column := work.columns[c*fitTile : c*fitTile+size]
		clear(column)
		for r, phi := range f.phi {
			if w := v[r*m+c]; w != 0 {
				floats.AddScaled(column, w, phi[lo:hi])
			}
		}
	}
	for c := range m {
		column := work.columns[c*fitTile : c*fitTile+size]
		for i, o := range column {
			at := (lo+i)*m + c
			dst[at] = f.offset[at] + o
		}
	}
}

// predictions stores offset + ΦV in dst (n×m).
func (f *outputFit) predictions(dst, v []float64) {
	f.crew.blocks(f.p.X.NumRows(), fitTile, func(worker, _, lo, hi int) {
		f.predict(dst, v, &f.scratch[worker], lo, hi)
	})
}
