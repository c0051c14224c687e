package posterior

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMixLossByOdds compares the loss by odds with the one by definition, also where the exponentials leave the range
// of numbers.
func TestMixLossByOdds(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, scale := range []float64{0.1, 3, 50, 290, 1000} {
		for range 200 {
			m := 1 + r.IntN(70)
			s := &State{Likelihood: Logistic, Bias: make([]float64, m)}
			target, odds := make([]float64, m), make([]float64, m)
			for c := range m {
				s.Bias[c], target[c] = scale*r.NormFloat64(), float64(2*r.IntN(2)-1)
				odds[c] = math.Exp(s.Bias[c])
			}
			z := scale * r.NormFloat64()
			if got, want := s.MixLossByOdds(target, odds, z), s.MixLoss(target, z); math.Abs(
				got-want) > 1e-12*(1+want) {
				t.Fatalf("scale %g, %d outputs: %.17g, by definition %.17g", scale, m, got, want)
			}
		}
	}
}
