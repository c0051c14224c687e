package loss

import "math"

// expSteps is the number of entries of expTable: 2^(j/expSteps), j = 0, 1, …
const expSteps = 64

// expTable holds the bits of 2^(j/64), so that a power of two is multiplied by adding to the exponent.
var expTable = func() (table [expSteps]uint64) {
	for j := range table {
		table[j] = math.Float64bits(math.Exp2(float64(j) / expSteps))
	}
	return table
}()

const (
	expScale = expSteps / math.Ln2
	expUnit  = math.Ln2 / expSteps
	expRound = 3 << 51 // adding it rounds to an integer, found in the low bits
	expFloor = -700    // below it 2^k would leave the normal range; e^-700 ≈ 1e-304 is used for all of that
)

// expNeg returns eˣ for expFloor ≤ x ≤ 0 with a relative error below 1e-15 + 3e-16·|x|; the caller clamps x. The
// losses spend most of a refit here: with the polynomial of degree 5 on |r| ≤ ln 2/128 (remainder r⁶/720 < 4e-17),
// and inlined, it costs half of math.Exp.
func expNeg(x float64) float64 {
	shifted := x*expScale + expRound
	n := math.Float64bits(shifted) // the integer, modulo 2^51, in two's complement
	r := x - (shifted-expRound)*expUnit
	power := math.Float64frombits(expTable[n%expSteps] + n/expSteps<<52)
	return power + power*r*(1+r*(0.5+r*(1.0/6+r*(1.0/24+r*(1.0/120)))))
}
