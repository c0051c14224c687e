package posterior

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPairsAgainstGeneralPath sweeps twice from one state, with the fast path and without, and compares everything a sweep leaves behind.
func TestPairsAgainstGeneralPath(t *testing.T) {
	for _, l := range []Likelihood{Gaussian, Logistic} {
		for _, weighted := range []bool{false, true} {
			r := rand.New(rand.NewPCG(17, uint64(l)))
			p := ratings(r, 3000, 90, 70, 2, l == Logistic)
			if weighted {
				for range p.X.NumRows() {
					p.Weights = append(p.Weights, 0.5+r.Float64())
				}
			}
			a := randomState(r, p, l, 5)
			b := a.Clone()
			fast, err := NewRefit(a, p, 10, 2)
			if err != nil {
				t.Fatal(err)
			}
			slow, err := NewRefit(b, p, 10, 2)
			if err != nil {
				t.Fatal(err)
			}
			withoutPairs(t, slow)
			for n := range 4 {
				x, err := fast.Sweep(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				y, err := slow.Sweep(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(x-y) > 1e-10*math.Abs(y) {
					t.Errorf("%v weighted=%v sweep %d: evidence %.15g, general path %.15g", l, weighted, n, x, y)
				}
			}
			got := slices.Concat(a.Mean, a.Covariance, a.Precision, a.Bias, []float64{a.Noise})
			want := slices.Concat(b.Mean, b.Covariance, b.Precision, b.Bias, []float64{b.Noise})
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-10*(1+math.Abs(want[i])) {
					t.Fatalf("%v weighted=%v: number %d is %.15g, general path %.15g", l, weighted, i, got[i], want[i])
				}
			}
		}
	}
}
