package sweep

import (
	"math"

	"github.com/refitd/refitd/solver/posterior"
)

// How θ of one binary label is settled. Chosen by hand.
const (
	biasSteps   = 20
	biasSettled = 1e-3
)

// settleBias moves θ by what slopes returns at the θ of the state: of each output the derivative of the expected
// log-likelihood and the curvature of its quadratics. It makes one step of these, and for one binary label as many as
// lead to the maximum: where 8 labels of 3,520 are 1 and θ is −10, a step of the bound is 0.03.
//
// One row of each kind, of which nothing else is known, counts for θ of one binary label: labels that are all alike do
// not make it infinite.
func settleBias(s *posterior.State, slopes func() (slope, curve []float64)) {
	slope, curve := slopes()
	if !s.IsBinary() {
		for c, v := range curve {
			if v > 0 {
				s.Bias[c] += slope[c] / v
			}
		}
		return
	}
	at := func(slope, curve []float64) (float64, float64) {
		b := s.Bias[0]
		return slope[0] - math.Tanh(b/2), curve[0] + 2*posterior.Jaakkola(math.Abs(b))
	}
	// Secants of the slope, which falls: between what is known to be below and above, and at most 4 times the last step.
	rise, bend := at(slope, curve)
	first := rise
	below, above, step := math.Inf(-1), math.Inf(1), rise/bend
	for range biasSteps {
		if rise > 0 {
			below = s.Bias[0]
		} else {
			above = s.Bias[0]
		}
		if s.Bias[0] += step; !(math.Abs(step) >= biasSettled) {
			return
		}
		next, bound := at(slopes())
		if bend = (rise - next) / step; !(bend > 0) {
			bend = bound
		}
		last := 4 * math.Abs(step)
		rise, step = next, min(max(next/bend, -last), last)
		if to := s.Bias[0] + step; to <= below || to >= above {
			step = (below+above)/2 - s.Bias[0]
		}
	}
	// Not settled: far past the maximum the evidence may be less than at the start.
	switch isFar := math.Abs(rise) > math.Abs(first); {
	case isFar && first > 0 && rise < 0:
		s.Bias[0] = below
	case isFar && first < 0 && rise > 0:
		s.Bias[0] = above
	}
}

// biasEvidence returns what the rows that count for θ of one binary label add to the evidence.
func biasEvidence(s *posterior.State) float64 {
	if !s.IsBinary() {
		return 0
	}
	b := math.Abs(s.Bias[0])
	return -b - 2*math.Log1p(math.Exp(-b))
}
