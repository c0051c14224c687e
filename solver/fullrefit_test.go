package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/full"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// fullSettings are settings of small full refits.
func fullSettings() Settings {
	s := smallSettings()
	s.Refit, s.FullEvery, s.FullIterations = Full, 2, 60
	return s
}

// TestSolveFull checks for every kernel, method and form that the reported objective is that of the model, and that
// full refits end lower than those of the output layer alone.
func TestSolveFull(t *testing.T) {
	tier.NotUnderRace(t)
	p := plantedRatings(41, 600, 12, 15)
	p.Weights = make([]float64, p.X.NumRows())
	for i := range p.Weights {
		p.Weights[i] = 0.5 + float64(i%3)/2
	}
	for _, kernel := range []Kernel{ANOVA, Homogeneous} {
		for _, method := range []Method{Hybrid, Stochastic, SVRG} {
			for _, ridge := range []float64{0, 3} {
				if kernel == Homogeneous && method != Hybrid {
					continue
				}
				t.Run(fmt.Sprintf("%v/%v/%g", kernel, method, ridge), func(t *testing.T) {
					s := fullSettings()
					s.Kernel, s.Solver, s.BasisRidge, s.MaxBasis = kernel, method, ridge, 3
					res, err := Solve(t.Context(), p, nil, s)
					if err != nil {
						t.Fatal(err)
					}
					objective, _ := slowGap(t, p, res.Model, s)
					objective += 0.5 * ridge * square(res.Model.Basis)
					if !solvertest.Near(res.Objective, objective, 1e-9, 0) || res.Model.NumBasis == 0 {
						t.Errorf("objective %v of %d vectors, recomputed %v", res.Objective, res.Model.NumBasis,
							objective)
					}
					if ridge > 0 || method != Hybrid {
						return
					}
					for r := range res.Model.NumBasis {
						length := 0.0
						for j := range res.Model.NumFeatures {
							length += res.Model.Basis[j*res.Model.NumBasis+r] * res.Model.Basis[j*res.Model.NumBasis+r]
						}
						if !solvertest.Near(length, 1, 1e-12, 0) {
							t.Errorf("‖h_%d‖² = %v", r, length)
						}
					}
					s.Refit = OutputLayer
					output, err := Solve(t.Context(), p, nil, s)
					if err != nil {
						t.Fatal(err)
					}
					if !(res.Objective < output.Objective) {
						t.Errorf("objective %v, by refits of the output layer %v", res.Objective, output.Objective)
					}
				})
			}
		}
	}
}

// TestSolveFullWorkers checks that the number of workers leaves no trace.
func TestSolveFullWorkers(t *testing.T) {
	p := plantedRatings(42, 2500, 40, 50) // several blocks of rows
	var first *Result
	for _, workers := range []int{1, 2, 8} {
		s := fullSettings()
		s.MaxBasis, s.Workers, s.FullIterations, s.Rough = 2, workers, 10, true
		res, err := Solve(t.Context(), p, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = res
		}
		if res.Objective != first.Objective || !floats.Same(res.Model.Basis, first.Model.Basis) ||
			!floats.Same(res.Model.Weights, first.Model.Weights) {
			t.Errorf("objective %v with %d workers, %v with one", res.Objective, workers, first.Objective)
		}
	}
}

// TestRefitFull checks that a full refit lowers the objective, keeps activations and basis in step, and that one which
// does not is dropped.
func TestRefitFull(t *testing.T) {
	p := plantedRatings(43, 500, 12, 15)
	for _, ridge := range []float64{0, 5} {
		for _, tau := range []float64{0, 30} {
			s := fullSettings()
			s.Lambda, s.BasisRidge, s.Tau = 0.2, ridge, tau
			if tau > 0 {
				s.Lambda = 0
			}
			run, err := newSolve(t.Context(), p, s)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(6, 6))
			for range 3 {
				h := make([]float64, p.X.NumColumns)
				for j := range h {
					h[j] = rng.NormFloat64()
				}
				floats.Scale(1/dense.Norm2(h), h)
				run.append(h)
			}
			run.refitOutput(s.Tolerance, fullSpan)
			run.score()
			before := run.objective
			run.refitFull(false)
			run.score()
			if !(run.objective < 0.99*before) || run.norm > tau*(1+1e-12) && tau > 0 {
				t.Errorf("ridge %v, tau %v: objective %v at norm %v, was %v", ridge, tau, run.objective, run.norm,
					before)
			}
			pred := append([]float64(nil), run.pred...)
			out, work := make([]float64, run.m), make([]float64, 2*run.k)
			model := run.model()
			for i := range p.X.NumRows() {
				index, value := p.X.Row(i)
				model.Predict(out, work, index, value)
				for c, o := range out {
					if !solvertest.Near(pred[i*run.m+c], o, 1e-10, 1e-10) {
						t.Fatalf("ridge %v, tau %v: prediction %v of row %d, by the model %v", ridge, tau,
							pred[i*run.m+c], i, o)
					}
				}
			}
			// Epochs that the noise of minibatches throws off the optimum are dropped.
			for range 20 {
				run.refitFull(false)
			}
			kept := run.point()
			run.s.Solver = Stochastic
			run.refitFull(false)
			if run.s.Solver = Hybrid; !floats.Same(kept, run.point()) {
				t.Errorf("ridge %v, tau %v: a worse point was kept", ridge, tau)
			}
		}
	}
}

// TestBalance checks that balancing keeps the predictions, lowers the objective and leaves both terms of a row equal.
func TestBalance(t *testing.T) {
	p := plantedRatings(44, 500, 10, 10)
	s := fullSettings()
	s.BasisRidge = 7
	run, err := newSolve(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	for r := range 3 {
		h := make([]float64, p.X.NumColumns)
		h[r], h[r+10] = 0.6, 0.8
		run.append(h)
		for c := range run.m {
			run.v[r*run.m+c] = float64(r + c)
		}
	}
	run.score()
	before, pred := run.objective, append([]float64(nil), run.pred...)
	run.balance()
	run.score()
	if !(run.objective < before) || floats.Distance(pred, run.pred, 2) > 1e-2*floats.Norm(pred, 2) {
		t.Errorf("objective %v, was %v; predictions moved by %v", run.objective, before,
			floats.Distance(pred, run.pred, 2))
	}
	for r, h := range run.basis {
		term, ridge := s.Lambda*s.Penalty.RowNorm(run.v[r*run.m:r*run.m+run.m]), 0.5*s.BasisRidge*floats.Dot(h, h)
		if !solvertest.Near(term, ridge, 1e-12, 0) {
			t.Errorf("row %d: penalty %v and ridge %v", r, term, ridge)
		}
	}
}

// TestRefitFromStarts: more starts end no higher than the given point alone, lower in the mean, and at a feasible
// point.
func TestRefitFromStarts(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 84))
	logs, runs := 0.0, 12
	for i := range runs {
		p, s := randomProblem(t, rng, allPenalties[i%3])
		s.Lambda /= 10
		if i%4 == 3 {
			s.Lambda, s.Tau = 0, 0.5
		}
		run, err := newSolve(t.Context(), p, s)
		if err != nil {
			t.Fatal(err)
		}
		run.append(gamma.RandomUnit(p.X.NumColumns, 1), gamma.RandomUnit(p.X.NumColumns, 2),
			gamma.RandomUnit(p.X.NumColumns, 3))
		for i := range run.v {
			run.v[i] = 0.1 * rng.NormFloat64()
		}
		s.Penalty.Project(run.v, run.k, run.m, 0.5)
		f := full.NewFullFit(p, s.Kernel, s.form(), 0, run.output.Offset, solvertest.TestWorkers(1))
		f.Resize(run.k)
		one, several := run.point(), run.point()
		f.Minimize(one, output.FitLimits{Tolerance: 1e-9, Span: 10, Iterations: 1000})
		f.Smooth = 0
		f.MinimizeFromStarts(several, output.FitLimits{Tolerance: 1e-9, Span: 10, Iterations: 1000}, rng)
		low, high := f.Pass(several, nil)+f.Term(several), f.Pass(one, nil)+f.Term(one)
		v, h := f.Split(several)
		if !(low <= high) || s.Tau > 0 && s.Penalty.Norm(v, f.K, f.P.Outputs) > s.Tau*(1+1e-12) {
			t.Errorf("%d: objective %v from several starts, %v from one; norm %v", i, low, high,
				s.Penalty.Norm(v, f.K, f.P.Outputs))
		}
		for _, square := range f.Lengths(h) {
			if square > 1+1e-12 {
				t.Errorf("%d: a basis vector of squared length %v", i, square)
			}
		}
		logs += math.Log(low / high)
	}
	if mean := math.Exp(logs / float64(runs)); !(mean < 0.998) {
		t.Errorf("objectives from several starts are %v of those from one", mean)
	}
}

// TestRidgeStaysInTheBall: in constrained form a ridge on the basis vectors leaves none longer than 1, so that the
// penalty of the model over unit vectors is at most τ, whichever method refits them.
func TestRidgeStaysInTheBall(t *testing.T) {
	p := interactions(3, Squared{}, 100, 5)
	for _, kernel := range []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3} {
		for _, method := range []Method{FISTA, Stochastic, SVRG} {
			for _, pen := range few(allPenalties) {
				for _, ridge := range []float64{0.01, 1} {
					s := smallSettings()
					s.Kernel, s.Solver, s.Penalty, s.Refit = kernel, method, pen, Full
					s.Lambda, s.Tau, s.BasisRidge = 0, 1.5, ridge
					res, err := Solve(t.Context(), p, nil, s)
					if err != nil {
						t.Fatal(err)
					}
					k, unit := res.Model.NumBasis, slices.Clone(res.Model.Weights)
					for r := range unit {
						h := make([]float64, res.Model.NumFeatures)
						for j := range h {
							h[j] = res.Model.Basis[j*k+r]
						}
						unit[r] = kernel.OfLength(unit[r], dense.Norm2(h))
					}
					if norm := pen.Norm(unit, k, 1); k == 0 || norm > s.Tau*(1+1e-9) {
						t.Errorf("%v %v %v, ridge %v: norm %v of %d unit vectors, τ is %v", kernel, method, pen,
							ridge, norm, k, s.Tau)
					}
				}
			}
		}
	}
}
