package sweep

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestPairsAgainstGeneralPath sweeps twice from one state, with the fast path and without, and compares everything a
// sweep leaves behind.
func TestPairsAgainstGeneralPath(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		for _, weighted := range []bool{false, true} {
			r := rand.New(rand.NewPCG(17, uint64(l)))
			p := posteriortest.Ratings(r, 3000, 90, 70, 2, l == posterior.Logistic)
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

// TestPairsDoNotDependOnWorkers: chunks of features and tiles of partners change with the number of goroutines, the
// numbers do not.
func TestPairsDoNotDependOnWorkers(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		var want []float64
		for _, workers := range []int{1, 2, 8} {
			r := rand.New(rand.NewPCG(23, uint64(l)))
			p := posteriortest.Ratings(r, 20_000, 1500, 1300, 2, l == posterior.Logistic)
			s := randomState(r, p, l, 8)
			f, err := NewRefit(s, p, 10, workers)
			if err != nil {
				t.Fatal(err)
			}
			var got []float64
			for range 2 {
				e, err := f.Sweep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			got = slices.Concat(got, s.Mean, s.Covariance, s.Bias)
			if want == nil {
				want = got
			} else if !slices.Equal(got, want) {
				t.Errorf("%v: %d workers give other numbers than 1", l, workers)
			}
		}
	}
}

// TestPairsWantPairs: what is not two one-hot features of two fields in one order goes the general way.
func TestPairsWantPairs(t *testing.T) {
	for name, change := range map[string]func(p *solver.Problem){
		"a first value of 2":    func(p *solver.Problem) { p.X.Value[6] = 2 },
		"a second value of 2":   func(p *solver.Problem) { p.X.Value[7] = 2 },
		"features of one field": func(p *solver.Problem) { p.Field = make([]int32, len(p.Field)) },
		"fields in both orders": func(p *solver.Problem) { p.Field[p.X.Index[0]], p.Field[p.X.Index[1]] = 1, 0 },
		"a third feature": func(p *solver.Problem) {
			p.X.Append([]int32{0, 12, 13}, []float64{1, 1, 1})
			p.Targets = append(p.Targets, 1)
		},
	} {
		p := posteriortest.Ratings(rand.New(rand.NewPCG(1, 1)), 100, 10, 10, 1, false)
		change(p)
		f, err := NewRefit(
			posterior.New(posterior.Gaussian, 1, 2, p.Field, p.NumFields, posterior.PriorFor(posterior.Gaussian, 1)), p,
			10, 1)
		if err != nil {
			t.Fatal(err)
		}
		if f.pairs != nil {
			t.Errorf("%s: takes the fast path", name)
		}
		if _, err := f.Sweep(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkSweep reports a sweep over 500,000 ratings; flops are those of the sums over partners, 2·stride per row and
// side, and for Logistic of the dot product per row.
func BenchmarkSweep(b *testing.B) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		b.Run(l.String(), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			p := posteriortest.Ratings(r, 500_000, 6000, 3700, 2, l == posterior.Logistic)
			s := Start(l, p, nil, nil, 16, posterior.PriorFor(l, 1), r)
			f, err := NewRefit(s, p, 10, 1)
			if err != nil {
				b.Fatal(err)
			}
			passes := 2.0
			if l == posterior.Logistic {
				passes = 3
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Sweep(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			flops := passes * 2 * float64(f.pairs.stride) * 500_000
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
