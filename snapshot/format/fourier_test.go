package format

import (
	"math"
	"math/rand/v2"
	"testing"
)

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
