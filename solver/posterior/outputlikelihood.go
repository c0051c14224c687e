package posterior

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// multinomialCurvature is Böhning's (1992): the Hessian of log Σ_c exp(o_c), diag(p) − p pᵀ, is nowhere above ½ I, so the quadratic with
// the exact gradient at any point and this curvature is a bound. Böhning's own matrix ½(I − 1 1ᵀ/m) is smaller in the direction 1 only,
// in which no gradient points; the diagonal one leaves the outputs uncoupled.
const multinomialCurvature = 0.5

// fixedCurvature reports whether the weights ω of the pseudo-observations depend on nothing but the weight of the row.
func (s *State) fixedCurvature() bool { return s.Likelihood != Logistic }

// observeOutputs stores the pseudo-observations of o_c − θ_c for outputs of the given means and variances: ω and ω·t, times weight.
func (s *State) observeOutputs(omega, right, target, mean, variance []float64, weight float64) {
	switch s.Likelihood {
	case Gaussian:
		for c, t := range target {
			omega[c] = weight * s.Noises[c]
			right[c] = omega[c] * (t - s.Bias[c])
		}
	case Logistic:
		for c, t := range target {
			o := s.Bias[c] + mean[c]
			w := jaakkola(math.Sqrt(o*o + variance[c]))
			omega[c] = weight * w
			right[c] = weight * (0.5*t - w*s.Bias[c])
		}
	default:
		floats.AddTo(right, s.Bias, mean)
		top := logSumExp(right)
		for c, t := range target {
			omega[c] = weight * multinomialCurvature
			right[c] = weight * (t - math.Exp(right[c]-top) + multinomialCurvature*mean[c])
		}
	}
}

// outputLikelihood returns the expected log-likelihood of one example, for Logistic and Multinomial the bound at its optimum; work has
// length m.
func (s *State) outputLikelihood(target, mean, variance, work []float64) float64 {
	total := 0.0
	switch s.Likelihood {
	case Gaussian:
		for c, t := range target {
			e := t - s.Bias[c] - mean[c]
			total += 0.5*math.Log(s.Noises[c]/(2*math.Pi)) - 0.5*s.Noises[c]*(e*e+variance[c])
		}
	case Logistic:
		for c, t := range target {
			o := s.Bias[c] + mean[c]
			xi := math.Sqrt(o*o + variance[c])
			total += 0.5*(t*o-xi) - math.Log1p(math.Exp(-xi))
		}
	default:
		floats.AddTo(work, s.Bias, mean)
		total = floats.Dot(target, work) - floats.Sum(target)*logSumExp(work) - 0.5*multinomialCurvature*floats.Sum(variance)
	}
	return total
}

// mixOutputs is mixLoss for separate outputs: o holds the outputs, and may be overwritten.
func (s *State) mixOutputs(target, o []float64) float64 {
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
	return logisticMix * (logSumExp(o) - floats.Dot(target, o))
}

// softplus returns log(1 + exp(v)) without overflow.
func softplus(v float64) float64 { return max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) }

// logSumExp returns log Σ exp(v) without overflow.
func logSumExp(v []float64) float64 {
	top := floats.Max(v)
	total := 0.0
	for _, x := range v {
		total += math.Exp(x - top)
	}
	return top + math.Log(total)
}
