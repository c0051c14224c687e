package solver

import "math"

// EncodeLevel stores the McRank targets of a level in 1..L in dst, which has length m = L − 1: +1 iff level ≤ c, for c = 1..m
// (Blondel et al. 2017, section 6.5; the output for c = L would always be +1 and is left out).
func EncodeLevel(dst []float64, level int) {
	for c := range dst {
		dst[c] = -1
		if level <= c+1 {
			dst[c] = 1
		}
	}
}

// LevelProbabilities stores p(y = c) = p_c − p_{c−1}, c = 1..L, in dst of length L = len(outputs) + 1, with p_c = σ(o_c), p_0 = 0 and
// p_L = 1. The outputs are separate classifiers, so an entry may be negative where they are not ordered; the entries add up to 1.
func LevelProbabilities(dst, outputs []float64) {
	last := 0.0
	for c, o := range outputs {
		p := sigmoid(o)
		dst[c] = p - last
		last = p
	}
	dst[len(outputs)] = 1 - last
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
