package fitted

import (
	"math"
	"testing"
)

// TestDecayedWeights have the mean 1 and halve with each half-life.
func TestDecayedWeights(t *testing.T) {
	age := []float64{0, 100, 200, 700}
	for _, base := range [][]float64{nil, {1, 2, 0.5, 1}} {
		w, sum := Decayed(base, age, 100), 0.0
		for i := range w {
			sum += w[i]
			b, first := 1.0, 1.0
			if base != nil {
				b, first = base[i], base[0]
			}
			if got, want := w[i]/w[0], b/first*math.Exp2(-age[i]/100); math.Abs(got-want) > 1e-12 {
				t.Errorf("base %v: row %d counts %g of the first, want %g", base, i, got, want)
			}
		}
		if math.Abs(sum-float64(len(w))) > 1e-12 {
			t.Errorf("base %v: weights add up to %g", base, sum)
		}
		if still := Decayed(base, age, math.Inf(1)); len(still) != len(base) {
			t.Errorf("base %v: weights %v where nothing decays", base, still)
		}
	}
}
