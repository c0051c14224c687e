package rowmath

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCosine: Cosine has the bits of math.Cos, for arguments of all sizes, next to multiples of π/4, and without a
// number.
func TestCosine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	check := func(x float64) {
		t.Helper()
		got, want := Cosine(x), math.Cos(x)
		if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("Cosine(%v) is %v, want %v", x, got, want)
		}
	}
	for range 200_000 {
		check(10 * r.NormFloat64())
		check(math.Ldexp(r.NormFloat64(), r.IntN(80)-50))
	}
	for k := range 5000 {
		near := float64(k-2500) * math.Pi / 4
		for range 5 {
			check(near)
			near = math.Nextafter(near, math.Inf(1))
		}
	}
	for _, x := range []float64{0, math.Copysign(0, -1), cosineReach, cosineReach - 1e-10, math.Inf(1), math.Inf(-1),
		math.NaN(), math.MaxFloat64, 5e-324} {
		check(x)
	}
}
