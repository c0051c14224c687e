package output

import "github.com/refitd/refitd/solver/internal/dense"

// rowDescent minimises the quadratic model of the objective around weights v,
//
//	Q(z) = ⟨∇, z−v⟩ + ½ scale Σ_c (z−v)_c' G_c (z−v)_c + λ Ω(z),
//
// by exact minimisation over one row of z after the other. The rows of Φ are nearly dependent, so that plain sweeps
// crawl; every few of them the last iterates are extrapolated (Anderson acceleration, as Bertrand and Massias 2021 do
// for coordinate descent), which takes a tenth of the sweeps. The gradient of the model is linear in z, so the
// extrapolated point is as cheap as a few sums, and it is taken only if Q is lower there. A sweep costs 2·k²·m flops,
// and no pass over the examples.
//
// A loss that is the same for all outputs moved by one amount, as multi-class losses are, has no curvature along such
// moves, but the matrices have: they would hold the weights back. The quadratic part is then taken at z less a shift of
// each row, free to be chosen, which is part of the minimisation.
type rowDescent struct {
	gram *GramMatrices
	form WeightForm
	k, m int
	free bool // shifts are not 0

	shift        []float64 // k
	Slope        []float64 // m×k: the gradient of the quadratic part
	Start        []float64 // m×k: that at v
	past         [descentDepth + 1]descentPoint
	trial        descentPoint
	curve, ideal []float64 // m
}

type descentPoint struct{ z, slope, shift []float64 }

const (
	// descentDepth iterates are combined, as Bertrand and Massias recommend.
	descentDepth = 5
	// A descent ends after DescentSweeps, or when a sweep lowers the model by less than descentAccuracy of all before
	// it.
	DescentSweeps   = 50
	descentAccuracy = 1e-3
)

func NewRowDescent(gram *GramMatrices, form WeightForm, k, m int, free bool) *rowDescent {
	d := &rowDescent{gram: gram, form: form, k: k, m: m, free: free}
	d.shift, d.Slope, d.Start = make([]float64, k), make([]float64, m*k), make([]float64, m*k)
	point := func() descentPoint {
		return descentPoint{make([]float64, k*m), make([]float64, m*k), make([]float64, k)}
	}
	d.trial = point()
	for i := range d.past {
		d.past[i] = point()
	}
	d.curve, d.ideal = make([]float64, m), make([]float64, m)
	return d
}

// Minimize stores the minimum in z (k×m), given v and the gradient ∇ of the loss there, and returns Q(z) − Q(v) ≤ 0 and
// the linear and quadratic terms of Q(z), the latter for a scale of 1.
func (d *rowDescent) Minimize(z, v, gradient []float64, scale float64) (fall, linear, square float64) {
	k, m := d.k, d.m
	for r := range k {
		for c := range m {
			d.Start[c*k+r] = gradient[r*m+c]
		}
	}
	copy(d.Slope, d.Start)
	clear(d.shift)
	copy(z, v)
	before := d.form.term(v, k, m)
	stored, first := 0, 0.0
	store := func() {
		copy(d.past[stored].z, z)
		copy(d.past[stored].slope, d.Slope)
		copy(d.past[stored].shift, d.shift)
		stored++
	}
	store()
	for sweep := 0; sweep < DescentSweeps && d.gram.F.Workers.Yield(); sweep++ {
		fell := d.Sweep(z, scale)
		first = max(first, fell)
		if fell <= descentAccuracy*first {
			break
		}
		store()
		if stored > descentDepth {
			d.extrapolate(z, v)
			stored = 0
			store()
		}
	}
	linear, square = d.terms(descentPoint{z, d.Slope, d.shift}, v)
	fall = linear + 0.5*square + d.form.term(z, k, m) - before
	return fall, linear, square / scale
}

// Sweep minimises Q over every row in turn and returns a measure of the decrease.
func (d *rowDescent) Sweep(z []float64, scale float64) float64 {
	k, m, room := d.k, d.m, d.gram.Room
	fell := 0.0
	for r := range k {
		row, zr := d.gram.Rows[r], z[r*m:r*m+m]
		for c := range m {
			// The smallest normal number keeps a column of zeros from dividing 0 by 0.
			d.curve[c] = max(scale*row[c*room+r], 0x1p-1022)
			d.ideal[c] = zr[c] - d.Slope[c*k+r]/d.curve[c]
		}
		d.form.proxCurved(r, d.ideal, d.curve, zr)
		shift := 0.0
		if d.free { // the shift that leaves no slope along itself
			sum, total := 0.0, 0.0
			for c, x := range d.ideal {
				sum += d.Slope[c*k+r] + d.curve[c]*(x-zr[c])
				total += d.curve[c]
			}
			shift = sum / total
			d.shift[r] += shift
		}
		for c, x := range d.ideal {
			step := x - zr[c]
			fell += step * step * d.curve[c]
			zr[c] = x
			if step -= shift; step != 0 {
				dense.AddScaled(d.Slope[c*k:c*k+k], scale*step, row[c*room:c*room+k])
			}
		}
	}
	return fell
}

// terms returns ⟨∇, z−v⟩ and the quadratic term twice over.
func (d *rowDescent) terms(at descentPoint, v []float64) (linear, square float64) {
	k, m := d.k, d.m
	for r := range k {
		for c := range m {
			step := at.z[r*m+c] - at.shift[r] - v[r*m+c]
			linear += d.Start[c*k+r] * step
			square += (at.slope[c*k+r] - d.Start[c*k+r]) * step
		}
	}
	return linear, square
}

// model returns Q(z) up to a constant.
func (d *rowDescent) model(at descentPoint, v []float64) float64 {
	linear, square := d.terms(at, v)
	return linear + 0.5*square + d.form.term(at.z, d.k, d.m)
}

// extrapolate moves z and the slope to the combination of the past iterates whose last steps cancel best, if that
// lowers the model.
func (d *rowDescent) extrapolate(z, v []float64) {
	var products [descentDepth][descentDepth]float64
	var weights [descentDepth]float64
	for i := range descentDepth { // the steps overwrite the iterates they start from, which are no longer needed
		for j, x := range d.past[i+1].z {
			d.past[i].z[j] = x - d.past[i].z[j]
		}
	}
	trace := 0.0
	for i := range descentDepth {
		for j := range descentDepth {
			products[i][j] = dense.Dot(d.past[i].z, d.past[j].z)
		}
		trace += products[i][i]
		weights[i] = 1
	}
	for i := range products {
		products[i][i] += 1e-12 * trace
	}
	// The minimum of ‖Σ w_i step_i‖² over weights of sum 1 is the solution of products·w = 1, scaled. Gaussian
	// elimination.
	for i := range descentDepth {
		for j := i + 1; j < descentDepth; j++ {
			q := products[j][i] / products[i][i]
			for l := i; l < descentDepth; l++ {
				products[j][l] -= q * products[i][l]
			}
			weights[j] -= q * weights[i]
		}
	}
	sum := 0.0
	for i := descentDepth - 1; i >= 0; i-- {
		for l := i + 1; l < descentDepth; l++ {
			weights[i] -= products[i][l] * weights[l]
		}
		weights[i] /= products[i][i]
		sum += weights[i]
	}
	// z is the last iterate: adding up the steps it took since iterate i+1, which the weights leave out, gives the
	// combination.
	copy(d.trial.z, z)
	left := 0.0
	for i := 0; i < descentDepth-1; i++ {
		left += weights[i] / sum
		dense.AddScaled(d.trial.z, -left, d.past[i+1].z)
	}
	clear(d.trial.slope)
	clear(d.trial.shift)
	for i, w := range weights {
		dense.AddScaled(d.trial.slope, w/sum, d.past[i+1].slope)
		dense.AddScaled(d.trial.shift, w/sum, d.past[i+1].shift)
	}
	// A comparison with NaN is false.
	if d.model(d.trial, v) < d.model(descentPoint{z, d.Slope, d.shift}, v) {
		copy(z, d.trial.z)
		copy(d.Slope, d.trial.slope)
		copy(d.shift, d.trial.shift)
	}
}
