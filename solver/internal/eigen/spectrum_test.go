package eigen

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOutermost compares with a sort by size.
func TestOutermost(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 74))
	for n := range 9 {
		e := EigenSym{Values: make([]float64, n)}
		for i := range e.Values {
			e.Values[i] = rng.NormFloat64()
		}
		slices.Sort(e.Values)
		want := make([]int, n)
		for i := range want {
			want[i] = i
		}
		slices.SortFunc(want, func(a, b int) int {
			return int(math.Copysign(1, math.Abs(e.Values[b])-math.Abs(e.Values[a])))
		})
		for count := range 5 {
			if got := e.Outermost(count); !slices.Equal(got, want[min(1, n):min(n, count+1)]) {
				t.Errorf("%v: %v after the largest, want %v of %v", e.Values, got, count, want)
			}
		}
	}
}
