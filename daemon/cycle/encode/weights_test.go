package encode

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestWeightLimit: weights that a hundredth of the rows have count in full, others as at most √n times the mean.
// Units do not matter.
func TestWeightLimit(t *testing.T) {
	draw := func(n, heavy int, weight float64) []float64 {
		w := slices.Repeat([]float64{1}, n)
		for i := range heavy {
			w[i*7%n] = weight
		}
		return w
	}
	r := rand.New(rand.NewPCG(1, 1))
	var tails []float64
	for range 20_000 {
		tails = append(tails, math.Exp(1.5*r.NormFloat64()))
	}
	for _, c := range []struct {
		name      string
		weights   []float64
		low, high float64
	}{
		{"too few for a limit", draw(9, 1, 1e6), 0, 0},
		{"all alike", draw(10_000, 0, 0), 100, 100},
		{"one of the largest", draw(10_000, 1, 1e6), 100, 100},
		{"one among few", draw(20, 1, 1e6), 4, 5},
		{"four among few", draw(20, 4, 1e6), 4, 5},
		{"a class of one in 200 that counts 100 times", draw(10_000, 50, 100), 100, 1000},
		{"a class of one in 50 that counts 1,000 times", draw(10_000, 200, 1000), 1000, math.Inf(1)},
		{"as heavy as they come, one in 200", draw(10_000, 50, 1e6), 100, 100},
		{"with tails", tails, 300, 600},
	} {
		if got := WeightLimit(c.weights, nil); got < c.low || got > c.high {
			t.Errorf("%s: %g, want %g to %g", c.name, got, c.low, c.high)
		}
		for i := range c.weights {
			c.weights[i] *= 0.125
		}
		if got := WeightLimit(c.weights, nil); got < c.low*0.125 || got > c.high*0.125 {
			t.Errorf("%s, in another unit: %g", c.name, got)
		}
	}
	// In a sample by weight nearly all rows are heavy ones, of which each is for one event, and a light one is for
	// thousands.
	weights, counts := draw(100, 60, 1e6), slices.Repeat([]float64{1}, 100)
	for i, w := range weights {
		if w == 1 {
			counts[i] = 5000
		}
	}
	if got := WeightLimit(weights, counts); math.Abs(got-10) > 1e-9 {
		t.Errorf("of a sample by weight: %g", got)
	}
}

// TestLeaveOut: marked rows go with their ages and weights, but for a part of which none would be left.
func TestLeaveOut(t *testing.T) {
	s := &Sample{Train: [][]byte{{1}, {2}, {3}}, Select: [][]byte{{4}, {5}}, Gate: [][]byte{{6}},
		Weights: []float64{2, 0.5, 0.5}, HeldOutWeights: []float64{1, 2, 4}, SelectAge: []float64{7, 8}}
	s.LeaveOut([]bool{true, false, false}, []bool{false, true}, []bool{true})
	want := &Sample{Train: [][]byte{{2}, {3}}, Select: [][]byte{{4}}, Gate: [][]byte{{6}}, Weights: []float64{1, 1},
		HeldOutWeights: []float64{2, 8}, SelectAge: []float64{7}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
}
