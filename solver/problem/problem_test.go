package problem

import (
	"math"
	"testing"
)

// TestOutside finds what is beyond a bound wherever it is, also among numbers whose squares add up to more than that of
// the bound.
func TestOutside(t *testing.T) {
	for _, size := range []float64{1e-3, 0.9} {
		x := make([]float64, 10_000)
		for i := range x {
			x[i] = size * MaxValue * float64(1-2*(i%2))
		}
		x[77], x[5000] = MaxValue, -MaxValue
		if at := outside(x, MaxValue); at != -1 {
			t.Errorf("number %d is %g, of ±%g", at, x[at], MaxValue)
		}
		for _, place := range []int{0, 511, 512, 4096, 9999} {
			was := x[place]
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1.000001 * MaxValue} {
				if x[place] = bad; outside(x, MaxValue) != place {
					t.Errorf("%g at %d: found at %d", bad, place, outside(x, MaxValue))
				}
			}
			x[place] = was
		}
	}
	if at := outside(nil, 1); at != -1 {
		t.Errorf("of nothing: %d", at)
	}
}
