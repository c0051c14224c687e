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

// TestBiasIsNoWorse: θ has no less evidence than where it started, also where rows of every size and spread have their
// steps end before they settle.
func TestBiasIsNoWorse(t *testing.T) {
	for seed := uint64(40_900); seed < 41_000; seed++ { // of 40,934 the last step is far past the maximum
		s, slopes, evidence := someBias(rand.New(rand.NewPCG(seed, 1)))
		before := evidence()
		if settleBias(s, slopes); !(evidence() >= before-1e-9*math.Abs(before)) {
			t.Errorf("seed %d: evidence %g, %g before", seed, evidence(), before)
		}
	}
}

// someBias is a state with θ of one binary label, its slopes by some rows, and the evidence that these are of.
func someBias(r *rand.Rand) (s *posterior.State, slopes func() (a, b []float64), evidence func() float64) {
	n := 1 + r.IntN(40)
	w, y, m, v := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	scale, share := math.Exp(6*r.NormFloat64()), r.Float64()*r.Float64()
	for i := range n {
		w[i], m[i] = scale*math.Exp(2*r.NormFloat64()), r.NormFloat64()*math.Exp(2*r.NormFloat64())
		v[i], y[i] = math.Exp(4*r.NormFloat64()), math.Copysign(1, share-r.Float64())
	}
	s = posterior.New(posterior.Logistic, 1, 0, []int32{0}, 1, posterior.PriorFor(posterior.Logistic, 1))
	s.Bias[0] = 12 * r.NormFloat64()
	slopes = func() (a, b []float64) {
		a, b = make([]float64, 1), make([]float64, 1)
		for i := range n {
			o := s.Bias[0] + m[i]
			omega := posterior.Jaakkola(math.Sqrt(o*o + v[i]))
			a[0] += w[i] * (0.5*y[i] - omega*o)
			b[0] += w[i] * omega
		}
		return a, b
	}
	evidence = func() (sum float64) {
		for i := range n {
			o := s.Bias[0] + m[i]
			xi := math.Sqrt(o*o + v[i])
			sum += w[i] * (0.5*y[i]*o - xi/2 - math.Log1p(math.Exp(-xi)))
		}
		return sum + biasEvidence(s)
	}
	return s, slopes, evidence
}
