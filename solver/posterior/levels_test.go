package posterior

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLevels: outputs are the link of the number, with fields by themselves and in groups; rows, their covariances and the prior are changed alike, and
// back by the inverse link.
func TestLevels(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	for _, group := range [][]int32{nil, {0, 1, 0}} {
		field := []int32{0, 0, 1, 1, 2, 2}
		s := New(Gaussian, 1, 2, field, 3, PriorFor(Gaussian, 1))
		s.Group, s.Sign[1], s.Bias[0] = group, -1, 3.2
		for j := range field {
			mean, cov := s.Row(j)
			for a := range mean {
				mean[a] = r.NormFloat64()
			}
			cov[1], cov[3], cov[4] = 0.01, -0.02, 0.005
		}
		threshold, slope := []float64{2, 4, 7}, 1.7
		levels := s.Levels(threshold, slope)
		if err := levels.Validate(); err != nil {
			t.Fatal(err)
		}
		number, model := s.Model(), levels.Model()
		one, got, work := make([]float64, 1), make([]float64, 3), make([]float64, 2*max(number.NumBasis, model.NumBasis))
		for range 20 {
			index, value := []int32{int32(r.IntN(2)), int32(2 + r.IntN(2)), int32(4 + r.IntN(2))}, []float64{1, 1, 0.5}
			number.Predict(one, work, index, value)
			model.Predict(got, work, index, value)
			for c, o := range got {
				if want := threshold[c] - slope*one[0]; math.Abs(o-want) > 1e-9 {
					t.Fatalf("groups %v: output %d is %g, want %g", group, c, o, want)
				}
			}
		}
		mean, cov := s.Row(3)
		to, covTo := levels.Row(3)
		root := math.Sqrt(slope)
		for a, f := range []float64{-slope, root, root} {
			if math.Abs(to[a]-f*mean[a]) > 1e-12 || math.Abs(levels.precision(1)[a]*f*f-s.precision(1)[a]) > 1e-12 {
				t.Errorf("coordinate %d: mean %g of %g, precision %g of %g", a, to[a], mean[a], levels.precision(1)[a], s.precision(1)[a])
			}
			for b, g := range []float64{-slope, root, root}[:a+1] {
				if at := a*(a+1)/2 + b; math.Abs(covTo[at]-f*g*cov[at]) > 1e-12 {
					t.Errorf("covariance of %d and %d is %g of %g", a, b, covTo[at], cov[at])
				}
			}
		}
		if s.Likelihood != Gaussian || s.Sign[1] != -1 || len(s.Bias) != 1 {
			t.Error("the posterior of the number was changed")
		}
	}
}
