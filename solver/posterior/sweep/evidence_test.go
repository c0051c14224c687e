package sweep

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
)

// TestBoundsAgainstDefinition compares pseudo-observations and likelihood, which take their exponentials in blocks,
// with one row and one output at a time; outputs are few, and more than a block and a product of factors hold.
func TestBoundsAgainstDefinition(t *testing.T) {
	for _, outputs := range []int{1, 3, 700} {
		r := rand.New(rand.NewPCG(4, 4))
		p := posteriortest.Ratings(r, 1300, 30, 20, 2, true)
		p.Outputs, p.Targets = outputs, nil
		for range 1300 {
			p.Weights = append(p.Weights, r.Float64())
			for range outputs {
				p.Targets = append(p.Targets, math.Copysign(1, r.NormFloat64()))
			}
		}
		s := randomState(r, p, posterior.Logistic, 2)
		f, err := NewRefit(s, p, 10, 2)
		if err != nil {
			t.Fatal(err)
		}
		f.mean[3], f.mean[5], f.mean[7], f.spread[3] = 900, -900, 0, 0
		f.observe()
		want := 0.0
		for i := range f.mean {
			w := p.Weight(i)
			omega, right := s.Pseudo(p.Target(i), f.mean[i], f.spread[i])
			if math.Abs(f.omega[i]-w*omega) > 1e-12*w*omega || math.Abs(f.right[i]-w*right) > 1e-12*float64(outputs) {
				t.Fatalf("%d outputs, row %d: ω = %.15g and ω·t = %.15g, by definition %.15g and %.15g", outputs, i,
					f.omega[i], f.right[i], w*omega, w*right)
			}
			for c, target := range p.Target(i) {
				o := s.Bias[c] + f.mean[i]
				want += w * s.LogisticLikelihood(target, o, f.spread[i])
			}
		}
		if b := s.Bias[0]; outputs == 1 { // one row of each kind counts for θ
			want -= math.Log1p(math.Exp(b)) + math.Log1p(math.Exp(-b))
		}
		if got := f.likelihood(); math.Abs(got-want) > 1e-12*math.Abs(want) {
			t.Errorf("%d outputs: likelihood %.15g, by definition %.15g", outputs, got, want)
		}
	}
}

// TestGaussianEvidenceAgainstDefinition takes the expected squared residuals, which pairs derive from their sums, row
// by row.
func TestGaussianEvidenceAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	p := posteriortest.Ratings(r, 2000, 60, 50, 2, false)
	for range p.X.NumRows() {
		p.Weights = append(p.Weights, r.Float64())
	}
	s := randomState(r, p, posterior.Gaussian, 3)
	f, err := NewRefit(s, p, 10, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	view := posterior.NewRowView(s.Sign)
	squares, errors, n := 0.0, 0.0, 0.0
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		e := p.Targets[i] - s.Bias[0] - view.Gather(s, index, value)
		w := p.Weight(i)
		squares += w * (e*e + view.Variance())
		errors += w * e
		n += w
	}
	if math.Abs(f.squares-squares) > 1e-10*squares {
		t.Errorf("Σ E(t − o)² = %.15g, row by row %.15g", f.squares, squares)
	}
	if math.Abs(errors) > 1e-9*n {
		t.Errorf("the residuals sum to %g at the best θ", errors)
	}
	if math.Abs(s.Noise*squares-n) > 1e-9*n {
		t.Errorf("noise precision %.15g, n/Σ = %.15g", s.Noise, n/squares)
	}
}
