package dense

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// expUlps is the largest error of Exp that the tests allow, in units of the last place of the exact result; observed:
// 0.80.
const expUlps = 1.0

// exactExp returns e^x to more than 100 bits: the Taylor series of x/2^12, squared twelve times.
func exactExp(x float64) *big.Float {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
	const halvings = 12
	r := number(x)
	r.SetMantExp(r, -halvings)
	sum, term := number(1), number(1)
	for j := 1; j < 24; j++ { // (710/4096)^24/24! < 1e-42
		term.Mul(term, r)
		term.Quo(term, number(float64(j)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// TestExp compares each level with exact values over the whole range, and with what the contract says outside of it.
func TestExp(t *testing.T) {
	xs := []float64{
		0,
		math.Copysign(0, -1),
		1,
		-1,
		5e-324,
		-5e-324,
		0.5 * math.Ln2,
		-0.5 * math.Ln2,
		-708,
		709.436,
		709.78,
	}
	random := rand.New(rand.NewPCG(3, 1))
	for i := range 4000 {
		x := random.Float64()*1417.7 - 708
		if i%2 == 0 {
			x = 5 * random.NormFloat64()
		}
		xs = append(xs, x)
	}
	exact := make([]*big.Float, len(xs))
	for i, x := range xs {
		exact[i] = exactExp(x)
	}
	forEachLevel(t, func(t *testing.T) {
		got, worst, at := make([]float64, len(xs)), 0.0, 0.0
		Exp(got, xs)
		for i, g := range got {
			off := new(big.Float).SetPrec(200).SetFloat64(g)
			off.Sub(off, exact[i])
			near, _ := exact[i].Float64()
			ulp := math.Nextafter(near, 0)
			ulps, _ := off.Quo(off, new(big.Float).SetFloat64(near-ulp)).Float64()
			if !(math.Abs(ulps) <= worst) {
				worst, at = math.Abs(ulps), xs[i]
			}
		}
		t.Logf("largest error %.3f ulp, at %v", worst, at)
		if !(worst <= expUlps) {
			t.Errorf("e^%v is off by %v ulp, more than %v", at, worst, expUlps)
		}
		const edge = 709.782712893384 // logarithm of the largest float64
		inf := math.Inf(1)
		outside := []float64{edge + 1e-9, 710, 711, 1e300, inf, -708.0000001, -745, -1e4, -1e300, -inf, math.NaN()}
		Exp(outside, outside)
		wantBits(t, "Exp outside its range", outside, []float64{inf, inf, inf, inf, inf, 0, 0, 0, 0, 0, math.NaN()})
	})
}
