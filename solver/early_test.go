package solver

import (
	"math"
	"testing"

	"github.com/refitd/refitd/solver/internal/convexfm"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/solvertest"
)

// squaredRatings are plantedRatings of one output with weights, of squared loss or another.
func squaredRatings(seed uint64, lossFn Loss) *Problem {
	p := plantedRatings(seed, 900, 12, 15)
	one := &Problem{X: p.X, Outputs: 1, Loss: lossFn}
	for i := range p.X.NumRows() {
		index, _ := p.X.Row(i)
		target := math.Sin(float64(index[0])) * math.Cos(2*float64(index[1]))
		target += 0.5*math.Cos(float64(3*index[0]))*math.Sin(float64(index[1])) + 0.3*math.Sin(float64(7*i))
		if _, ok := lossFn.(Squared); !ok {
			target = math.Copysign(1, target)
		}
		one.Targets, one.Weights = append(one.Targets, target), append(one.Weights, 0.5+float64(i%3)/2)
	}
	return one
}

// earlyFit are settings of fits with early steps.
func earlyFit() Settings {
	s := smallSettings()
	s.Kernel, s.Lambda, s.MaxBasis, s.Tolerance, s.LinearRidge, s.BiasRidge = ANOVA, 4, 40, 1e-3, 1e-3, 1e-3
	return s
}

// TestAppendPairs: activations of rows with two features are those of Model.Activations.
func TestAppendPairs(t *testing.T) {
	p := squaredRatings(3, Squared{})
	run, err := newSolve(t.Context(), p, ConvexFM{}.settings(earlyFit()))
	if err != nil {
		t.Fatal(err)
	}
	d := p.X.NumColumns
	vectors := [][]float64{gamma.RandomUnit(d, 1), gamma.RandomUnit(d, 2), gamma.RandomUnit(d, 3)}
	run.append(vectors...)
	model := Model{Kernel: ANOVA, NumBasis: 3, Basis: make([]float64, 3*d)}
	for r, h := range vectors {
		for j, x := range h {
			model.Basis[3*j+r] = x
		}
	}
	want, work := make([]float64, 3), make([]float64, 3)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		model.Activations(want, work, index, value)
		for r, x := range want {
			if got := run.output.Phi[r][i]; !solvertest.Near(got, x, 1e-12, 1e-15) {
				t.Fatalf("row %d, vector %d: %v, by Activations %v", i, r, got, x)
			}
		}
	}
}

// TestRoughWeights: the objective never rises, and of squared loss each weight is the best for the ones before it.
func TestRoughWeights(t *testing.T) {
	for _, lossFn := range []Loss{Squared{}, BinaryLogistic{}, BinarySquaredHinge{}} {
		p := squaredRatings(4, lossFn)
		s := earlyFit()
		s.Lambda, s.BiasRidge = 0.5, 0 // scoreLoss would move the bias
		run, err := newSolve(t.Context(), p, ConvexFM{}.settings(s))
		if err != nil {
			t.Fatal(err)
		}
		at := func(v []float64) float64 {
			copy(run.v, v)
			run.scoreLoss()
			return run.objective
		}
		d := p.X.NumColumns
		run.append(gamma.RandomUnit(d, 5), gamma.RandomUnit(d, 6), gamma.RandomUnit(d, 7), make([]float64, d))
		begun := []float64{0.3, 0, 0, 0}
		before := at(begun)
		run.roughWeights()
		v := append([]float64(nil), run.v...)
		if v[0] != 0.3 || v[1] == 0 || v[3] != 0 {
			t.Fatalf("%s: weights %v", lossFn.Name(), v)
		}
		if after := at(v); !(after < before) {
			t.Errorf("%s: objective %v, from %v", lossFn.Name(), after, before)
		}
		if _, ok := lossFn.(Squared); !ok {
			continue
		}
		for b := 1; b < 3; b++ {
			so := append([]float64(nil), begun...)
			copy(so, v[:b+1])
			least := at(so)
			for _, by := range []float64{-1e-3, 1e-3} {
				so[b] = v[b] + by
				if other := at(so); other < least {
					t.Errorf("weight %d: objective %v at %v, %v at %v", b, least, v[b], other, so[b])
				}
			}
		}
	}
}

// TestEarlySteps: a fit with early steps ends where a fit to a far smaller tolerance does, its objective falls, each
// step's gap bounds what is left to gain, and with a λ that lets no vector enter the first step is already at the
// optimum of the linear term, be its ridge ever so small.
func TestEarlySteps(t *testing.T) {
	losses := []Loss{BinaryLogistic{}, Squared{}, BinarySquaredHinge{}}
	for _, a := range []ConvexFM{{}, {Diagonal: true}} {
		if a.Diagonal {
			losses = few(losses)
		}
		for _, loss := range losses {
			p, s := squaredRatings(5, loss), earlyFit()
			sharp := s
			sharp.Tolerance = 1e-9
			best, err := a.Fit(t.Context(), p, nil, sharp)
			if err != nil {
				t.Fatal(err)
			}
			last, early := math.Inf(1), 0
			s.OnStep = func(step Step, _ *Model) bool {
				if step.Objective > last*(1+1e-12) || step.Gap < step.Objective-best.Objective-1e-9*best.Objective {
					t.Errorf("%s, diagonal %t: objective %v after %v, gap %v, least %v", loss.Name(), a.Diagonal,
						step.Objective, last, step.Gap, best.Objective)
				}
				if last-step.Objective > earlyDecrease*step.Objective {
					early++
				}
				last = step.Objective
				return false
			}
			res, err := a.Fit(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			if res.GapKind != Certified || res.GapRelative > s.Tolerance || res.Status != Converged || res.Rank == 0 ||
				early < 2 {
				t.Errorf("%s, diagonal %t: gap %s %v, %v, rank %d, %d early steps", loss.Name(), a.Diagonal,
					res.GapKind, res.GapRelative, res.Status, res.Rank, early)
			}
			if excess := res.Objective - best.Objective; excess > res.Gap || excess < -1e-6*best.Objective {
				t.Errorf("%s, diagonal %t: objective %v, least %v, gap %v", loss.Name(), a.Diagonal, res.Objective,
					best.Objective, res.Gap)
			}
			s.OnStep, s.LinearRidge, s.Lambda = nil, 1e-9, 1000
			if res, err = a.Fit(t.Context(), p, nil, s); err != nil {
				t.Fatal(err)
			}
			if len(res.Steps) != 1 || res.Steps[0].Gap > s.Tolerance*res.Objective || res.Rank != 0 ||
				res.Status != Converged {
				t.Errorf("%s, diagonal %t: without vectors %d steps, the first to a gap of %v of %v, rank %d, %v",
					loss.Name(), a.Diagonal, len(res.Steps), res.Steps[0].Gap, res.Objective, res.Rank, res.Status)
			}
		}
	}
}

// TestCertifyWarm: a warm start whose sweeps ended too early for a certificate gets it after further ones, of the point
// where these end; one that has it stays where it is.
func TestCertifyWarm(t *testing.T) {
	p, s := squaredRatings(6, Squared{}), earlyFit()
	s.Tolerance = 1e-2
	before, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Targets[:len(p.Targets)/8] {
		p.Targets[i] = p.Targets[i+len(p.Targets)/2]
	}
	run, err := newSolve(t.Context(), p, ConvexFM{}.settings(s))
	if err != nil {
		t.Fatal(err)
	}
	run.spectrum = &convexfm.Spectrum{
		Split:   p.X.Split(),
		Factors: convexfm.NewFactorDescent(p, ANOVA, run.linear, s.Lambda, run.workers),
	}
	if err := run.load(before.Model); err != nil {
		t.Fatal(err)
	}
	run.begin()
	run.score()
	begun := run.gapTerms()
	if certified, _ := run.certifiedHere(begun); certified {
		t.Fatal("the warm model is within the tolerance as it is")
	}
	terms := run.certifyWarm(begun)
	if run.certificate == nil || run.certificate.terms.objective != terms.objective ||
		terms.objective != run.objective ||
		!(terms.objective < begun.objective) {
		t.Fatalf("objective %v from %v, terms of %v, certificate %v", run.objective, begun.objective, terms.objective,
			run.certificate)
	}
	if gap := terms.at(run.certificate.bound.Value); gap > s.Tolerance*terms.objective {
		t.Errorf("gap %v of %v", gap, terms.objective)
	}
	made := run.objective
	run.certificate = nil
	if again := run.certifyWarm(terms); run.certificate == nil || again.objective != terms.objective ||
		run.objective != made {
		t.Errorf("from objective %v to %v, certificate %v", made, run.objective, run.certificate)
	}
}
