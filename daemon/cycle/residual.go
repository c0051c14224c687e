package cycle

import (
	"math"

	"github.com/refitd/refitd/snapshot"
)

// residuals judge outputs of a learner that stands beside the fold-in: those of exclusive classes (softmax), of classes of their own (logistic), or
// a number in units of the label's deviation, whose error is Gaussian with a variance that is estimated.
type residuals struct {
	link  string
	noise fading // squared residuals of numbers
}

// noiseFade is how fast squared residuals fade, and residualReach how many deviations of them one counts as at most.
const (
	noiseFade     = 0.999
	residualReach = 4.0
)

func newResiduals(t *Target) residuals {
	r := residuals{link: t.Link, noise: fading{rate: noiseFade}}
	if t.IsNumeric() {
		r.link = snapshot.Identity
	}
	return r
}

// of stores target − prediction of every output in dst, and returns the logarithmic loss, up to a constant for numbers, and the curvature of the loss
// in the outputs, one number for all of them. dst may not be outputs.
func (r *residuals) of(dst, outputs, targets []float64) (loss, curvature float64) {
	switch r.link {
	case snapshot.Softmax:
		softmaxTo(dst, outputs)
		for c, p := range dst {
			curvature += p * (1 - p)
			dst[c] = -p
			if targets[c] > 0 {
				loss -= math.Log(max(p, leastProbability))
				dst[c]++
			}
		}
		curvature /= math.Sqrt(float64(len(dst) - 1))
	case snapshot.Identity:
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
			loss -= math.Log(max(1-math.Abs(dst[c]), leastProbability))
		}
	}
	return loss, max(curvature, leastCurvature)
}

// leastCurvature keeps events that were predicted with near certainty from counting for nothing.
const leastCurvature = 1e-3

// variance of the residuals of numbers so far, that of the labels before there were any.
func (r *residuals) variance() float64 {
	const prior = 10 // events
	return max((r.noise.sum+prior)/(r.noise.n+prior), 1e-6)
}

// add takes up the residual of the prediction that was given for an event.
func (r *residuals) add(residual float64) {
	if r.link == snapshot.Identity {
		r.noise.add(residual * residual)
	}
}

// experts weighs predictors by recent loss: exp(−losses that fade at every event). One event's loss is bounded.
type experts struct {
	losses  []float64
	weights []float64
}

func newExperts(n int) experts { return experts{make([]float64, n), make([]float64, n)} }

// weigh sets the weights, which add up to 1.
func (e *experts) weigh() {
	least, total := math.Inf(1), 0.0
	for _, v := range e.losses {
		least = min(least, v)
	}
	for i, v := range e.losses {
		e.weights[i] = math.Exp(least - v)
		total += e.weights[i]
	}
	for i := range e.weights {
		e.weights[i] /= total
	}
}

// add takes up the loss of expert i on an event.
func (e *experts) add(i int, loss float64) {
	if !(loss <= gradientLossMax) {
		loss = gradientLossMax
	}
	e.losses[i] = gradientLossFade*e.losses[i] + loss
}
