package sweep

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestRecenterMovesMeansIntoBias: no prediction changes, the linear weights of an exclusive field have mean 0, and the
// bound rises.
func TestRecenterMovesMeansIntoBias(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		r := rand.New(rand.NewPCG(7, uint64(l)))
		p := posteriortest.Ratings(r, 400, 30, 20, 2, l == posterior.Logistic)
		s := randomState(r, p, l, 3)
		refit, err := NewRefit(s, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		predict := func() []float64 {
			model := s.Model()
			outputs, all := make([]float64, p.Outputs), []float64(nil)
			work := make([]float64, 2*model.NumBasis)
			for i := range p.X.NumRows() {
				index, value := p.X.Row(i)
				model.Predict(outputs, work, index, value)
				all = append(all, outputs...)
			}
			return all
		}
		before, bound := predict(), refit.evidence()
		refit.recenter(refit.mean)
		for i, v := range predict() {
			if math.Abs(v-before[i]) > 1e-10 {
				t.Fatalf("%v: prediction %d changed from %v to %v", l, i, before[i], v)
			}
		}
		if after := refit.evidence(); after <= bound {
			t.Errorf("%v: evidence %v, %v before", l, after, bound)
		}
		sum := make([]float64, p.NumFields)
		for j, f := range s.Field {
			if refit.columns.count(j) > 0 {
				sum[f] += s.Mean[j*4]
			}
		}
		for f, v := range sum {
			if math.Abs(v) > 1e-9 {
				t.Errorf("%v: linear weights of field %d add up to %v", l, f, v)
			}
		}
		refit.exclusive[0], refit.exclusive[1] = false, false
		s.Mean[0]++
		bias := s.Bias[0]
		if refit.recenter(refit.mean); s.Bias[0] != bias {
			t.Errorf("%v: a field that rows may lack was recentred", l)
		}
	}
}
