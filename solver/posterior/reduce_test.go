package posterior

import (
	"math"
	"math/rand/v2"
	"testing"
)

// interactionsOf returns what a state predicts for pairs of features of its first two fields, without biases and linear
// weights.
func interactionsOf(s *State) (all []float64) {
	m := s.Model()
	clear(m.Linear)
	clear(m.Bias)
	out, work := make([]float64, len(s.Bias)), make([]float64, 2*m.NumBasis)
	for a, f := range s.Field {
		for b, g := range s.Field {
			if f == 0 && g == 1 {
				m.Predict(out, work, []int32{int32(a), int32(b)}, []float64{1, 1})
				all = append(all, out[0])
			}
		}
	}
	return all
}

// error2 is the mean square of the differences.
func error2(a, b []float64) (sum float64) {
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i]) / float64(len(a))
	}
	return sum
}

// randomPairs returns a state over 60 and 40 features of two fields with k coordinates of falling size, every third
// with a negative sign.
func randomPairs(seed uint64, k int) *State {
	r := rand.New(rand.NewPCG(seed, 2))
	field := make([]int32, 100)
	for j := 60; j < len(field); j++ {
		field[j] = 1
	}
	s := New(Logistic, 2, k, field, 2, PriorFor(Logistic, 1))
	for c := range s.Sign {
		if c%3 == 0 {
			s.Sign[c] = -1
		}
	}
	for j := range field {
		mean, _ := s.Row(j)
		mean[0] = r.NormFloat64()
		for c := range k {
			mean[1+c] = r.NormFloat64() / float64(1+c)
		}
	}
	return s
}

// TestReduction: a sum of a state and itself in other units needs no more coordinates than the state, and what is
// left out of one that needs all is less than by leaving out its smallest coordinates. Linear weights and biases
// stay; single rows are those of the state; groups are kept.
func TestReduction(t *testing.T) {
	s := randomPairs(1, 6)
	for _, group := range [][]int32{nil, {0, 1}} {
		s.Group = group
		sum := Sum(Logistic, s.Bias, 1, []*State{s, s}, []float64{0.7, 0.5})
		r := sum.Reduction(6)
		if r == nil {
			t.Fatal("no reduction")
		}
		small := r.State(sum)
		got, want := interactionsOf(small), interactionsOf(sum)
		if small.NumBasis != 6 || error2(got, want) > 1e-12*error2(want, make([]float64, len(want))) {
			t.Errorf("groups %v: mean square %g of the differences, %d coordinates", group, error2(got, want),
				small.NumBasis)
		}
		for j := range sum.Field {
			whole, _ := sum.Row(j)
			mean, _ := small.Row(j)
			row := r.Row(nil, whole)
			for a := range row {
				if row[a] != mean[a] || a == 0 && row[a] != whole[a] {
					t.Fatalf("row %d, coordinate %d: %g in r, %g in the state, %g before", j, a, row[a], mean[a],
						whole[a])
				}
			}
		}
		full := *small
		full.Covariance = make([]float64, len(small.Field)*small.CovarianceSize())
		if err := full.Validate(); err != nil {
			t.Error(err)
		}
		// the variance of an interaction under the prior: a sum of squares over directions, which stays where none is
		// left out
		for f := range 2 {
			for _, d := range small.PrecisionOf(f) {
				if !(d > 0) || math.IsInf(d, 1) {
					t.Errorf("precision %g", d)
				}
			}
		}
	}
	s.Group = nil
	last := math.Inf(1)
	for k := 1; k < 6; k++ {
		want := interactionsOf(s)
		cut := s.Clone()
		for j := range cut.Field {
			mean, _ := cut.Row(j)
			clear(mean[1+k:])
		}
		got := error2(interactionsOf(s.Reduction(k).State(s)), want)
		if plain := error2(interactionsOf(cut), want); got > plain*1.05 || got > last {
			t.Errorf(
				"%d coordinates: mean square %.4g of what is left out, by the largest coordinates %.4g, with one less %.4g",
				k,
				got,
				plain,
				last,
			)
		}
		last = got
	}
	if s.Reduction(6) != nil || New(Logistic, 2, 6, s.Field, 2, PriorFor(Logistic, 1)).Reduction(3) != nil {
		t.Error("a reduction to all coordinates, or of a state without interactions")
	}
}
