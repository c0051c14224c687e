package solver

import "math"

// EncodeLevel stores the McRank targets of a level in 1..L in dst, which has length m = L − 1: +1 iff level ≤ c, for c
// = 1..m (Blondel et al. 2017, section 6.5; the output for c = L would always be +1 and is left out).
func EncodeLevel(dst []float64, level int) {
	for c := range dst {
		dst[c] = -1
		if level <= c+1 {
			dst[c] = 1
		}
	}
}

// ExpectedLevel returns Σ_{c=1..L} c (p_c − p_{c−1}) = L − Σ_{c<L} p_c, a number in [1, L].
func ExpectedLevel(outputs []float64) float64 {
	level := float64(len(outputs) + 1)
	for _, o := range outputs {
		level -= sigmoid(o)
	}
	return level
}

// sigmoid returns 1/(1 + exp(−x)) without overflow.
func sigmoid(x float64) float64 {
	e := math.Exp(-math.Abs(x))
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}
