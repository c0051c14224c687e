package sweep

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// threeFields draws rows of a user, an item and a number, with planted interactions of all three.
func threeFields(r *rand.Rand, n, users, items int) *solver.Problem {
	d := users + items + 1
	h := make([]float64, d)
	for j := range h {
		h[j] = r.NormFloat64()
	}
	field := make([]int32, d)
	for j := users; j < users+items; j++ {
		field[j] = 1
	}
	field[d-1] = 2
	p := &solver.Problem{X: solver.NewRows(d, n, 3*n), Outputs: 1, Loss: solver.Squared{}, Field: field, NumFields: 3}
	for range n {
		u, i, x := r.IntN(users), users+r.IntN(items), r.Float64()
		p.X.Append([]int32{int32(u), int32(i), int32(d - 1)}, []float64{1, 1, x})
		p.Targets = append(p.Targets, h[u]*h[i]+x*h[d-1]*(h[u]+h[i])+0.3*r.NormFloat64())
	}
	return p
}

// TestStartLeadsRandom: after the same number of sweeps the evidence from Start is above that from small random
// coordinates.
func TestStartLeadsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	for name, p := range map[string]*solver.Problem{
		"gaussian": posteriortest.Ratings(r, 6000, 150, 120, 2, false),
		"logistic": posteriortest.Ratings(r, 6000, 150, 120, 2, true),
		"fields":   threeFields(r, 4000, 100, 80),
	} {
		l := posterior.Gaussian
		if p.Outputs > 1 {
			l = posterior.Logistic
		}
		prior := posterior.PriorFor(l, 1)
		evidence := func(s *posterior.State) float64 {
			f, err := NewRefit(s, p, prior.Cap, 1)
			if err != nil {
				t.Fatal(err)
			}
			last := 0.0
			for range 3 {
				if last, err = f.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return last
		}
		random := posterior.New(l, p.Outputs, 4, p.Field, p.NumFields, prior)
		for j := range random.Field {
			mean, _ := random.Row(j)
			for a := range 4 {
				mean[a+1] = 0.1 * r.NormFloat64()
			}
		}
		a, b := evidence(Start(l, p, nil, nil, 4, prior, r)), evidence(random)
		if a < b {
			t.Errorf("%s: evidence %.1f after three sweeps from Start, %.1f from random coordinates", name, a, b)
		}
	}
}

// TestStartFindsThePlantedSubspace: without noise or linear terms the first coordinates of users span the planted ones.
func TestStartFindsThePlantedSubspace(t *testing.T) {
	const users, items, k = 40, 30, 2
	r := rand.New(rand.NewPCG(6, 1))
	h := make([]float64, (users+items)*k)
	for i := range h {
		h[i] = r.NormFloat64()
	}
	for f, size := range []int{users, items} { // centred, so that the linear weights take nothing
		for c := range k {
			mean := 0.0
			for j := range size {
				mean += h[(f*users+j)*k+c] / float64(size)
			}
			for j := range size {
				h[(f*users+j)*k+c] -= mean
			}
		}
	}
	field := make([]int32, users+items)
	p := &solver.Problem{
		X:         solver.NewRows(users+items, users*items, 2*users*items),
		Outputs:   1,
		Loss:      solver.Squared{},
		Field:     field,
		NumFields: 2,
	}
	for u := range users {
		for i := users; i < users+items; i++ {
			field[i] = 1
			p.X.Append([]int32{int32(u), int32(i)}, []float64{1, 1})
			p.Targets = append(p.Targets, h[u*k]*h[i*k]+h[u*k+1]*h[i*k+1])
		}
	}
	s := Start(posterior.Gaussian, p, nil, nil, k, posterior.PriorFor(posterior.Gaussian, 1), r)
	// Regress a planted coordinate on the two found: nothing is left.
	for c := range k {
		a, b, total := make([]float64, posterior.PackedSize(k)), make([]float64, k), 0.0
		for u := range users {
			mean, _ := s.Row(u)
			posterior.AddOuter(a, 1, mean[1:])
			for e := range k {
				b[e] += mean[e+1] * h[u*k+c]
			}
			total += h[u*k+c] * h[u*k+c]
		}
		explained := append([]float64(nil), b...)
		if !posterior.Cholesky(a, k) {
			t.Fatal("the coordinates are linearly dependent")
		}
		posterior.SolveCholesky(a, k, explained)
		left := total
		for e := range k {
			left -= b[e] * explained[e]
		}
		if left > 1e-3*total {
			t.Errorf("coordinate %d: %.3g of %.3g is left", c, left, total)
		}
	}
}

// TestStartFindsLinearWeights: where there is nothing else and every feature has many rows, shrinkage takes little
// away.
func TestStartFindsLinearWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	p := posteriortest.Ratings(r, 20_000, 10, 8, 0, false)
	want := make([]float64, 18)
	for _, features := range [][2]int{{0, 10}, {10, 18}} {
		mean := 0.0
		for j := features[0]; j < features[1]; j++ {
			want[j] = r.NormFloat64()
			mean += want[j] / float64(features[1]-features[0])
		}
		for j := features[0]; j < features[1]; j++ {
			want[j] -= mean
		}
	}
	for i := range p.Targets {
		index, _ := p.X.Row(i)
		p.Targets[i] = want[index[0]] + want[index[1]]
	}
	s := Start(posterior.Gaussian, p, nil, nil, 1, posterior.PriorFor(posterior.Gaussian, 1), r)
	level := s.Mean[0] - want[0] // features of a field may share a constant with the other field's
	for j := range 18 {
		shift := level
		if j >= 10 {
			shift = s.Mean[10*2] - want[10]
		}
		if got := s.Mean[j*2] - shift; math.Abs(got-want[j]) > 0.02 {
			t.Errorf("linear weight %d is %.4f, planted %.4f", j, got, want[j])
		}
	}
}

// TestStartIsFinite starts on samples that have nothing to find, or not enough features for k orthonormal vectors.
func TestStartIsFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	small := posteriortest.Ratings(r, 30, 3, 2, 1, false)
	constant := posteriortest.Ratings(r, 50, 10, 10, 1, false)
	for i := range constant.Targets {
		constant.Targets[i] = 2
	}
	weightless := posteriortest.Ratings(r, 50, 10, 10, 1, true)
	weightless.Weights = make([]float64, 50)
	oneSided := posteriortest.Ratings(r, 50, 10, 10, 1, true)
	for i := range oneSided.Targets {
		oneSided.Targets[i] = 1
	}
	words := posteriortest.Ratings(r, 50, 10, 10, 1, false)
	words.Field, words.NumFields = make([]int32, 20), 1
	for name, p := range map[string]*solver.Problem{
		"few features": small, "constant": constant, "no weight": weightless, "one side": oneSided, "one field": words,
	} {
		l := posterior.Gaussian
		if p.Outputs > 1 {
			l = posterior.Logistic
		}
		s := Start(l, p, nil, nil, 6, posterior.PriorFor(l, 1), r)
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if slices.ContainsFunc(s.Covariance, math.IsNaN) {
			t.Errorf("%s: a covariance is NaN", name)
		}
		f, err := NewRefit(s, p, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		if name == "no weight" {
			continue // the sample says nothing about the noise
		}
		for range 3 {
			if _, err := f.Sweep(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
