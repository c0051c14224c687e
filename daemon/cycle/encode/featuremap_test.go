package encode

import (
	"math"
	"testing"
)

// Numbers without a spread, or so large that their spread overflows, make a map that is finite.
func TestMapScalingIsFinite(t *testing.T) {
	for _, values := range [][]float64{nil, {3, 3, 3}, {math.MaxFloat64, -math.MaxFloat64, 1}} {
		if s := MapScaling(values); math.IsNaN(s.Center) || math.IsInf(s.Center, 0) || !(s.Scale > 0) ||
			math.IsInf(s.Scale, 0) {
			t.Errorf("%v: %+v", values, s)
		}
	}
}
