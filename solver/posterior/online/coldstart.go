package online

import (
	"math"

	"github.com/refitd/refitd/solver/posterior"
)

// coldStart estimates θ, and for Gaussian labels their scale, from single events until the first refit does it
// properly.
type coldStart struct {
	state *posterior.State
	n     float64
	sum   []float64
	m2    float64
	known bool // the scale of the labels was given
}

// scaleLabels is how many labels set the scale of a Gaussian posterior that was not given one; until then only θ
// learns.
const scaleLabels = 30

func newColdStart(s *posterior.State) *coldStart {
	return &coldStart{
		state: s,
		sum:   make([]float64, len(s.Bias)),
		known: s.Likelihood != posterior.Gaussian || s.Noise > 0,
	}
}

// Learn adds one label and reports whether rows may learn from the event.
func (y *coldStart) Learn(target []float64) bool {
	s := y.state
	y.n++
	for c, t := range target {
		before := 0.0
		if y.n > 1 {
			before = y.sum[c] / (y.n - 1)
		}
		y.sum[c] += t
		y.settle(c)
		if s.Likelihood == posterior.Gaussian {
			y.m2 += (t - before) * (t - s.Bias[c]) / float64(len(target))
		}
	}
	if y.known {
		return true
	}
	if y.n < scaleLabels {
		return false
	}
	y.known = true
	s.SetPrior(posterior.PriorFor(posterior.Gaussian, math.Sqrt(y.m2/y.n)))
	return true
}

// settle sets θ of an output from the sum of its targets.
func (y *coldStart) settle(c int) {
	s := y.state
	switch s.Likelihood {
	case posterior.Gaussian:
		s.Bias[c] = y.sum[c] / y.n
	case posterior.Logistic:
		positive := (y.sum[c] + y.n) / 2
		s.Bias[c] = math.Log((positive + 1) / (y.n - positive + 1))
	default:
		s.Bias[c] = math.Log((y.sum[c] + 1) / (y.n + float64(len(s.Bias))))
	}
}

// correct has a label take the place of one that was added.
func (y *coldStart) correct(from, to []float64) {
	for c := range from {
		y.sum[c] += to[c] - from[c]
		if y.n > 0 {
			y.settle(c)
		}
	}
}
