package evaluate

import "math"

func SoftmaxTo(dst, outputs []float64) {
	largest, sum := math.Inf(-1), 0.0
	for _, o := range outputs {
		largest = max(largest, o)
	}
	for c, o := range outputs {
		dst[c] = math.Exp(o - largest)
		sum += dst[c]
	}
	for c := range dst {
		dst[c] /= sum
	}
}

// LeastProbability keeps logarithms finite. Chosen by hand.
const LeastProbability = 1e-9
