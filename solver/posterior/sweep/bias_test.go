package sweep

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestRareLabelsSettle: one sweep brings θ to the frequency of the labels, from wherever it starts, and to that of one
// row of each kind more where all labels are alike. Both forms do.
func TestRareLabelsSettle(t *testing.T) {
	for _, ones := range []int{0, 8, 1500, 3000} {
		for _, start := range []float64{-10, 0, 4} {
			for _, separate := range []bool{false, true} {
				p := posteriortest.Ratings(rand.New(rand.NewPCG(7, 7)), 3000, 60, 50, 2, false)
				for i := range p.Targets {
					p.Targets[i] = math.Copysign(1, float64(ones)-float64(i)-0.5)
				}
				prior := posterior.PriorFor(posterior.Logistic, 1)
				prior.Linear = 1e6 // names say nothing
				s := posterior.New(posterior.Logistic, 1, 0, p.Field, 2, prior)
				if separate {
					s = posterior.NewSeparate(posterior.Logistic, 1, p.Field, 2, prior)
				}
				s.Bias[0] = start
				f, err := NewRefit(s, p, 10, 2)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				want := math.Log((float64(ones) + 1) / float64(3000-ones+1))
				if got := s.Bias[0]; math.Abs(got-want) > 0.02 {
					t.Errorf("%d ones of 3,000, from %g, separate %t: θ is %.3f, the frequency says %.3f", ones, start,
						separate, got, want)
				}
			}
		}
	}
}
