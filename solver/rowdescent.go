package solver

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
)

// rowDescent minimises the quadratic model of the objective around weights v,
//
//	Q(z) = ⟨∇, z−v⟩ + ½ scale Σ_c (z−v)_c' G_c (z−v)_c + λ Ω(z),
//
// by exact minimisation over one row of z after the other. The rows of Φ are nearly dependent, so that plain sweeps crawl; every few of
// them the last iterates are extrapolated (Anderson acceleration, as Bertrand and Massias 2021 do for coordinate descent), which takes
// a tenth of the sweeps. The gradient of the model is linear in z, so the extrapolated point is as cheap as a few sums, and it is taken only
// if Q is lower there. A sweep costs 2·k²·m flops, and no pass over the examples.
//
// A loss that is the same for all outputs moved by one amount, as multi-class losses are, has no curvature along such moves, but the matrices
// have: they would hold the weights back. The quadratic part is then taken at z less a shift of each row, free to be chosen, which is
// part of the minimisation.
type rowDescent struct {
	gram *gramMatrices
	form weightForm
	k, m int
	free bool // shifts are not 0

	shift        []float64 // k
	slope        []float64 // m×k: the gradient of the quadratic part
	start        []float64 // m×k: that at v
	past         [descentDepth + 1]descentPoint
	trial        descentPoint
	curve, ideal []float64 // m
}

type descentPoint struct{ z, slope, shift []float64 }

const (
	// descentDepth iterates are combined, as Bertrand and Massias recommend.
	descentDepth = 5
	// A descent ends after descentSweeps, or when a sweep lowers the model by less than descentAccuracy of all before it.
	descentSweeps   = 50
	descentAccuracy = 1e-3
)

func newRowDescent(gram *gramMatrices, form weightForm, k, m int, free bool) *rowDescent {
	d := &rowDescent{gram: gram, form: form, k: k, m: m, free: free}
	d.shift, d.slope, d.start = make([]float64, k), make([]float64, m*k), make([]float64, m*k)
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

// minimize stores the minimum in z (k×m), given v and the gradient ∇ of the loss there, and returns Q(z) − Q(v) ≤ 0 and the linear and
// quadratic terms of Q(z), the latter for a scale of 1.
func (d *rowDescent) minimize(z, v, gradient []float64, scale float64) (fall, linear, square float64) {
	k, m := d.k, d.m
	for r := range k {
		for c := range m {
			d.start[c*k+r] = gradient[r*m+c]
		}
	}
	copy(d.slope, d.start)
	clear(d.shift)
	copy(z, v)
	before := d.form.term(v, k, m)
	stored, first := 0, 0.0
	store := func() {
		copy(d.past[stored].z, z)
		copy(d.past[stored].slope, d.slope)
		copy(d.past[stored].shift, d.shift)
		stored++
	}
	store()
	for sweep := 0; sweep < descentSweeps && d.gram.f.workers.yield(); sweep++ {
		fell := d.sweep(z, scale)
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
	linear, square = d.terms(descentPoint{z, d.slope, d.shift}, v)
	fall = linear + 0.5*square + d.form.term(z, k, m) - before
	return fall, linear, square / scale
}

// sweep minimises Q over every row in turn and returns a measure of the decrease.
func (d *rowDescent) sweep(z []float64, scale float64) float64 {
	k, m, room := d.k, d.m, d.gram.room
	fell := 0.0
	for r := range k {
		row, zr := d.gram.rows[r], z[r*m:r*m+m]
		for c := range m {
			// The smallest normal number keeps a column of zeros from dividing 0 by 0.
			d.curve[c] = max(scale*row[c*room+r], 0x1p-1022)
			d.ideal[c] = zr[c] - d.slope[c*k+r]/d.curve[c]
		}
		d.form.proxCurved(r, d.ideal, d.curve, zr)
		shift := 0.0
		if d.free { // the shift that leaves no slope along itself
			sum, total := 0.0, 0.0
			for c, x := range d.ideal {
				sum += d.slope[c*k+r] + d.curve[c]*(x-zr[c])
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
				dense.AddScaled(d.slope[c*k:c*k+k], scale*step, row[c*room:c*room+k])
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
			linear += d.start[c*k+r] * step
			square += (at.slope[c*k+r] - d.start[c*k+r]) * step
		}
	}
	return linear, square
}

// model returns Q(z) up to a constant.
func (d *rowDescent) model(at descentPoint, v []float64) float64 {
	linear, square := d.terms(at, v)
	return linear + 0.5*square + d.form.term(at.z, d.k, d.m)
}

// extrapolate moves z and the slope to the combination of the past iterates whose last steps cancel best, if that lowers the model.
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
	// The minimum of ‖Σ w_i step_i‖² over weights of sum 1 is the solution of products·w = 1, scaled. Gaussian elimination.
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
	// z is the last iterate: adding up the steps it took since iterate i+1, which the weights leave out, gives the combination.
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
	if d.model(d.trial, v) < d.model(descentPoint{z, d.slope, d.shift}, v) {
		copy(z, d.trial.z)
		copy(d.slope, d.trial.slope)
		copy(d.shift, d.trial.shift)
	}
}

// proxCurved replaces row by argmin_z Σ_c ½ a_c (z_c − row_c)² + t ‖z‖, the proximal operator with a separate metric
// for each output, a > 0. before is a guess of z, of which L1L2 takes the length to begin with.
func (p Penalty) proxCurved(row, a []float64, t float64, before []float64) {
	a = a[:len(row)]
	dual := 0.0 // the dual norm of a∘row: the row vanishes up to t
	switch p {
	case L1:
		for c, x := range row {
			if size := math.Abs(x) - t/a[c]; size > 0 {
				row[c] = math.Copysign(size, x)
			} else {
				row[c] = 0
			}
		}
		return
	case L1L2:
		steepest := 0.0
		for c, x := range row {
			dual += (a[c] * x) * (a[c] * x)
			steepest = max(steepest, a[c])
		}
		if dual = math.Sqrt(dual); dual > t {
			length := curvedLength(row, a, t, (dual-t)/steepest, min(norm2(before), norm2(row)))
			for c, x := range row {
				row[c] = x * (a[c] * length / (a[c]*length + t))
			}
			return
		}
	case L1Linf:
		for c, x := range row {
			dual += a[c] * math.Abs(x)
		}
		if dual > t {
			level := curvedLevel(row, a, t)
			for c, x := range row {
				row[c] = math.Copysign(min(math.Abs(x), level), x)
			}
			return
		}
	}
	clear(row)
}

// curvedLength returns the length of the minimum for L1L2, which solves Σ (a_c u_c / (a_c length + t))² = 1. Newton's method on the inverse
// root of the left side, which is concave and nearly linear (as for trust regions), rises to it from below; a step from above lands there. The
// length is at least low.
func curvedLength(u, a []float64, t, low, guess float64) float64 {
	const most = 50 // two or three do
	length := max(low, guess)
	for range most {
		sum, slope := 0.0, 0.0
		for c, x := range u {
			d := 1 / (a[c]*length + t)
			q := a[c] * x * d
			sum += q * q
			slope += q * q * a[c] * d
		}
		step := sum * (math.Sqrt(sum) - 1) / slope
		length = max(low, length+step)
		if !(math.Abs(step) > 1e-7*length) { // the next step would be about the square of this one
			break
		}
	}
	return length
}

// curvedLevel returns the largest magnitude of the minimum for L1Linf, which solves Σ a_c (|u_c| − level)₊ = t: the set of outputs above the
// level only shrinks, as in l1BallThreshold.
func curvedLevel(u, a []float64, t float64) float64 {
	level := 0.0
	for range len(u) {
		sum, total := -t, 0.0
		for c, x := range u {
			if size := math.Abs(x); size > level {
				sum += a[c] * size
				total += a[c]
			}
		}
		next := sum / total
		if !(next > level) {
			break
		}
		level = next
	}
	return level
}
