package posteriortest

import (
	"math"
	"math/rand/v2"
	"testing"
)

// DrawClass returns a one-hot class drawn with the probabilities softmax(o).
func DrawClass(r *rand.Rand, o []float64) []float64 {
	t, best, at := make([]float64, len(o)), math.Inf(-1), 0
	for c, v := range o {
		if g := v - math.Log(-math.Log(r.Float64())); g > best {
			best, at = g, c
		}
	}
	t[at] = 1
	return t
}

func Nearly(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*(1+math.Abs(want))) {
		t.Errorf("%s = %.12g, want %.12g", name, got, want)
	}
}
