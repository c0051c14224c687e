package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// randomState returns a posterior with random means and positive definite covariances.
func randomState(r *rand.Rand, p *solver.Problem, l posterior.Likelihood, k int) *posterior.State {
	s := posterior.New(l, p.Outputs, k, p.Field, p.NumFields, posterior.PriorFor(l, 1))
	for i := range s.Mean {
		s.Mean[i] = 0.5 * r.NormFloat64()
	}
	for i := range s.Sign {
		if r.IntN(2) == 0 {
			s.Sign[i] = -1
		}
	}
	for j := range s.Field {
		_, cov := s.Row(j)
		a := randomPositive(r, k+1)
		for i := range cov {
			cov[i] = 0.05 * a[i]
		}
	}
	for c := range s.Bias {
		s.Bias[c] = r.NormFloat64()
	}
	return s
}

// slowUpdate is the posterior of one feature by sampling-free expectation over a dense expansion: moments of y and of
// y·rest are computed from E[v vᵀ] = mean meanᵀ + C of every partner by definition, for rows of exactly two features.
func slowUpdate(s *posterior.State, p *solver.Problem, omega, right []float64, j int) (mean, cov []float64) {
	q := s.NumBasis + 1
	a := make([]float64, posterior.PackedSize(q))
	b := make([]float64, q)
	for i, d := range s.PrecisionOf(int(s.Field[j])) {
		a[i*(i+1)/2+i] = d
	}
	for i := range p.X.NumRows() {
		index, _ := p.X.Row(i)
		at := slices.Index(index, int32(j))
		if at < 0 {
			continue
		}
		m, c := s.Row(int(index[1-at]))
		sign := append([]float64{0}, s.Sign...)
		second := func(x, y int) float64 { // E[v_x v_y] of the partner
			x, y = max(x, y), min(x, y)
			return m[x]*m[y] + c[x*(x+1)/2+y]
		}
		for x := range q {
			ex := 1.0
			if x > 0 {
				ex = sign[x] * m[x]
			}
			b[x] += right[i] * ex
			if x == 0 {
				b[x] -= omega[i] * m[0]
			} else {
				b[x] -= omega[i] * sign[x] * second(x, 0)
			}
			for y := 0; y <= x; y++ {
				e := 1.0
				switch {
				case y > 0:
					e = sign[x] * sign[y] * second(x, y)
				case x > 0:
					e = sign[x] * m[x]
				}
				a[x*(x+1)/2+y] += omega[i] * e
			}
		}
	}
	posterior.Cholesky(a, q)
	posterior.SolveCholesky(a, q, b)
	cov = make([]float64, posterior.PackedSize(q))
	posterior.InvertCholesky(cov, a, q)
	return b, cov
}

// withoutPairs sends the refit down the general path.
func withoutPairs(t testing.TB, f *Refit) *Refit {
	t.Helper()
	if f.pairs == nil {
		t.Fatal("two one-hot fields do not take the fast path")
	}
	n := f.problem.X.NumRows()
	f.pairs = nil
	f.columns.fill(f.problem.X)
	f.omega, f.right, f.mean, f.spread = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	f.predict()
	return f
}

func TestFeatureUpdateAgainstDefinition(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		for _, pairs := range []bool{true, false} {
			r := rand.New(rand.NewPCG(3, uint64(l)))
			p := posteriortest.Ratings(r, 200, 12, 9, 2, l == posterior.Logistic)
			s := randomState(r, p, l, 3)
			f, err := NewRefit(s, p, 10, 1)
			if err != nil {
				t.Fatal(err)
			}
			slow, err := NewRefit(s, p, 10, 1)
			if err != nil {
				t.Fatal(err)
			}
			withoutPairs(t, slow).observe()
			if !pairs {
				f = slow
			}
			f.observe()
			var means, covs [12][]float64
			for j := range 12 {
				means[j], covs[j] = slowUpdate(s, p, slow.omega, slow.right, j)
			}
			if err := f.sweepField(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			for j := range 12 {
				mean, cov := s.Row(j)
				for i, want := range means[j] {
					if math.Abs(mean[i]-want) > 1e-9*(1+math.Abs(want)) {
						t.Fatalf("%v pairs=%v feature %d: mean[%d] = %g, by definition %g", l, pairs, j, i, mean[i],
							want)
					}
				}
				for i, want := range covs[j] {
					if math.Abs(cov[i]-want) > 1e-9*(1+math.Abs(want)) {
						t.Fatalf("%v pairs=%v feature %d: cov[%d] = %g, by definition %g", l, pairs, j, i, cov[i], want)
					}
				}
			}
		}
	}
}

// TestMomentsBySampling checks mean and variance of z, and the moments behind an update, for an example of four
// features with values other than one, against draws from the posterior.
func TestMomentsBySampling(t *testing.T) {
	for _, group := range [][]int32{nil, {0, 0, 2}, {0, 1, 1}, {0, 1, 2}} {
		t.Run(fmt.Sprint(group), func(t *testing.T) { testMomentsBySampling(t, group) })
	}
}

func testMomentsBySampling(t *testing.T, group []int32) {
	r := rand.New(rand.NewPCG(5, 6))
	p := &solver.Problem{
		X:         solver.NewRows(4, 1, 4),
		Targets:   []float64{1},
		Outputs:   1,
		Loss:      solver.Squared{},
		Field:     []int32{0, 0, 1, 2},
		NumFields: 3,
	}
	index, value := []int32{0, 1, 2, 3}, []float64{0.5, -1, 1, 2}
	p.X.Append(index, value)
	s := randomState(r, p, posterior.Gaussian, 2)
	s.Group = group
	v := posterior.NewRowView(s.Sign)
	mean := v.Gather(s, index, value)
	variance := v.Variance()
	a, b := make([]float64, 6), make([]float64, 3)
	v.Accumulate(a, b, 1, mean, 1, 0) // ω = 1, t = 0: a = E[y yᵀ], b = −E[y·rest]

	factors := make([][]float64, 4)
	for j := range factors {
		_, cov := s.Row(j)
		factors[j] = append([]float64(nil), cov...)
		if !posterior.Cholesky(factors[j], 3) {
			t.Fatal("covariance is not positive definite")
		}
	}
	const draws = 400_000
	rows := make([][3]float64, 4)
	sum, square := 0.0, 0.0
	sa, sb := make([]float64, 6), make([]float64, 3)
	for range draws {
		for j := range rows {
			m, _ := s.Row(j)
			var e [3]float64
			for i := range e {
				e[i] = r.NormFloat64()
			}
			for i := range 3 {
				rows[j][i] = m[i]
				for c := range i + 1 {
					rows[j][i] += factors[j][i*(i+1)/2+c] * e[c]
				}
			}
		}
		z := func(skip int) float64 {
			out := 0.0
			for i, x := range value {
				if i == skip {
					continue
				}
				out += x * rows[i][0]
				for l, y := range value[:i] {
					if l == skip || s.Together(int32(i), int32(l)) {
						continue
					}
					for c := range 2 {
						out += s.Sign[c] * x * y * rows[i][c+1] * rows[l][c+1]
					}
				}
			}
			return out
		}
		all, rest := z(-1), z(1)
		sum += all
		square += all * all
		y := [3]float64{value[1]}
		for c := range 2 {
			for l, x := range value {
				if l != 1 && !s.Together(1, int32(l)) {
					y[c+1] += s.Sign[c] * value[1] * x * rows[l][c+1]
				}
			}
		}
		for i := range 3 {
			sb[i] -= y[i] * rest
			for c := range i + 1 {
				sa[i*(i+1)/2+c] += y[i] * y[c]
			}
		}
	}
	near := func(name string, got, sampled float64) {
		t.Helper()
		if math.Abs(got-sampled) > 0.015*(1+math.Abs(sampled)) {
			t.Errorf("%s = %.4f, sampled %.4f", name, got, sampled)
		}
	}
	m := sum / draws
	near("mean", mean, m)
	near("variance", variance, square/draws-m*m)
	for i := range sa {
		near("E[y yᵀ]", a[i], sa[i]/draws)
	}
	for i := range sb {
		near("−E[y·rest]", b[i], sb[i]/draws)
	}
}

// addRandomBasis gives a fresh state k vectors of random coordinates.
func addRandomBasis(r *rand.Rand, s *posterior.State, k int) {
	for range k {
		h := make([]float64, s.NumFeatures())
		for j := range h {
			h[j] = 0.3 * r.NormFloat64()
		}
		s.AddBasis(h, slices.Repeat([]float64{1}, len(s.Bias)), 8)
	}
}

func TestEvidenceNeverFalls(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Gaussian, posterior.Logistic} {
		for _, weighted := range []bool{false, true} {
			r := rand.New(rand.NewPCG(7, uint64(l)))
			p := posteriortest.Ratings(r, 1500, 60, 40, 2, l == posterior.Logistic)
			if weighted {
				for range p.X.NumRows() {
					p.Weights = append(p.Weights, 0.5+r.Float64())
				}
			}
			s := posterior.New(l, p.Outputs, 0, p.Field, p.NumFields, posterior.PriorFor(l, 1))
			addRandomBasis(r, s, 3)
			f, err := NewRefit(s, p, 10, 0)
			if err != nil {
				t.Fatal(err)
			}
			last := math.Inf(-1)
			for n := range 15 {
				e, err := f.Sweep(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if e < last-1e-9*math.Abs(last) {
					t.Errorf("%v weighted=%v: sweep %d lowers the evidence from %.10g to %.10g", l, weighted, n, last,
						e)
				}
				last = e
			}
		}
	}
}

// TestRefitRecoversPlantedInteractions asks for what the method is for: after a few sweeps the residual is near the
// planted noise.
func TestRefitRecoversPlantedInteractions(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	p := posteriortest.Ratings(r, 6000, 80, 60, 2, false)
	s := posterior.New(posterior.Gaussian, 1, 0, p.Field, p.NumFields, posterior.PriorFor(posterior.Gaussian, 1))
	addRandomBasis(r, s, 4)
	f, err := NewRefit(s, p, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if _, err := f.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if noise := 1 / math.Sqrt(s.Noise); noise < 0.27 || noise > 0.36 {
		t.Errorf("noise = %.3f, planted 0.3", noise)
	}
	// The model is the posterior mean: the same predictions, with unit basis vectors.
	m := s.Model()
	out, work := make([]float64, 1), make([]float64, 2*m.NumBasis)
	for i := range 50 {
		index, value := p.X.Row(i)
		m.Predict(out, work, index, value)
		if want := s.Bias[0] + posterior.NewRowView(s.Sign).Gather(s, index, value); math.Abs(out[0]-want) > 1e-9 {
			t.Fatalf("row %d: model predicts %g, posterior mean %g", i, out[0], want)
		}
	}
	for b := range m.NumBasis {
		norm := 0.0
		for j := range m.NumFeatures {
			norm += m.Basis[j*m.NumBasis+b] * m.Basis[j*m.NumBasis+b]
		}
		if math.Abs(norm-1) > 1e-12 {
			t.Errorf("basis vector %d has norm² %g", b, norm)
		}
	}
}

func TestSweepsDoNotDependOnProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want []float64
	for _, procs := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(procs)
		r := rand.New(rand.NewPCG(11, 1))
		p := posteriortest.Ratings(r, 3000, 900, 700, 2, true)
		s := posterior.New(posterior.Logistic, p.Outputs, 0, p.Field, p.NumFields,
			posterior.PriorFor(posterior.Logistic, 1))
		addRandomBasis(r, s, 3)
		f, err := NewRefit(s, p, 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for range 3 {
			e, err := f.Sweep(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		got = append(got, s.Mean...)
		if want == nil {
			want = got
		} else if !slices.Equal(got, want) {
			t.Errorf("GOMAXPROCS %d gives other numbers", procs)
		}
	}
}

// TestSweepIsCancelled: each form of sweep yields before every feature or chunk of them and ends there when it is
// cancelled during the yield.
func TestSweepIsCancelled(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	p := posteriortest.Ratings(r, 100, 10, 10, 1, false)
	x, field := mixedRows(r, 100)
	outputs := outputProblem(r, posterior.Multinomial, x, field, 4, 3)
	refit := func(s *posterior.State, p *solver.Problem) *Refit {
		f, err := NewRefit(s, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	shared := func() *posterior.State {
		return posterior.New(posterior.Gaussian, 1, 0, p.Field, p.NumFields, posterior.PriorFor(posterior.Gaussian, 1))
	}
	separate := posterior.NewSeparate(posterior.Multinomial, 3, field, 4, posterior.PriorFor(posterior.Multinomial, 1))
	addRandomVectors(r, separate, 2)
	for name, f := range map[string]*Refit{
		"pairs": refit(shared(), p), "features": withoutPairs(t, refit(shared(), p)), "outputs": refit(separate, outputs),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		f.Yield = func() {
			if calls++; calls == 2 {
				cancel()
			}
		}
		if _, err := f.Sweep(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want %v", name, err, context.Canceled)
		}
		if calls != 2 {
			t.Errorf("%s: it yields %d times, and is cancelled at the second", name, calls)
		}
		f.Deadline = time.Now()
		if _, err := f.Sweep(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error %v after the deadline", name, err)
		}
		if err := f.state.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefitRefusesShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	p := posteriortest.Ratings(r, 10, 3, 3, 1, true)
	s := posterior.New(posterior.Gaussian, 1, 0, p.Field, p.NumFields, posterior.PriorFor(posterior.Gaussian, 1))
	if _, err := NewRefit(s, p, 10, 0); !errors.Is(err, solver.ErrProblem) {
		t.Errorf("three outputs for a Gaussian posterior: error %v", err)
	}
}

// TestSweepTakesUpObservations: what the evidence of a sweep noted for the next one is what that would have found, to
// the bit.
func TestSweepTakesUpObservations(t *testing.T) {
	for _, l := range []posterior.Likelihood{posterior.Logistic, posterior.Gaussian} {
		r := rand.New(rand.NewPCG(4, 8))
		p := posteriortest.Ratings(r, 1300, 40, 30, 2, l == posterior.Logistic)
		s := randomState(r, p, l, 2)
		again := s.Clone()
		f, err := NewRefit(s, p, 10, 2)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := NewRefit(again, p, 10, 2)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			if want := l == posterior.Logistic && n > 0; f.observed != want {
				t.Errorf("%s, sweep %d: observed is %t", l, n+1, f.observed)
			}
			slow.observed = false
			got, err := f.Sweep(t.Context())
			want, failed := slow.Sweep(t.Context())
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if got != want || !slices.Equal(s.Mean, again.Mean) || !slices.Equal(s.Covariance, again.Covariance) {
				t.Errorf("%s, sweep %d: evidence %.15g, %.15g where every sweep observes", l, n+1, got, want)
			}
		}
	}
}
