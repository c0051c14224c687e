package full

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

// Minimize improves the point u by FISTA (Beck and Teboulle 2009) over V and H jointly and returns the iterations
// used. Steps are taken in the metric of metric(), so that V and H, and frequent and rare features, get separate
// steps; its factor L shrinks by fullGrowth an iteration and doubles on failure of the quadratic bound. Momentum
// restarts when it points uphill or the objective rose (O'Donoghue and Candès 2015, both schemes), and the metric is
// taken anew then. An iteration takes a pass with gradients and one without. On return u is feasible and its
// objective not above that of the u passed in, if that was feasible.
func (f *FullFit) Minimize(u []float64, limits output.FitLimits) int {
	if f.K == 0 || f.Workers.Cancelled() {
		return 0
	}
	if f.Smooth == 0 {
		f.Smooth = 1
	}
	x, y, z := append([]float64(nil), u...), append([]float64(nil), u...), make([]float64, len(u))
	gradient, scale := make([]float64, len(u)), make([]float64, len(u))
	f.metric(scale, u)
	value := f.Pass(y, gradient)
	last := value + f.Term(x)                           // objective at x
	if f.Workers.Cancelled() || !(last < math.Inf(1)) { // numbers too large to step from
		return 0
	}
	trace := []float64{last}
	theta := 1.0
	for iteration := 1; iteration <= limits.Iterations; iteration++ {
		f.Smooth *= fullGrowth
		objective, uphill, ok := f.backtrack(z, tangent{at: y, value: value, gradient: gradient}, x, scale)
		if !ok {
			return iteration
		}
		if objective > last {
			if theta == 1 {
				return iteration // a plain step went up: rounding
			}
			// Back to the last point, without momentum.
			theta = 1
			copy(y, x)
		} else {
			var momentum float64
			momentum, theta = nextMomentum(theta, uphill)
			for i, at := range z {
				y[i] = at + momentum*(at-x[i])
			}
			x, z = z, x
			copy(u, x)
			last = objective
		}
		trace = append(trace, last)
		if t := len(trace) - 1; t >= limits.Span && trace[t-limits.Span]-last <= limits.Tolerance*math.Abs(last) {
			return iteration
		}
		if theta == 1 {
			f.metric(scale, x)
		}
		value = f.Pass(y, gradient)
	}
	return limits.Iterations
}

// tangent is the smooth part of an objective at a point, to the first order.
type tangent struct {
	at       []float64
	value    float64
	gradient []float64
}

// backtrack stores the proximal point of y in z, with an L at which the quadratic bound holds. It returns the objective
// there, and by how much the momentum from x points uphill. It reports false where the fit is cancelled, or no L is
// large enough.
func (f *FullFit) backtrack(z []float64, y tangent, x, scale []float64) (objective, uphill float64, ok bool) {
	for {
		for i, g := range y.gradient {
			z[i] = y.at[i] - g/(f.Smooth*scale[i])
		}
		f.Step(z, scale)
		linear, square := 0.0, 0.0
		uphill = 0
		for i, at := range z {
			step := at - y.at[i]
			linear += y.gradient[i] * step
			square += scale[i] * step * step
			uphill -= scale[i] * step * (at - x[i])
		}
		trial := f.Pass(z, nil)
		if f.Workers.Cancelled() {
			return 0, 0, false
		}
		// The slack absorbs rounding in sums over the rows.
		if trial <= y.value+linear+0.5*f.Smooth*square+1e-13*math.Abs(y.value) || square == 0 {
			return trial + f.Term(z), uphill, true
		}
		if f.Smooth *= 2; f.Smooth > output.MaxSmooth {
			f.Smooth = 0
			return 0, 0, false
		}
	}
}

// nextMomentum returns the momentum after theta, and the theta after it: it begins anew where it points uphill.
func nextMomentum(theta, uphill float64) (momentum, next float64) {
	if uphill > 0 {
		return 0, 1
	}
	next = 0.5 * (1 + math.Sqrt(1+4*theta*theta))
	return (theta - 1) / next, next
}

// fullGrowth is the factor on L per iteration.
const fullGrowth = 0.95

// Step replaces u by its proximal point in the metric: a step of length 1/(L scale) per coordinate.
func (f *FullFit) Step(u, scale []float64) {
	v, h := f.Split(u)
	scaleV, scaleH := f.Split(scale)
	m := f.P.Outputs
	if f.Form.Tau > 0 {
		f.Form.Step(v, f.K, m, 1/(f.Smooth*scaleV[0])) // the rows have one scale
	} else {
		for r := range f.K {
			f.Form.Step(v[r*m:r*m+m], 1, m, 1/(f.Smooth*scaleV[r*m]))
		}
	}
	if f.Ridge > 0 {
		for i, s := range scaleH {
			h[i] *= f.Smooth * s / (f.Smooth*s + f.Ridge)
		}
	}
	if f.Free() {
		return
	}
	d := len(h) / f.K
	column, weight := make([]float64, d), make([]float64, d)
	for r := range f.K {
		for j := range d {
			column[j], weight[j] = h[j*f.K+r], scaleH[j*f.K+r]+f.Ridge/f.Smooth
		}
		if projectUnitBall(column, weight) {
			for j, x := range column {
				h[j*f.K+r] = x
			}
		}
	}
}

// projectUnitBall replaces h by argmin Σ_j weight_j (z_j − h_j)² over ‖z‖ ≤ 1, weights positive, and reports whether h
// was outside. The solution is weight_j h_j / (weight_j + μ), with μ > 0 the root of 1/‖z(μ)‖ = 1, nearly linear and
// concave in μ: Newton's method from 0 climbs to it (Moré and Sorensen 1983).
func projectUnitBall(h, weight []float64) bool {
	if dense.Norm2(h) <= 1 {
		return false
	}
	mu := 0.0
	for range ballSteps {
		square, slope := 0.0, 0.0 // ‖z‖² and −½ d‖z‖²/dμ
		for j, x := range h {
			z := weight[j] * x / (weight[j] + mu)
			square += z * z
			slope += z * z / (weight[j] + mu)
		}
		norm := math.Sqrt(square)
		if norm <= 1+1e-14 || slope == 0 {
			break
		}
		mu += (norm - 1) * square / slope
	}
	for j := range h {
		h[j] *= weight[j] / (weight[j] + mu)
	}
	if norm := dense.Norm2(h); norm > 1 {
		floats.Scale(1/norm, h)
	}
	return true
}

// ballSteps bounds Newton's method, which takes three to eight steps.
const ballSteps = 50

// Floors of the metric, as parts of its largest entries: a basis vector of small weight gets one that would fit a
// weight growing to this part, a feature that hardly occurs no boundless step.
const (
	weightFloor = 0.1
	scaleFloor  = 1e-6
)

// metric stores in scale the diagonals of the two Gauss–Newton blocks at u, with the curvature bound of the loss for
// its Hessian: for row r of V, Σ_i w_i K(h_r,x_i)², and for h_rj, ‖v_r‖² Σ_i w_i (∂K(h_r,x_i)/∂h_rj)². It takes one
// pass.
func (f *FullFit) metric(scale, u []float64) {
	k, m := f.K, f.P.Outputs
	v, h := f.Split(u)
	curvature := f.P.Loss.Curvature(m)
	f.Workers.Blocks(f.P.X.NumRows(), f.size, func(worker, b, lo, hi int) {
		f.parts[b] = problem.Room(f.parts[b], k+len(h))
		part, work := f.parts[b], &f.scratch[worker]
		for a := lo; a < hi && f.Workers.Yield(); a += fullTile {
			end := min(hi, a+fullTile)
			f.activate(work, h, a, end)
			f.addSquares(part[:k], part[k:], work, h, a, end)
		}
	})
	total := make([]float64, k+len(h))
	parallel.SumInto(total, f.parts)
	scaleV, scaleH := f.Split(scale)
	largest := 0.0
	norms := make([]float64, k)
	for r := range k {
		norms[r] = dense.Norm2(v[r*m : r*m+m])
		largest = max(largest, norms[r])
	}
	top := floats.Max(total[:k])
	for r := range k {
		s := max(total[r], scaleFloor*top, math.SmallestNonzeroFloat64)
		if f.Form.Tau > 0 {
			s = top
		}
		for c := range m {
			scaleV[r*m+c] = curvature * s
		}
		norms[r] = max(norms[r], weightFloor*largest)
		norms[r] *= norms[r]
	}
	top = 0
	for i, s := range total[k:] {
		scaleH[i] = curvature * s * norms[i%k]
		top = max(top, scaleH[i])
	}
	for i := range scaleH {
		scaleH[i] = max(scaleH[i], scaleFloor*top)
	}
	for i, s := range scale {
		if !(s > 1e-300) { // nothing but zeros: any step will do
			scale[i] = 1
		}
	}
}

// addSquares adds w_i K² to inV (k) and w_i (∂K/∂h)² to inH (d×k) for rows lo..hi−1.
func (f *FullFit) addSquares(inV, inH []float64, work *fullScratch, h []float64, lo, hi int) {
	k := f.K
	for i := lo; i < hi; i++ {
		w := f.P.Weight(i)
		at := i - lo
		inner, pairs := work.row[:k], work.row[k:2*k]
		for r := range inner {
			inner[r] = work.inner[at]
			if f.Kernel == problem.ANOVA3 {
				pairs[r] = work.pairs[at]
			}
			inV[r] += w * work.phi[at] * work.phi[at]
			at += fullStride
		}
		index, value := f.P.X.Row(i)
		for e, j := range index {
			x := value[e]
			row, basis := inH[int(j)*k:int(j)*k+k], h[int(j)*k:int(j)*k+k]
			for r, p := range inner {
				slope := 2 * p * x
				switch f.Kernel {
				case problem.ANOVA:
					slope = x * (p - x*basis[r])
				case problem.ANOVA3:
					a := x * basis[r]
					slope = x * (pairs[r] - a*(p-a))
				case problem.Homogeneous3:
					slope = 3 * p * p * x
				}
				row[r] += w * slope * slope
			}
		}
	}
}
