package experts

import (
	"math"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/snapshot/format"
)

// residuals judge the outputs of an expert: those of exclusive classes (softmax), of independent classes (logistic), or
// a number in units of the label's deviation, whose error is Gaussian with a variance that is estimated.
type residuals struct {
	link  string
	Noise evaluate.Fading // squared residuals of numbers
}

// NoiseFade is how fast squared residuals fade, and residualReach how many deviations of them one counts as at most.
// Chosen by hand.
const (
	NoiseFade     = 0.999
	residualReach = 4.0
)

func newResiduals(t *encode.Target) residuals {
	r := residuals{link: t.Link, Noise: evaluate.Fading{Rate: NoiseFade}}
	if t.IsNumeric() {
		r.link = format.Identity
	}
	return r
}

// of stores target − prediction of every output in dst, and returns the logarithmic loss, up to a constant for numbers,
// and the curvature of the loss in the outputs, one number for all of them. dst may not be outputs.
func (r *residuals) of(dst, outputs, targets []float64) (loss, curvature float64) {
	switch r.link {
	case format.Softmax:
		evaluate.SoftmaxTo(dst, outputs)
		for c, p := range dst {
			curvature += p * (1 - p)
			dst[c] = -p
			if targets[c] > 0 {
				loss -= math.Log(max(p, evaluate.LeastProbability))
				dst[c]++
			}
		}
		curvature /= math.Sqrt(float64(len(dst) - 1))
	case format.Identity:
		variance := r.variance()
		reach := residualReach * math.Sqrt(variance)
		dst[0] = min(max(targets[0]-outputs[0], -reach), reach)
		return dst[0] * dst[0] / (2 * variance), 1 / variance
	default:
		for c, o := range outputs {
			p := 1 / (1 + math.Exp(-o))
			curvature += p * (1 - p) / float64(len(outputs))
			if dst[c] = -p; targets[c] > 0 {
				dst[c]++
			}
			loss -= math.Log(max(1-math.Abs(dst[c]), evaluate.LeastProbability))
		}
	}
	return loss, max(curvature, leastCurvature)
}

// leastCurvature keeps events that were predicted with near certainty from counting for nothing. Chosen by hand.
const leastCurvature = 1e-3

// variance of the residuals of numbers so far, that of the labels before there were any.
func (r *residuals) variance() float64 {
	const prior = 10 // events
	return max((r.Noise.Sum+prior)/(r.Noise.N+prior), 1e-6)
}

// add takes up the residual of the prediction that was given for an event.
func (r *residuals) add(residual float64) {
	if r.link == format.Identity {
		r.Noise.Add(residual * residual)
	}
}

// Weights weighs predictors by recent loss: exp(−losses that fade at every event). One event's loss is bounded.
type Weights struct {
	Losses  []float64
	Weights []float64
}

func NewWeights(n int) Weights { return Weights{make([]float64, n), make([]float64, n)} }

// Weigh sets the weights, which add up to 1.
func (e *Weights) Weigh() {
	least, total := math.Inf(1), 0.0
	for _, v := range e.Losses {
		least = min(least, v)
	}
	for i, v := range e.Losses {
		e.Weights[i] = math.Exp(least - v)
		total += e.Weights[i]
	}
	for i := range e.Weights {
		e.Weights[i] /= total
	}
}

// Add takes up the loss of expert i on an event.
func (e *Weights) Add(i int, loss float64) {
	if !(loss <= gradientLossMax) {
		loss = gradientLossMax
	}
	e.Losses[i] = gradientLossFade*e.Losses[i] + loss
}

// correction stores by how much the residuals of a corrected label differ in dst, in the units of targets, and returns
// the curvature of the loss in an output, at most.
func (r *residuals) correction(dst, from, to []float64) (curvature float64) {
	if r.link == format.Identity {
		variance := r.variance()
		reach := residualReach * math.Sqrt(variance)
		dst[0] = min(max(to[0]-from[0], -reach), reach)
		return 1 / variance
	}
	for c := range dst {
		dst[c] = encode.One(to[c]) - encode.One(from[c])
	}
	return mostCurved
}

// mostCurved is the curvature of a logistic loss where the odds are even. Derived.
const mostCurved = 0.25
