package output

import (
	"math"
	"testing"
)

func TestFitsSingle(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want bool
	}{{nil, true}, {[]float64{0, 0}, true}, {[]float64{1e-9, -2}, true}, {[]float64{1e-9}, false}, {[]float64{-1e7, 1},
		false},
		{[]float64{math.NaN(), 1}, false}, {[]float64{1, math.Inf(-1)}, false}} {
		if fitsSingle(c.x) != c.want {
			t.Errorf("%v: %v", c.x, !c.want)
		}
	}
}
