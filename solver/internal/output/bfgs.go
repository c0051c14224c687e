package output

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Bfgs are the last pairs of steps and differences of gradients of L-BFGS (Liu and Nocedal 1989), oldest first.
type Bfgs struct{ steps, turns [][]float64 }

// LinearMemory is the number of pairs.
const LinearMemory = 8

// Clone returns a copy that shares nothing.
func (b *Bfgs) Clone() (to Bfgs) {
	for t := range b.steps {
		to.steps, to.turns = append(to.steps, slices.Clone(b.steps[t])), append(to.turns, slices.Clone(b.turns[t]))
	}
	return to
}

// Remember adds the pair (step, gradient − last) unless it has no curvature, reusing the memory of the oldest.
func (b *Bfgs) Remember(step, gradient, last []float64) {
	var s, y []float64
	if len(b.steps) == LinearMemory {
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

// Direction stores −B g in dst, B the L-BFGS inverse Hessian by the two-loop recursion.
func (b *Bfgs) Direction(dst, gradient []float64) {
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
