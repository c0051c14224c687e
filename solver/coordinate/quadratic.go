package coordinate

import (
	"math"

	"github.com/refitd/refitd/solver"
)

// quadratic is a quadratic function in place of the losses of several outputs that are evaluated row by row while the
// coordinates of one basis vector, one factor or the linear term move, so that they are evaluated once and not for
// each coordinate. It has their gradients, and their second derivatives as they are where it was taken (local) or μ,
// which bounds them everywhere. What lowers the bound lowers the losses; what lowers the other is undone, and moved
// again under the bound, unless the objective fell.
type quadratic struct {
	known    bool      // value and gradient are those of the state
	value    float64   // Σ_i weight_i·loss
	gradient []float64 // n×m, without weights
	next     []float64 // n×m: a state to try
	tried    []float64 // n×m: the gradients there
	working  []float64 // n×m: the gradients of the function, with weights, while terms move
	second   []float64 // n×m: its second derivatives then
	slope    []float64 // n: of the function in how far the outputs of a row moved along the weights of a unit
	curve    []float64 // n: its curvature there
	moved    []float64 // n: how far they did
}

// leastCurve is the least part of μ that is taken for a second derivative.
const leastCurve = 1e-3

// isQuadratic reports whether such functions are used in place of the losses.
func (g *group) isQuadratic() bool { return g.block.kind == perRow && g.m > 1 }

// hasLocal reports whether the second derivatives of the losses are known: diag(p) − pp' with p the gradient and the
// target.
func (g *group) hasLocal() bool {
	switch g.loss.(type) {
	case solver.MultinomialLogistic, solver.SmoothedHinge:
		return true
	}
	return false
}

// know evaluates the losses unless they are known.
func (g *group) know() {
	q, size := &g.quadratic, g.n*g.m
	if q.gradient = sized(q.gradient, size); !q.known {
		q.value, q.known = g.evaluate(q.gradient, g.state), true
	}
	q.next, q.tried = sized(q.next, size), sized(q.tried, size)
}

// evaluate returns the sum of the weighted losses at a state and stores their gradients, without weights.
func (g *group) evaluate(grad, state []float64) float64 {
	m, total := g.m, 0.0
	for i := range g.n {
		total += g.weightOf(i) * g.loss.Eval(grad[i*m:i*m+m], state[i*m:i*m+m], g.target[i*m:i*m+m])
	}
	return total
}

// accept makes next the state if the losses there and a change of the penalty lower the objective.
func (g *group) accept(change float64) bool {
	q := &g.quadratic
	value := g.evaluate(q.tried, q.next)
	if !(value+change <= q.value+1e-13*math.Abs(q.value)) {
		return false
	}
	q.value, q.gradient, q.tried = value, q.tried, q.gradient
	g.state, q.next = q.next, g.state
	return true
}

// locals says which second derivatives are tried, in turn: those there, where they are known, and their bound.
func (g *group) locals() []bool {
	if g.hasLocal() {
		return []bool{true, false}
	}
	return []bool{false}
}

// moveAlong moves coordinates x, whose changes move the outputs of rows along v, by pass, which goes by step. renew
// recomputes what else changes with x.
func (g *group) moveAlong(v, x []float64, ridge float64, pass, renew func()) {
	g.know()
	q, before, m := &g.quadratic, append([]float64(nil), x...), g.m
	for _, local := range g.locals() {
		g.takeAlong(v, local)
		pass()
		for i, by := range q.moved {
			for c, y := range v {
				q.next[i*m+c] = g.state[i*m+c] + by*y
			}
		}
		if g.accept(0.5 * ridge * (sumSquares(x) - sumSquares(before))) {
			return
		}
		copy(x, before)
		renew()
	}
}

// takeAlong takes the function along the weights v of a unit.
func (g *group) takeAlong(v []float64, local bool) {
	q, m := &g.quadratic, g.m
	q.slope, q.curve, q.moved = sized(q.slope, g.n), sized(q.curve, g.n), sized(q.moved, g.n)
	clear(q.moved)
	square := sumSquares(v)
	for i := range q.slope {
		slope, mean, second := 0.0, 0.0, 0.0
		target := g.target[i*m : i*m+m]
		for c, y := range q.gradient[i*m : i*m+m] {
			slope += v[c] * y
			p := v[c] * (y + target[c])
			mean += p
			second += v[c] * p
		}
		curve, w := g.block.mu*square, g.weightOf(i)
		if local {
			curve = max(second-mean*mean, leastCurve*curve)
		}
		q.slope[i], q.curve[i] = w*slope, w*curve
	}
}

// stepAlong is block.step under the function, for the rows of a column.
func (g *group) stepAlong(rows []int32, slot []float64, at, ridge float64) float64 {
	q := &g.quadratic
	slope, eta := ridge*at, ridge
	for e, i := range rows {
		x := slot[e]
		slope += x * q.slope[i]
		eta += x * x * q.curve[i]
	}
	if !(eta > 0) {
		return 0
	}
	delta := g.block.omega * slope / eta
	if delta != 0 {
		for e, i := range rows {
			x := delta * slot[e]
			q.slope[i] -= x * q.curve[i]
			q.moved[i] -= x
		}
	}
	return delta
}

// term is some weights, m each, of which each moves its output of the rows by their values.
type term struct {
	weights []float64
	rows    []int32 // nil for all
	values  []float64
}

func (t *term) row(e int) int {
	if t.rows == nil {
		return e
	}
	return int(t.rows[e])
}

// moveTerms moves terms under a common ridge: bias, linear term, or the weights of a unit. Of each row the second
// derivatives are taken for diag(p), which is no less than diag(p) − pp'.
func (g *group) moveTerms(ridge float64, terms func(yield func(t term) bool)) {
	g.know()
	q, m := &g.quadratic, g.m
	q.working, q.second = sized(q.working, g.n*m), sized(q.second, g.n*m)
	slope, eta := make([]float64, m), make([]float64, m)
	for _, local := range g.locals() {
		copy(q.next, g.state)
		g.expand(local)
		var before []float64
		change := 0.0
		terms(func(t term) bool {
			before = append(before, t.weights...)
			clear(slope)
			for c := range eta {
				eta[c] = ridge
			}
			for e, x := range t.values {
				i := t.row(e) * m
				first, second := q.working[i:i+m], q.second[i:i+m]
				for c, y := range first {
					slope[c] += x * y
					eta[c] += x * x * second[c]
				}
			}
			for c, at := range t.weights {
				if !(eta[c] > 0) {
					slope[c] = 0
					continue
				}
				slope[c] = -(slope[c] + ridge*at) / eta[c]
				t.weights[c] += slope[c]
				change += 0.5 * ridge * (t.weights[c]*t.weights[c] - at*at)
			}
			for e, x := range t.values {
				i := t.row(e) * m
				first, second, next := q.working[i:i+m], q.second[i:i+m], q.next[i:i+m]
				for c, y := range slope {
					by := x * y
					next[c] += by
					first[c] += by * second[c]
				}
			}
			return g.pace.spend(8 * len(t.values) * m)
		})
		if g.accept(change) {
			return
		}
		terms(func(t term) bool {
			if len(before) < m {
				return false
			}
			before = before[copy(t.weights, before):]
			return true
		})
	}
}

// expand takes the loss of each row as a quadratic around the state: with the curvature there where local, else with
// the one that bounds it.
func (g *group) expand(local bool) {
	q, m := &g.quadratic, g.m
	for i := range g.n {
		w := g.weightOf(i)
		for k := i * m; k < (i+1)*m; k++ {
			second := g.block.mu
			if local {
				second = max(q.gradient[k]+g.target[k], leastCurve*second)
			}
			q.working[k], q.second[k] = w*q.gradient[k], w*second
		}
	}
}

// hold keeps the gradients of the rows of a column as they are at the outputs now, and lets shift move them as those of
// the bound.
func (b *block) hold() {
	b.gradient()
	b.held = true
}
