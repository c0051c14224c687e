package coordinate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/solver"
)

// maxParameter bounds the parameters of a warm model, so that no square of a prediction overflows.
const maxParameter = 1e12

// checkModel returns an error that wraps solver.ErrSettings if a warm model does not fit the problem.
func (r *run) checkModel(model *solver.Model) error {
	d, m, k := r.p.X.NumColumns, r.p.Outputs, model.NumBasis
	switch {
	case model.Kernel != r.s.Kernel:
		return fmt.Errorf("%w: warm start: model has kernel %v of degree %d, not %v of degree %d", solver.ErrSettings,
			model.Kernel, model.Kernel.Degree(), r.s.Kernel, r.s.Kernel.Degree())
	case model.NumFeatures != d || model.NumOutputs != m:
		return fmt.Errorf("%w: warm start: model of %d features and %d outputs for a problem of %d and %d",
			solver.ErrSettings, model.NumFeatures, model.NumOutputs, d, m)
	case len(model.Basis) != d*k || len(model.Weights) != k*m || len(model.Bias) != m || model.Linear != nil && len(
		model.Linear) != d*m:
		return fmt.Errorf("%w: warm start: model of %d basis vectors has parts of other lengths", solver.ErrSettings, k)
	}
	for _, part := range [][]float64{model.Basis, model.Weights, model.Linear, model.Bias} {
		for _, x := range part {
			if !(math.Abs(x) <= maxParameter) {
				return fmt.Errorf("%w: warm start: model has a parameter %g, beyond ±%g", solver.ErrSettings, x,
					maxParameter)
			}
		}
	}
	return nil
}

// load takes over a warm model: the strongest of its basis vectors where there are more than units.
func (r *run) load(model *solver.Model) error {
	if err := r.checkModel(model); err != nil {
		return err
	}
	r.warm = true
	d, m, k := model.NumFeatures, model.NumOutputs, model.NumBasis
	for at, g := range r.groups {
		lo := at * g.m
		if g.ridges[1] > 0 {
			copy(g.b, model.Bias[lo:lo+g.m])
		}
		if g.ridges[0] > 0 && model.Linear != nil {
			for j := range d {
				copy(g.w[j*g.m:j*g.m+g.m], model.Linear[j*m+lo:j*m+lo+g.m])
			}
		}
		var vectors []vector
		for s := range k {
			v := vector{make([]float64, d), slices.Clone(model.Weights[s*m+lo : s*m+lo+g.m])}
			for j := range d {
				v.h[j] = model.Basis[j*k+s]
			}
			vectors = append(vectors, v)
		}
		least := lostLength * math.Sqrt(g.variance*float64(d))
		g.takeOver(slices.DeleteFunc(unitLength(vectors, g.degree), func(v vector) bool {
			return math.Pow(norm(v.weights), 1/float64(g.degree)) < least
		}))
	}
	return nil
}

// lostLength is how short a basis vector is, relative to one of a random start, that a strong λ has driven to
// nothing: there its gradient vanishes, so that under a weaker λ it would stay there. Its unit begins anew.
const lostLength = 1e-2

// takeOver fills units with basis vectors of unit length.
func (g *group) takeOver(vectors []vector) {
	if g.output == nil {
		g.fill(0, g.k, vectors)
		return
	}
	each := g.k / g.m
	for c := range g.m {
		var own []vector
		for _, v := range vectors {
			if w := v.weights[c]; w != 0 {
				weights := make([]float64, g.m)
				weights[c] = w
				own = append(own, vector{v.h, weights})
			}
		}
		g.fill(c*each, each, own)
	}
}

// fill makes the first of size units, from lo on, of basis vectors.
func (g *group) fill(lo, size int, vectors []vector) {
	var units []unit
	switch {
	case !g.lifted:
		for _, v := range vectors {
			units = append(units, unit{weights: v.weights, factors: [][]float64{v.h}, strength: norm(v.weights)})
		}
	case g.degree == 3:
		units = cubicUnits(vectors)
	default:
		units = quadraticUnits(vectors)
	}
	if len(units) > size {
		order := slices.Clone(units)
		slices.SortStableFunc(order, func(a, b unit) int { return cmp.Compare(b.strength, a.strength) })
		least := order[size-1].strength
		units = slices.DeleteFunc(units, func(u unit) bool { return u.strength < least })
		units = units[:size]
	}
	for at, u := range units {
		g.put(lo+at, u)
	}
}

// unit is the product of factors with a row of weights. The direct objective has one factor, of unit length.
type unit struct {
	weights  []float64
	factors  [][]float64
	strength float64 // of its tensor
}

// put makes u unit s, with its strength spread over factors and weights as their penalties like it best.
func (g *group) put(s int, u unit) {
	g.filled[s], g.swept = true, restSweeps
	row := g.v[s*g.m : s*g.m+g.m]
	if g.lifted {
		size := u.strength
		weights := 1.0
		if g.rule == ridged {
			weights = math.Pow(size, 1/float64(g.degree+1))
		}
		length := math.Pow(size/weights, 1/float64(g.degree))
		for c, w := range u.weights {
			row[c] = w / norm(u.weights) * weights
		}
		if g.rule != ridged {
			for c := range row {
				if row[c] < 0 { // weights do not move: the first factor has the sign
					row[c] = -row[c]
					scale(u.factors[0], -1)
				}
			}
		}
		for t, f := range u.factors {
			copy(g.p[t*g.k+s], f)
			scale(g.p[t*g.k+s], length/norm(f))
		}
		return
	}
	var length float64 // of the basis vector
	switch {
	case g.rule == ridged:
		length = math.Pow(1.5*u.strength*u.strength, 1.0/8) // least ‖p‖² + ½‖v‖² where ‖v‖‖p‖³ is given
	default:
		length = math.Pow(g.norm.Norm(u.weights, 1, g.m), 1/float64(g.degree))
	}
	copy(row, u.weights)
	scale(row, math.Pow(length, -float64(g.degree)))
	sign := 1.0
	if g.degree == 3 && g.rule == fixed {
		for c := range row {
			if row[c] < 0 {
				row[c], sign = -row[c], -1
			}
		}
	}
	for j, x := range u.factors[0] {
		g.h[j*g.k+s] = sign * length * x
	}
}

func norm(x []float64) float64 { return math.Sqrt(sumSquares(x)) }

// quadraticUnits pairs basis vectors of positive and negative weight, the strongest first: a pp' − b qq' is the
// symmetric part of uv' with u, v = √a p ± √b q. Those without a partner are squares. Weights of several outputs pair
// if they are opposite.
func quadraticUnits(vectors []vector) []unit {
	order := slices.Clone(vectors)
	slices.SortStableFunc(order, func(a, b vector) int { return cmp.Compare(norm(b.weights), norm(a.weights)) })
	var units []unit
	used := make([]bool, len(order))
	for i, v := range order {
		if used[i] {
			continue
		}
		used[i] = true
		size := norm(v.weights)
		partner := i + 1
		for partner < len(order) && (used[partner] || cosine(v.weights, order[partner].weights) > -1+parallelSlack) {
			partner++
		}
		u, w := slices.Clone(v.h), slices.Clone(v.h)
		scale(u, math.Sqrt(size))
		scale(w, math.Sqrt(size))
		if partner < len(order) {
			used[partner] = true
			other := math.Sqrt(norm(order[partner].weights))
			for j, x := range order[partner].h {
				u[j] += other * x
				w[j] -= other * x
			}
		}
		units = append(units, unit{v.weights, [][]float64{u, w}, norm(u) * norm(w)})
	}
	return units
}

// parallelSlack is how far the cosine of two rows of weights that were one before they were stored may be from ±1.
const parallelSlack = 1e-6

// cosine returns that of two rows, neither of which is 0.
func cosine(a, b []float64) float64 {
	dot := 0.0
	for c, x := range a {
		dot += x * b[c]
	}
	return dot / (norm(a) * norm(b))
}

// cubicUnits undoes polarize where four basis vectors in a row came from it, and takes the others as cubes.
func cubicUnits(vectors []vector) []unit {
	var units []unit
	for len(vectors) > 0 {
		if len(vectors) >= 4 {
			if u, ok := unpolarize(vectors[:4]); ok {
				units, vectors = append(units, u), vectors[4:]
				continue
			}
		}
		v := vectors[0]
		units = append(units,
			unit{v.weights, [][]float64{slices.Clone(v.h), slices.Clone(v.h), slices.Clone(v.h)}, norm(v.weights)})
		vectors = vectors[1:]
	}
	return units
}

// unpolarize returns the unit that polarize took apart into four basis vectors, or false: (a+b+c) + (a−b−c) and
// (a+b−c) + (a−b+c) are both 2a.
func unpolarize(four []vector) (unit, bool) {
	var p [4][]float64 // a+b+c, a−b−c, a+b−c, a−b+c, as polarize orders its signs
	weights := slices.Clone(four[0].weights)
	scale(weights, 1/norm(weights))
	for t, sign := range [4]float64{1, 1, -1, -1} {
		cos := cosine(weights, four[t].weights)
		if math.Abs(math.Abs(cos)-1) > parallelSlack {
			return unit{}, false
		}
		p[t] = slices.Clone(four[t].h)
		scale(p[t], math.Copysign(math.Cbrt(24*norm(four[t].weights)), cos*sign))
	}
	d := len(p[0])
	a, b, c := make([]float64, d), make([]float64, d), make([]float64, d)
	off, size := 0.0, 0.0
	for j := range d {
		a[j], b[j], c[j] = 0.5*(p[0][j]+p[1][j]), 0.5*(p[0][j]-p[3][j]), 0.5*(p[0][j]-p[2][j])
		x := p[0][j] + p[1][j] - p[2][j] - p[3][j]
		off += x * x
		size += p[0][j]*p[0][j] + p[1][j]*p[1][j]
	}
	if off > groupSlack*size || norm(a) == 0 || norm(b) == 0 || norm(c) == 0 {
		return unit{}, false
	}
	return unit{weights, [][]float64{a, b, c}, norm(a) * norm(b) * norm(c)}, true
}

// groupSlack is the relative square that four vectors may be off by, for they were stored in single precision.
const groupSlack = 1e-8
