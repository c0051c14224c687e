package solver

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

const (
	// A step that gets sufficientFall of what the model promised is taken.
	sufficientFall = 0.1
	// The curvature of the model is scaled by that which the last step met (Barzilai and Borwein 1988: the blocks left out of the multinomial
	// Hessian give the scaled problem eigenvalues between 0 and 2, which one scale cannot serve), but not below newtonFloor, where steps
	// fail more often than they gain.
	newtonFloor = 0.3
	// A refit ends after smallSteps small steps in a row: the first one of a refit may be small because its scale does not fit yet. On letter
	// refits that ended with it left every later vector close to 0.
	smallSteps = 2
	// A scale above newtonCeil is rounding or a loss that is not finite.
	newtonCeil = 1e6
)

// newton improves v (k×m) by a proximal Newton method (Lee, Sun and Saunders 2014) in penalised form and returns the iterations used. The model of the
// loss is that of gramMatrices, which are kept from refit to refit and refreshed as often as passes over the rows pay for; rowDescent
// minimises it with the penalty. Each iteration takes one pass, two where a step fails. FISTA takes hundreds where the columns of Φ are
// nearly dependent; here they cost sweeps over k×k matrices instead. A step that does not lower the objective is not taken, so on return v is the
// best point seen.
//
// With joint, its weights are improved together with v; nil for none.
func (f *outputFit) newton(v []float64, joint *besideWeights, limits fitLimits) int {
	if len(f.phi) == 0 || f.workers.cancelled() {
		return 0
	}
	f.takeOffset()
	if joint == nil {
		return f.descend(v, weightForm{form: f.form}, limits)
	}
	phi, all := f.phi, slices.Concat(joint.weights, v)
	f.phi = slices.Concat(joint.columns, phi)
	iterations := f.descend(all, weightForm{f.form, joint.ridges}, limits)
	f.phi = phi
	copy(joint.weights, all)
	copy(v, all[len(joint.weights):])
	return iterations
}

// besideWeights are weights of columns that are fitted together with the activations, each with a ridge: what they
// predict is no part of the offset. Activations of the homogeneous kernel are positive and nearly linear in places,
// so that a linear term or a bias that is fixed holds their weights back: on letter the objective after 225 vectors
// was twice that with a bias that moves.
type besideWeights struct {
	columns [][]float64 // q, n each
	ridges  []float64   // q, positive
	weights []float64   // q×m
}

// descend is newton for the weights of all columns of phi.
func (f *outputFit) descend(v []float64, form weightForm, limits fitLimits) int {
	k, m := len(f.phi), f.p.Outputs
	value, _, gradient := f.pass(v, 0)
	if f.workers.cancelled() {
		return 0
	}
	f.current, f.next = f.next, f.current
	objective := value + form.term(v, k, m)
	if f.gram == nil {
		f.gram = &gramMatrices{f: f, scale: 1}
	}
	if !f.gram.stale() {
		f.gram.update()
	}
	descent := newRowDescent(f.gram, form, k, m, shiftless(gradient, k, m))
	z := make([]float64, len(v))
	scale, small := f.gram.scale, 0
	defer func() { f.gram.scale = min(1, scale) }()
	enough := limits.tolerance / float64(limits.span)
	for iteration := range limits.iterations {
		if f.gram.stale() {
			f.gram.refresh()
			scale = 1
		}
		for {
			fall, linear, square := descent.minimize(z, v, gradient, scale)
			if f.workers.cancelled() || !(fall < 0) {
				return iteration
			}
			trial, _, trialGradient := f.pass(z, 0)
			f.gram.passes++
			if f.workers.cancelled() {
				return iteration
			}
			met := scale // of a step along which the model is flat
			if square > 0 {
				met = 2 * (trial - value - linear) / square
			}
			if reached := trial + form.term(z, k, m); reached <= objective+sufficientFall*fall {
				// A step that got much less than the model promised shows that its curvature is wrong, not that this is the minimum.
				fall = min(fall, reached-objective)
				value, gradient, objective = trial, trialGradient, reached
				scale = max(newtonFloor, 0.5*scale, met)
				copy(v, z)
				f.current, f.next = f.next, f.current
				if -fall > enough*objective {
					small = 0
				} else if small++; small == smallSteps {
					return iteration + 1
				}
				break
			}
			if !(scale < newtonCeil) {
				return iteration
			}
			scale = min(4*scale, max(2*scale, 1.2*met))
		}
	}
	return limits.iterations
}

// shiftless reports whether the loss is the same for all outputs moved by one amount, as for multi-class losses: gradients then add up to
// 0 over the outputs.
func shiftless(gradient []float64, k, m int) bool {
	if m == 1 {
		return false
	}
	for r := range k {
		row := gradient[r*m : r*m+m]
		if sum := floats.Sum(row); !(sum*sum <= 1e-16*floats.Dot(row, row)) {
			return false
		}
	}
	return true
}

// weightForm is how rows of weights enter a problem in penalised form: the first ones by a ridge each, the others by
// the penalty.
type weightForm struct {
	form
	ridges []float64
}

// term returns what they add to the objective.
func (w weightForm) term(v []float64, k, m int) float64 {
	sum := 0.0
	for r, ridge := range w.ridges {
		row := v[r*m : r*m+m]
		sum += 0.5 * ridge * floats.Dot(row, row)
	}
	return sum + w.form.term(v[len(w.ridges)*m:], k-len(w.ridges), m)
}

// proxCurved replaces row r by its proximal point in the metric of a, as Penalty.proxCurved does.
func (w weightForm) proxCurved(r int, row, a, before []float64) {
	if r >= len(w.ridges) {
		w.penalty.proxCurved(row, a, w.lambda, before)
		return
	}
	for c := range row {
		row[c] *= a[c] / (a[c] + w.ridges[r])
	}
}
