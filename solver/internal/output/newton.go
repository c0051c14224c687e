package output

import (
	"slices"

	"github.com/refitd/refitd/solver/penalty"
	"gonum.org/v1/gonum/floats"
)

const (
	// A step that gets sufficientFall of what the model promised is taken.
	sufficientFall = 0.1
	// The curvature of the model is scaled by that which the last step met (Barzilai and Borwein 1988: the blocks left
	// out of the multinomial Hessian give the scaled problem eigenvalues between 0 and 2, which one scale cannot
	// serve), but not below newtonFloor, where steps fail more often than they gain.
	newtonFloor = 0.3
	// A refit ends after smallSteps small steps in a row: the first one of a refit may be small because its scale does
	// not fit yet. On letter refits that ended with it left every later vector close to 0.
	smallSteps = 2
	// A scale above newtonCeil is rounding or a loss that is not finite.
	newtonCeil = 1e6
)

// Newton improves v (k×m) by a proximal Newton method (Lee, Sun and Saunders 2014) in penalised form and returns the
// iterations used. The model of the loss is that of GramMatrices, which are kept from refit to refit and refreshed as
// often as passes over the rows pay for; rowDescent minimises it with the penalty. Each iteration takes one pass, two
// where a step fails. FISTA takes hundreds where the columns of Φ are nearly dependent; here they cost sweeps over
// k×k matrices instead. A step that does not lower the objective is not taken, so on return v is the
// best point seen.
//
// With joint, its weights are improved together with v; nil for none.
func (f *OutputFit) Newton(v []float64, joint *JointWeights, limits FitLimits) int {
	if len(f.Phi) == 0 || f.Workers.Cancelled() {
		return 0
	}
	f.TakeOffset()
	if joint == nil {
		return f.descend(v, WeightForm{Form: f.Form}, limits)
	}
	phi, all := f.Phi, slices.Concat(joint.Weights, v)
	f.Phi = slices.Concat(joint.Columns, phi)
	iterations := f.descend(all, WeightForm{f.Form, joint.Ridges}, limits)
	f.Phi = phi
	copy(joint.Weights, all)
	copy(v, all[len(joint.Weights):])
	return iterations
}

// JointWeights are weights of columns that are fitted together with the activations, each with a ridge. The offset does
// not include what they predict. Activations of the homogeneous kernel are positive and nearly linear in places,
// so that a linear term or a bias that is fixed holds their weights back: on letter the objective after 225 vectors
// was twice that with a bias that moves.
type JointWeights struct {
	Columns [][]float64 // q, n each
	Ridges  []float64   // q, positive
	Weights []float64   // q×m
}

// descend is newton for the weights of all columns of phi.
func (f *OutputFit) descend(v []float64, form WeightForm, limits FitLimits) int {
	k, m := len(f.Phi), f.P.Outputs
	value, _, gradient := f.Pass(v, 0)
	if f.Workers.Cancelled() {
		return 0
	}
	f.Current, f.Next = f.Next, f.Current
	objective := value + form.term(v, k, m)
	if f.Gram == nil {
		f.Gram = &GramMatrices{F: f, scale: 1}
	}
	if !f.Gram.stale() {
		f.Gram.Update()
	}
	descent := NewRowDescent(f.Gram, form, k, m, shiftless(gradient, k, m))
	z := make([]float64, len(v))
	scale, small := f.Gram.scale, 0
	defer func() { f.Gram.scale = min(1, scale) }()
	enough := limits.Tolerance / float64(limits.Span)
	for iteration := range limits.Iterations {
		if f.Gram.stale() {
			f.Gram.Refresh()
			scale = 1
		}
		for {
			fall, linear, square := descent.Minimize(z, v, gradient, scale)
			if f.Workers.Cancelled() || !(fall < 0) {
				return iteration
			}
			trial, _, trialGradient := f.Pass(z, 0)
			f.Gram.passes++
			if f.Workers.Cancelled() {
				return iteration
			}
			met := scale // of a step along which the model is flat
			if square > 0 {
				met = 2 * (trial - value - linear) / square
			}
			if reached := trial + form.term(z, k, m); reached <= objective+sufficientFall*fall {
				// A step that got much less than the model promised shows that its curvature is wrong, not that this is
				// the minimum.
				fall = min(fall, reached-objective)
				value, gradient, objective = trial, trialGradient, reached
				scale = max(newtonFloor, 0.5*scale, met)
				copy(v, z)
				f.Current, f.Next = f.Next, f.Current
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
	return limits.Iterations
}

// shiftless reports whether the loss is the same for all outputs moved by one amount, as for multi-class losses:
// gradients then add up to 0 over the outputs.
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

// WeightForm is how rows of weights enter a problem in penalised form: the first ones by a ridge each, the others by
// the penalty.
type WeightForm struct {
	penalty.Form
	ridges []float64
}

// term returns what they add to the objective.
func (w WeightForm) term(v []float64, k, m int) float64 {
	sum := 0.0
	for r, ridge := range w.ridges {
		row := v[r*m : r*m+m]
		sum += 0.5 * ridge * floats.Dot(row, row)
	}
	return sum + w.Form.Term(v[len(w.ridges)*m:], k-len(w.ridges), m)
}

// proxCurved replaces row r by its proximal point in the metric of a, as Penalty.proxCurved does.
func (w WeightForm) proxCurved(r int, row, a, before []float64) {
	if r >= len(w.ridges) {
		w.Penalty.ProxCurved(row, a, w.Lambda, before)
		return
	}
	for c := range row {
		row[c] *= a[c] / (a[c] + w.ridges[r])
	}
}
