package format

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCosine: cosine has the bits of math.Cos, for arguments of all sizes, next to multiples of π/4, and without a
// number.
func TestCosine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	check := func(x float64) {
		t.Helper()
		got, want := cosine(x), math.Cos(x)
		if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("cosine(%v) is %v, want %v", x, got, want)
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

// TestFourierByDefinition: the columns of a map of numbers that are all there are those of the sum, term by term, also
// where some numbers are 0 or missing.
func TestFourierByDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	const p = 5
	m := NewFourier(40, 3, make([]MapScaling, p))
	for f := range m.Scaling {
		m.Scaling[f] = MapScaling{Scale: 1 + float64(f)}
	}
	got := make([]float64, m.NumColumns())
	for i := range 200 {
		x := make([]float64, p)
		for f := range x {
			x[f] = r.NormFloat64()
		}
		if i%4 == 1 {
			x[i%p] = 0
		}
		if i%4 == 2 {
			x[i%p] = math.NaN()
		}
		m.Columns(got, x)
		for j, v := range got {
			sum := 0.0
			for f, number := range x {
				if z := m.scaled(f, number); IsFinite(number) && z != 0 {
					sum += z * m.Frequencies[j*p+f]
				}
			}
			if want := m.Amplitude() * math.Cos(sum+m.Phases[j]); v != want {
				t.Fatalf("column %d of %v is %v, want %v", j, x, v, want)
			}
		}
	}
}
