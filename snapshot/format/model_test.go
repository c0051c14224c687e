package format

import (
	"math"
	"testing"
)

func TestMultiValue(t *testing.T) {
	weights := []string{WeightMean, WeightSqrt}
	for n, want := range map[int][2]float64{-1: {}, 0: {}, 1: {1, 1}, 4: {0.25, 0.5}, 200: {0.005, math.Sqrt(0.005)}} {
		plain, mean, root := MultiValue(nil, 1, n), MultiValue(weights, 0, n), MultiValue(weights, 1, n)
		if plain != want[0] || mean != want[0] || math.Abs(root-want[1]) > 1e-15 {
			t.Errorf("names of a list of %d count %g, %g by mean and %g by sqrt, want %g", n, plain, mean, root, want)
		}
	}
}
