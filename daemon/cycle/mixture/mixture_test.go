package mixture

import (
	"math"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestBoundOfTheMixture: the constants of learning.md are those that follow from the rates.
func TestBoundOfTheMixture(t *testing.T) {
	if most := MixtureRate * MixtureLossMax; most/-math.Expm1(-most) > cycletest.BoundFactor {
		t.Errorf("factor %v, and it is %v", cycletest.BoundFactor, most/-math.Expm1(-most))
	}
	for _, n := range []int{1, 1000, 20_000} {
		cost := (math.Log(5/shareRate) + math.Log(2/betShare) - float64(n)*(math.Log1p(-shareRate)+math.Log1p(
			-betShare))) / MixtureRate
		if said := cycletest.BoundCost(5, n); cost > said || cost < said*0.98 {
			t.Errorf("cost of %d events %v, and it is %v", n, said, cost)
		}
	}
}
