package coordinate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/columns"
)

// point is what a descent moves.
type point struct {
	p [][]float64 // nil in the direct objective; factor t of unit s of the lifted one is p[t·k+s], of length d
	h []float64   // direct: d×k, feature-major
	v []float64   // k×m
	w []float64   // d×m, feature-major
	b []float64   // m
}

func (p *point) clone() point {
	c := point{h: slices.Clone(p.h), v: slices.Clone(p.v), w: slices.Clone(p.w), b: slices.Clone(p.b)}
	for _, u := range p.p {
		c.p = append(c.p, slices.Clone(u))
	}
	return c
}

// rule says what weighs on the weights v of the units.
type rule uint8

const (
	fixed  rule = iota // they do not move
	normed             // β Ω(v_s) ‖p_s‖²
	ridged             // ½β ‖v_s‖²
	single             // β |v_s| ‖p_s‖² on the only output of a unit
)

// group is the descent of the outputs that have to be descended together: all of them, or one. It is one type: all
// sweeps move the same point, and keep the same sums of rows.
type group struct {
	x       *columns.Matrix
	rows    *solver.Rows
	n, d, m int
	k       int    // units
	filled  []bool // units that a warm model gave
	loss    solver.Loss
	target  []float64 // n×m
	weight  []float64 // n, or nil
	kernel  solver.Kernel
	degree  int
	lifted  bool
	rule    rule
	signs   bool // weights start at +1 and −1 in turn
	swept   int  // sweeps since the start
	// output is the only output of each unit, where outputs that descend together have separate units; else nil.
	output []int
	norm   solver.Penalty
	beta   float64
	ridges [2]float64 // of linear term and bias
	// byFeature takes the coordinates of one feature together, for rows are short; else those of one unit.
	byFeature bool
	pace      *pace

	point
	state     []float64 // n×m predictions, for the squared loss less the targets
	objective float64

	block     block
	quadratic quadratic
	z, a      []float64   // n: ⟨p_s,x⟩ and A²(p_s,x) of the unit that moves
	part      [][]float64 // n: ⟨u_s^t,x⟩ of the factors
	slot      []float64   // derivatives of the rows of a column
	ones      []float64   // n
	work      []float64
}

// unitNorm returns Ω(v_s).
func (g *group) unitNorm(s int) float64 { return g.norm.Norm(g.v[s*g.m:s*g.m+g.m], 1, g.m) }

// basisRidge returns the ridge on the coordinates of unit s.
func (g *group) basisRidge(s int) float64 {
	switch {
	case g.lifted:
		return g.beta
	case g.rule == ridged:
		return 2 * g.beta
	}
	return 2 * g.beta * g.unitNorm(s)
}

// penalty returns all terms of the objective but the losses.
func (g *group) penalty() float64 {
	total := 0.5 * (g.ridges[0]*sumSquares(g.w) + g.ridges[1]*sumSquares(g.b))
	if g.rule == ridged {
		total += 0.5 * g.beta * sumSquares(g.v)
	}
	for _, u := range g.p {
		total += 0.5 * g.beta * sumSquares(u)
	}
	if g.lifted {
		return total
	}
	lengths := make([]float64, g.k)
	for at := 0; at < len(g.h); at += g.k {
		for s, x := range g.h[at : at+g.k] {
			lengths[s] += x * x
		}
	}
	for s, square := range lengths {
		total += 0.5 * g.basisRidge(s) * square
	}
	return total
}

// losses returns the sum of the weighted losses at the current state.
func (g *group) losses() float64 {
	m, total := g.m, 0.0
	if g.block.kind == residuals {
		for i := range g.n {
			total += 0.5 * g.weightOf(i) * sumSquares(g.state[i*m:i*m+m])
		}
		return total
	}
	for i := range g.n {
		total += g.weightOf(i) * g.loss.Eval(nil, g.state[i*m:i*m+m], g.target[i*m:i*m+m])
	}
	return total
}

func (g *group) weightOf(i int) float64 {
	if g.weight == nil {
		return 1
	}
	return g.weight[i]
}

// score takes the objective of the current state.
func (g *group) score() { g.objective = g.losses() + g.penalty() }

// predict takes the state anew from the point. It reports whether it was not called off.
func (g *group) predict() bool {
	m := g.m
	g.quadratic.known = false
	for i := range g.n {
		row := g.state[i*m : i*m+m]
		copy(row, g.b)
		if g.block.kind == residuals {
			for c, t := range g.target[i*m : i*m+m] {
				row[c] -= t
			}
		}
		if g.ridges[0] > 0 {
			index, value := g.rows.Row(i)
			for e, j := range index {
				for c, w := range g.w[int(j)*m : int(j)*m+m] {
					row[c] += w * value[e]
				}
			}
		}
	}
	for s := range g.k {
		if sumSquares(g.v[s*m:s*m+m]) == 0 {
			continue
		}
		phi := g.activations(s)
		if !g.pace.spend(2 * len(g.rows.Index)) {
			return false
		}
		for i, x := range phi {
			for c, v := range g.v[s*m : s*m+m] {
				g.state[i*m+c] += v * x
			}
		}
	}
	return true
}

// activations returns K(p_s, x) of the rows, or the product of the factors in its place.
func (g *group) activations(s int) []float64 {
	switch {
	case !g.lifted:
		p := g.unit(s)
		g.forms(p)
		if g.degree == 2 {
			return g.a
		}
		return g.cubes(p)
	case g.kernel == solver.ANOVA:
		g.factorForms(s, -1)
		u, v := g.p[s], g.p[g.k+s]
		for i := range g.n {
			index, value := g.rows.Row(i)
			diagonal := 0.0
			for e, j := range index {
				diagonal += u[j] * v[j] * value[e] * value[e]
			}
			g.a[i] = 0.5 * (g.part[0][i]*g.part[1][i] - diagonal)
		}
		return g.a
	}
	g.factorForms(s, -1)
	return g.products(g.a, -1)
}

// unit returns a copy of p_s in scratch memory.
func (g *group) unit(s int) []float64 {
	p := sized(g.work, g.d)
	g.work = p
	for j := range p {
		p[j] = g.h[j*g.k+s]
	}
	return p
}

// forms stores ⟨p,x⟩ in z and A²(p,x) in a.
func (g *group) forms(p []float64) {
	for i := range g.n {
		index, value := g.rows.Row(i)
		sum, square := 0.0, 0.0
		for e, j := range index {
			y := p[j] * value[e]
			sum += y
			square += y * y
		}
		g.z[i], g.a[i] = sum, 0.5*(sum*sum-square)
	}
}

// cubes stores A³(p,x) in part[0]: one feature after the other is added to A¹, A² and A³ (lemma 2).
func (g *group) cubes(p []float64) []float64 {
	for i := range g.n {
		index, value := g.rows.Row(i)
		one, two, three := 0.0, 0.0, 0.0
		for e, j := range index {
			y := p[j] * value[e]
			three += y * two
			two += y * one
			one += y
		}
		g.part[0][i] = three
	}
	return g.part[0]
}

// factorForms stores ⟨u_s^t,x⟩ in part[t] for all t but without, -1 for none.
func (g *group) factorForms(s, without int) {
	for t := range g.degree {
		if t == without {
			continue
		}
		u := g.p[t*g.k+s]
		for i := range g.n {
			index, value := g.rows.Row(i)
			sum := 0.0
			for e, j := range index {
				sum += u[j] * value[e]
			}
			g.part[t][i] = sum
		}
	}
}

// products stores the product of part[t] over all t but without in dst.
func (g *group) products(dst []float64, without int) []float64 {
	for i := range dst {
		dst[i] = 1
	}
	for t, part := range g.part[:g.degree] {
		if t == without {
			continue
		}
		for i, x := range part {
			dst[i] *= x
		}
	}
	return dst
}

// randomize starts the units that no warm model gave anew, with coordinates of the given variance, less where values of
// the feature are beyond ±1.
func (g *group) randomize(rng *rand.Rand, variance float64) {
	spread := math.Sqrt(variance)
	scale := make([]float64, g.d)
	for j := range scale {
		_, values := g.x.Column(j)
		top := 1.0
		for _, x := range values {
			top = max(top, math.Abs(x))
		}
		scale[j] = spread / top
	}
	for s := range g.k {
		if g.filled[s] {
			continue
		}
		g.startWeights(s, rng)
		if !g.lifted {
			for j, y := range scale {
				g.h[j*g.k+s] = y * rng.NormFloat64()
			}
			continue
		}
		for t := range g.degree {
			for j, y := range scale {
				g.p[t*g.k+s][j] = y * rng.NormFloat64()
			}
		}
	}
}

// weightsRest reports whether weights do not move, or not yet: as long as basis vectors are short, a penalty with a
// kink would drive their weights to 0 for good.
func (g *group) weightsRest() bool {
	return g.rule == fixed || g.rule != ridged && g.swept < restSweeps
}

// restSweeps is how many sweeps they rest.
const restSweeps = 5

// startWeights sets the weights of unit s at the start.
func (g *group) startWeights(s int, rng *rand.Rand) {
	row := g.v[s*g.m : s*g.m+g.m]
	clear(row)
	switch {
	case g.output != nil:
		row[g.output[s]] = 1
	case g.m == 1:
		row[0] = 1
	default:
		for c := range row {
			row[c] = rng.NormFloat64() / math.Sqrt(float64(g.m))
		}
	}
	if g.signs && s%2 == 1 {
		for c := range row {
			row[c] = -row[c]
		}
	}
}

// clearUnits takes all interactions away.
func (g *group) clearUnits() {
	clear(g.h)
	clear(g.v)
	for _, u := range g.p {
		clear(u)
	}
}

func sumSquares(x []float64) float64 {
	total := 0.0
	for _, y := range x {
		total += y * y
	}
	return total
}
