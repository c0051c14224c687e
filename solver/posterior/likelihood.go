package posterior

import "math"

// Likelihood says how the outputs o_c = θ_c + z explain the targets.
type Likelihood uint8

const (
	// Gaussian is squared loss on one output: targets are numbers.
	Gaussian Likelihood = iota + 1
	// Logistic is binary logistic loss on each output: targets are ±1.
	Logistic
	// Multinomial is multi-class logistic loss: targets are one-hot. Outputs must be separate.
	Multinomial
)

// String returns the name used in traces.
func (l Likelihood) String() string {
	switch l {
	case Gaussian:
		return "gaussian"
	case Logistic:
		return "logistic"
	}
	return "multinomial"
}

// jaakkola returns 2λ(ξ) = tanh(ξ/2)/(2ξ), the weight of the quadratic bound on the logistic loss (Jaakkola and Jordan 2000, eq. 12).
func jaakkola(xi float64) float64 { return jaakkolaExp(xi, math.Exp(-xi)) }

// jaakkolaExp is jaakkola where e = exp(−ξ) is known.
func jaakkolaExp(xi, e float64) float64 {
	if xi < 1e-4 {
		return 0.25 - xi*xi/48
	}
	return (1 - e) / ((1 + e) * 2 * xi)
}

// pseudo returns the precision ω and ω·t of the Gaussian observation t of z that stands for one example, with z of the given mean and
// variance (variance 0 takes the bound at the mean).
func (s *State) pseudo(target []float64, mean, variance float64) (omega, right float64) {
	if s.Likelihood == Gaussian {
		return s.Noise, s.Noise * (target[0] - s.Bias[0])
	}
	for c, t := range target {
		o := s.Bias[c] + mean
		w := jaakkola(math.Sqrt(o*o + variance))
		omega += w
		right += 0.5*t - w*s.Bias[c]
	}
	return omega, right
}

// mixLoss is the loss that decides between rates of forgetting, on the scale of −2 log-likelihood.
func (s *State) mixLoss(target []float64, mean float64) float64 {
	if s.Likelihood == Gaussian {
		e := target[0] - s.Bias[0] - mean
		return s.Noise * e * e
	}
	// Σ log(1 + exp(−o)) with one logarithm for all outputs: each factor is in (1, 2].
	total, product := 0.0, 1.0
	for c, t := range target {
		o := t * (s.Bias[c] + mean)
		total += max(-o, 0)
		product *= 1 + math.Exp(-math.Abs(o))
		if c%32 == 31 {
			total += math.Log(product)
			product = 1
		}
	}
	return logisticMix * (total + math.Log(product)) / float64(len(target))
}

// oddsLimit bounds what mixLossByOdds exponentiates: above it a product of two exponentials may leave the range of numbers.
const oddsLimit = 300

// mixLossByOdds is mixLoss of logistic outputs where odds has exp(θ_c): one exponential and a logarithm in all, in place of one exponential for each
// output. mixLoss takes its place beyond oddsLimit.
func (s *State) mixLossByOdds(target, odds []float64, mean float64) float64 {
	if !(math.Abs(mean) < oddsLimit) {
		return s.mixLoss(target, mean)
	}
	all := math.Exp(mean)
	total, product := 0.0, 1.0
	for c, t := range target {
		b := s.Bias[c]
		if !(math.Abs(b) < oddsLimit) {
			return s.mixLoss(target, mean)
		}
		total += max(-t*(b+mean), 0)
		e := odds[c] * all
		if e > 1 {
			e = 1 / e
		}
		product *= 1 + e
		if c%32 == 31 {
			total += math.Log(product)
			product = 1
		}
	}
	return logisticMix * (total + math.Log(product)) / float64(len(target))
}

// logisticMix scales the mean loss of the outputs like the squared error of a rating; 2 to 8 make no measurable difference.
const logisticMix = 4
