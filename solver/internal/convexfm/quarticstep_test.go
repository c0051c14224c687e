package convexfm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestQuarticLeast compares the least value of polynomials with a search over a fine grid, over coefficients of many
// sizes, with fourth ones of 0 and near it.
func TestQuarticLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for try := range 2000 {
		var c quartic
		for i := range c {
			c[i] = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(4))-2)
		}
		switch c[3] = math.Abs(c[3]) + 1e-3; try % 4 {
		case 1: // all but a parabola
			c[3] *= 1e-12
			c[2], c[1] = 0, math.Abs(c[1])+0.1
		case 2:
			c[3], c[2], c[1] = 0, 0, math.Abs(c[1])+0.1
		case 3: // two valleys
			c[1] = -math.Abs(c[1])
		}
		step, fall := c.least()
		least := 0.0
		for size := 1e-6; size < 1e7; size *= 1.002 {
			least = min(least, c.at(size), c.at(-size))
		}
		if at := c.at(step); at != -fall || at > least+1e-6*math.Abs(least) {
			t.Fatalf("%v: %v at %v (said %v), %v on the grid", c, at, step, -fall, least)
		}
	}
	if step, fall := (quartic{}).least(); step != 0 || fall != 0 {
		t.Errorf("%v, %v of nothing", step, fall)
	}
	if step, fall := (quartic{math.NaN(), 1, 1, 1}).least(); step != 0 || fall != 0 {
		t.Errorf("%v, %v of NaN", step, fall)
	}
}
