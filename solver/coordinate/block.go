package coordinate

import (
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/internal/dense"
)

// gradients says how the gradients of a loss are taken.
type gradients uint8

const (
	// perRow evaluates the outputs of one row together.
	perRow gradients = iota
	// perOutput evaluates all outputs of many rows together: the loss is a sum over outputs.
	perOutput
	// residuals keeps prediction − target in place of predictions: the gradients of the squared loss.
	residuals
)

func gradientsOf(loss solver.Loss) gradients {
	switch loss.(type) {
	case solver.Squared:
		return residuals
	case solver.BinaryLogistic:
		return perOutput
	}
	return perRow
}

// block is the part of the problem that belongs to the rows of one column, side by side, while coordinates of that
// column move: row e of the block is row rows[e] of the problem.
type block struct {
	loss  solver.Loss
	mu    float64 // of the loss
	kind  gradients
	m     int
	omega float64 // Descent.Relaxation
	rows  []int32
	state []float64 // predictions, or residuals; a row has m
	// Of the rows; targets are not loaded for residuals, weights not where each counts once.
	target, weight []float64
	grad           []float64 // scratch for the weighted gradients
	scaled         []float64 // scratch for weight·g
	held           bool      // grad is that of the bound, and moves with the outputs
}

// load takes up the rows of a column; nil means all.
func (b *block) load(g *group, rows []int32) {
	m, n := b.m, len(rows)
	if rows == nil {
		n = g.n
	}
	b.rows, b.held = rows, false
	b.state, b.grad = sized(b.state, n*m), sized(b.grad, n*m)
	if b.kind != residuals {
		b.target = sized(b.target, n*m)
	}
	if g.weight != nil {
		b.weight = sized(b.weight, n)
	}
	if rows == nil {
		copy(b.state, g.state)
		copy(b.target, g.target)
		copy(b.weight, g.weight)
		return
	}
	gather(b.state, g.state, rows, m)
	if b.kind != residuals {
		gather(b.target, g.target, rows, m)
	}
	if g.weight != nil {
		gather(b.weight, g.weight, rows, 1)
	}
}

func gather(dst, src []float64, rows []int32, m int) {
	if m == 1 {
		for e, i := range rows {
			dst[e] = src[i]
		}
		return
	}
	for e, i := range rows {
		copy(dst[e*m:e*m+m], src[int(i)*m:int(i)*m+m])
	}
}

// store puts the predictions back.
func (b *block) store(g *group) {
	g.quadratic.known = false
	if b.rows == nil {
		copy(g.state, b.state)
		return
	}
	if b.m == 1 {
		for e, i := range b.rows {
			g.state[i] = b.state[e]
		}
		return
	}
	for e, i := range b.rows {
		copy(g.state[int(i)*b.m:int(i)*b.m+b.m], b.state[e*b.m:e*b.m+b.m])
	}
}

// gradient returns the weighted gradients of the losses, row by row.
func (b *block) gradient() []float64 {
	m := b.m
	switch {
	case b.held:
		return b.grad
	case b.kind == residuals && b.weight == nil:
		return b.state
	case b.kind == residuals:
		copy(b.grad, b.state)
	case b.kind == perOutput:
		b.loss.Eval(b.grad, b.state, b.target)
	default:
		for at := 0; at < len(b.state); at += m {
			b.loss.Eval(b.grad[at:at+m], b.state[at:at+m], b.target[at:at+m])
		}
	}
	for e, w := range b.weight {
		for c := range b.grad[e*m : e*m+m] {
			b.grad[e*m+c] *= w
		}
	}
	return b.grad
}

// slope returns Σ_e g_e ⟨v, ∂ℓ_e⟩: the derivative of the losses in a coordinate that moves the outputs of row
// e by g_e v.
func (b *block) slope(g, v []float64) float64 {
	grad := b.gradient()
	if b.m == 1 {
		return v[0] * dense.Dot(g, grad)
	}
	total := 0.0
	for e, x := range g {
		row, sum := grad[e*b.m:e*b.m+b.m], 0.0
		for c, y := range v {
			sum += y * row[c]
		}
		total += x * sum
	}
	return total
}

// slopes stores Σ_e g_e ∂ℓ_e in dst (m): the derivatives in weights of which each moves one output of row e by g_e.
func (b *block) slopes(dst, g []float64) {
	grad := b.gradient()
	if b.m == 1 {
		dst[0] = dense.Dot(g, grad)
		return
	}
	clear(dst)
	for e, x := range g {
		for c, y := range grad[e*b.m : e*b.m+b.m] {
			dst[c] += x * y
		}
	}
}

// curvature returns μ Σ_e weight_e g_e².
func (b *block) curvature(g []float64) float64 {
	if b.weight == nil {
		return b.mu * dense.Dot(g, g)
	}
	b.scaled = sized(b.scaled, len(g))
	for e, w := range b.weight {
		b.scaled[e] = w * g[e]
	}
	return b.mu * dense.Dot(b.scaled, g)
}

// shift adds by·g_e·v to the outputs of the rows.
func (b *block) shift(g, v []float64, by float64) {
	if b.m == 1 && !b.held {
		dense.AddScaled(b.state, by*v[0], g)
		return
	}
	for e, x := range g {
		x *= by
		for c, y := range v {
			b.state[e*b.m+c] += x * y
		}
		if b.held {
			if x *= b.mu; b.weight != nil {
				x *= b.weight[e]
			}
			for c, y := range v {
				b.grad[e*b.m+c] += x * y
			}
		}
	}
}

// step returns by how much to lower a coordinate at the value at, which moves the outputs of row e by g_e v, under ½
// ridge times its square, and moves the outputs. Curvature is that of g. The step to the least of the bound is made
// longer by omega.
func (b *block) step(g, v []float64, curvature, at, ridge float64) float64 {
	square := 0.0
	for _, y := range v {
		square += y * y
	}
	eta := curvature*square + ridge
	if !(eta > 0) {
		return 0
	}
	delta := b.omega * (b.slope(g, v) + ridge*at) / eta
	if delta != 0 {
		b.shift(g, v, -delta)
	}
	return delta
}

// weigh moves a row of m weights, each of which moves its output of row e by g_e: prox replaces the row by what a
// penalty of strength 1/η leaves of it. Work has 2m numbers.
func (b *block) weigh(row, g, work []float64, ridge float64, prox func(row []float64, share float64)) {
	eta := b.curvature(g) + ridge
	if !(eta > 0) {
		return
	}
	next, slope := work[:b.m], work[b.m:2*b.m]
	b.slopes(slope, g)
	for c, at := range row {
		next[c] = at - (slope[c]+ridge*at)/eta
	}
	if prox != nil {
		prox(next, 1/eta)
	}
	for c, x := range next {
		slope[c] = x - row[c]
	}
	b.shift(g, slope, 1)
	copy(row, next)
}

// sized returns x with the given length.
func sized(x []float64, size int) []float64 {
	if cap(x) < size {
		return make([]float64, size)
	}
	return x[:size]
}
