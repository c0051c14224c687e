package posterior

import (
	"math"
	"testing"
)

func TestCholeskyRefusesIndefinite(t *testing.T) {
	for _, a := range [][]float64{{0}, {-1}, {1, 2, 1}, {math.NaN()}, {math.Inf(1)}} {
		q := 1
		if len(a) == 3 {
			q = 2
		}
		if Cholesky(append([]float64(nil), a...), q) {
			t.Errorf("cholesky(%v) succeeded", a)
		}
	}
}
