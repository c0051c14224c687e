package posterior

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// FixedCurvature reports whether the weights ω of the pseudo-observations depend on nothing but the weight of the row.
func (s *State) FixedCurvature() bool { return s.Likelihood == Gaussian }

// softmaxWeight returns the curvature ω of the quadratic that approximates −log p of the multi-class loss along
// output c, whose probability is p, with the exact gradient. It is p, a majorant of the Hessian diag(p) − p pᵀ where
// the quadratic was taken: the curvature of log Σ_c exp(o_c) ≤ Σ_c exp(o_c − α) + α − 1. For the class that did occur
// it is at least Jaakkola and Jordan's weight at the log odds, which reach further: a label that surprises does not
// throw the update off.
//
// Curvatures that bound the loss everywhere are several times that, and the fit crawls and shrinks too much. On 79,000
// ratings as 5 classes, held-out log loss and accuracy after 12 sweeps from the same start: Böhning's ½ (1992) 1.281,
// .437; Bouchard's bound (2007) with a Jaakkola term per class, whose gradient is not that of the softmax, 1.284, .438;
// this 1.235, .448.
func softmaxWeight(p, target float64) float64 {
	p = min(max(p, leastProbability), 1-leastProbability)
	if target == 0 {
		return p
	}
	return max(p, Jaakkola(math.Abs(math.Log(p/(1-p)))))
}

// leastProbability keeps the weights of classes that are as good as ruled out above zero. Chosen by hand.
const leastProbability = 1e-6

// ObserveOutputs stores the pseudo-observations of o_c − θ_c for outputs of the given means and variances: ω and ω·t,
// times weight; of Logistic ones by the bound or not.
func (s *State) ObserveOutputs(omega, right, target, mean, variance []float64, weight float64, bound bool) {
	switch s.Likelihood {
	case Gaussian:
		for c, t := range target {
			omega[c] = weight * s.Noises[c]
			right[c] = omega[c] * (t - s.Bias[c])
		}
	case Logistic:
		for c, t := range target {
			w, slope := observeLogistic(bound, t, s.Bias[c]+mean[c], variance[c])
			omega[c] = weight * w
			right[c] = weight * (slope + w*mean[c])
		}
	default:
		floats.AddTo(right, s.Bias, mean)
		top := LogSumExp(right)
		for c, t := range target {
			p := math.Exp(right[c] - top)
			w := softmaxWeight(p, t)
			omega[c] = weight * w
			right[c] = weight * (t - p + w*mean[c])
		}
	}
}

// OutputLikelihood returns the expected log-likelihood of one example: exact for Gaussian, the bound at its optimum for
// Logistic, and to second order for Multinomial and one binary label; work has length m.
func (s *State) OutputLikelihood(target, mean, variance, work []float64) float64 {
	total := 0.0
	switch s.Likelihood {
	case Gaussian:
		for c, t := range target {
			e := t - s.Bias[c] - mean[c]
			total += 0.5*math.Log(s.Noises[c]/(2*math.Pi)) - 0.5*s.Noises[c]*(e*e+variance[c])
		}
	case Logistic:
		for c, t := range target {
			total += s.LogisticLikelihood(t, s.Bias[c]+mean[c], variance[c])
		}
	default:
		floats.AddTo(work, s.Bias, mean)
		top := LogSumExp(work)
		for c, t := range target {
			total += t*(work[c]-top) - 0.5*softmaxWeight(math.Exp(work[c]-top), t)*variance[c]
		}
	}
	return total
}

// MixOutputs is MixLoss for separate outputs: o holds the outputs, and may be overwritten.
func (s *State) MixOutputs(target, o []float64) float64 {
	total := 0.0
	switch s.Likelihood {
	case Gaussian:
		for c, t := range target {
			total += s.Noises[c] * (t - o[c]) * (t - o[c])
		}
		return total / float64(len(target))
	case Logistic:
		for c, t := range target {
			total += softplus(-t * o[c])
		}
		return logisticMix * total / float64(len(target))
	}
	return logisticMix * (LogSumExp(o) - floats.Dot(target, o))
}

// softplus returns log(1 + exp(v)) without overflow.
func softplus(v float64) float64 { return max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) }

// LogSumExp returns log Σ exp(v) without overflow.
func LogSumExp(v []float64) float64 {
	top := floats.Max(v)
	total := 0.0
	for _, x := range v {
		total += math.Exp(x - top)
	}
	return top + math.Log(total)
}
