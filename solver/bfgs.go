package solver

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// bfgs are the last pairs of steps and differences of gradients of L-BFGS (Liu and Nocedal 1989), oldest first.
type bfgs struct{ steps, turns [][]float64 }

// linearMemory is the number of pairs.
const linearMemory = 8

// clone returns a copy that shares nothing.
func (b *bfgs) clone() (to bfgs) {
	for t := range b.steps {
		to.steps, to.turns = append(to.steps, slices.Clone(b.steps[t])), append(to.turns, slices.Clone(b.turns[t]))
	}
	return to
}

// remember adds the pair (step, gradient − last) unless it has no curvature, reusing the memory of the oldest.
func (b *bfgs) remember(step, gradient, last []float64) {
	var s, y []float64
	if len(b.steps) == linearMemory {
		s, y = b.steps[0], b.turns[0]
		b.steps, b.turns = append(b.steps[:0], b.steps[1:]...), append(b.turns[:0], b.turns[1:]...)
	} else {
		s, y = make([]float64, len(step)), make([]float64, len(step))
	}
	copy(s, step)
	floats.SubTo(y, gradient, last)
	if floats.Dot(s, y) > 1e-12*floats.Dot(s, s) {
		b.steps, b.turns = append(b.steps, s), append(b.turns, y)
	}
}

// direction stores −B g in dst, B the L-BFGS inverse Hessian by the two-loop recursion.
func (b *bfgs) direction(dst, gradient []float64) {
	for i, g := range gradient {
		dst[i] = -g
	}
	alpha := make([]float64, len(b.steps))
	for t := len(b.steps) - 1; t >= 0; t-- {
		alpha[t] = floats.Dot(b.steps[t], dst) / floats.Dot(b.steps[t], b.turns[t])
		floats.AddScaled(dst, -alpha[t], b.turns[t])
	}
	if t := len(b.steps) - 1; t >= 0 {
		floats.Scale(floats.Dot(b.steps[t], b.turns[t])/floats.Dot(b.turns[t], b.turns[t]), dst)
	}
	for t := range b.steps {
		beta := floats.Dot(b.turns[t], dst) / floats.Dot(b.steps[t], b.turns[t])
		floats.AddScaled(dst, alpha[t]-beta, b.steps[t])
	}
}
