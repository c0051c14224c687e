package dense

import "math"

// Exp stores e^src[i] in dst[i]; dst may be src. Results are within 2 ulp. Above 709.78 the result is +Inf; below −708,
// where results would leave the normal range soon (e^−708 ≈ 3.3e−308), it is 0. NaN gives NaN.
//
// With n = x/ln 2 rounded to the nearest integer and r = x − n·ln 2, e^x is 2^n·e^r, and on |r| ≤ (ln 2)/2 the
// Taylor polynomial of degree 13 leaves less than 5e−18 of e^r (r^14/14!). All of it is fused multiply-adds: one for
// n, two for r, thirteen by Horner's rule.
func Exp(dst, src []float64) {
	if len(dst) != len(src) {
		panic("dense: Exp of slices of unequal length")
	}
	if len(src) > 0 {
		exp(dst, src)
	}
}

const (
	expCeil  = 710  // above the logarithm of the largest float64, so that the last product overflows
	expFloor = -708 // above ln 2^−1022, so that results are normal numbers or 0

	ln2High = 0x1.62e42fefa39efp-1  // ln 2 rounded
	ln2Low  = 0x1.abc9e3b39803fp-56 // ln 2 − ln2High, rounded

	// expShift rounds to an integer when it is added: float64s of this size are 1 apart. The low 12 bits of the sum are
	// n + 1022, the biased exponent of 2^(n−1), which, other than 2^n, is a normal number for every n that can occur
	// (−1021 … 1024).
	expShift = 3<<51 + 1022
)

// expTaylor holds 2/j! for j = 13 … 0: Horner's rule gives 2·e^r, to be multiplied by 2^(n−1).
var expTaylor = [14]float64{
	2.0 / 6227020800, 2.0 / 479001600, 2.0 / 39916800, 2.0 / 3628800, 2.0 / 362880, 2.0 / 40320, 2.0 / 5040, 2.0 / 720,
	2.0 / 120, 2.0 / 24,
	2.0 / 6, 1, 2, 2,
}

func expPortable(dst, src []float64) {
	for i, x := range src {
		if x < expFloor {
			dst[i] = 0
			continue
		}
		if x > expCeil {
			x = expCeil
		}
		shifted := math.FMA(x, math.Log2E, expShift)
		n := shifted - expShift
		r := math.FMA(-n, ln2Low, math.FMA(-n, ln2High, x))
		power := expTaylor[0]
		for _, c := range expTaylor[1:] {
			power = math.FMA(power, r, c)
		}
		dst[i] = power * math.Float64frombits(math.Float64bits(shifted)<<52)
	}
}
