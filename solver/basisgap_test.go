package solver

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/solvertest"
)

// overBasis is the slow twin: the objective over a fixed basis after so many steps of proximal gradient descent, from
// row by row sums in the penalised form without a linear term, with steps short enough for any loss of curvature 1.
func overBasis(p *Problem, model *Model, s Settings, steps int) float64 {
	n, m, k := p.X.NumRows(), p.Outputs, model.NumBasis
	phi, work, smooth := make([]float64, n*k), make([]float64, 2*k), 0.0
	for i := range n {
		index, value := p.X.Row(i)
		model.Activations(phi[i*k:i*k+k], work, index, value)
		for _, a := range phi[i*k : i*k+k] {
			smooth += p.Weight(i) * a * a * max(1, p.Loss.Curvature(m))
		}
	}
	v, gradient := append([]float64(nil), model.Weights...), make([]float64, k*m)
	pred, row := make([]float64, m), make([]float64, m)
	objective := 0.0
	for step := range steps + 1 {
		clear(gradient)
		objective = s.Lambda * s.Penalty.Norm(v, k, m)
		for i := range n {
			copy(pred, model.Bias)
			for r, a := range phi[i*k : i*k+k] {
				for c := range m {
					pred[c] += a * v[r*m+c]
				}
			}
			objective += p.Weight(i) * p.Loss.Eval(row, pred, p.Target(i))
			for r, a := range phi[i*k : i*k+k] {
				for c, g := range row {
					gradient[r*m+c] += p.Weight(i) * a * g
				}
			}
		}
		if step == steps {
			break
		}
		for i, g := range gradient {
			v[i] -= g / smooth
		}
		s.Penalty.Prox(v, k, m, s.Lambda/smooth)
	}
	return objective
}

// TestBasisGap checks gaps of models from far away to the optimum of their basis, at several strengths, against the
// slow twin, which has no linear term to fit: that they are no less than the true distance, and not much more.
func TestBasisGap(t *testing.T) {
	tier.NotUnderRace(t)
	p := plantedRatings(31, 200, 7, 8)
	p.Weights = make([]float64, p.X.NumRows())
	for i := range p.Weights {
		p.Weights[i] = 0.5 + float64(i%3)/2
	}
	far := 0
	for _, pen := range allPenalties {
		for _, lambda := range []float64{0.1, 2} {
			t.Run(fmt.Sprintf("%v/%g", pen, lambda), func(t *testing.T) {
				s := smallSettings()
				s.Penalty, s.Lambda, s.LinearRidge, s.BiasRidge, s.MaxBasis = pen, lambda, 0, 0, 3
				res, err := Solve(t.Context(), p, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				for _, shrink := range []float64{1, 0.9, 0.3} {
					model := res.Model.Clone()
					for i := range model.Weights {
						model.Weights[i] *= shrink
					}
					gap, objective, err := BasisGap(t.Context(), p, model, s)
					if err != nil {
						t.Fatal(err)
					}
					if want := overBasis(p, model, s, 0); !solvertest.Near(objective, want, 1e-9, 0) {
						t.Errorf("objective %v, recomputed %v", objective, want)
					}
					excess := objective - overBasis(p, model, s, 4000)
					if gap < excess-1e-9*objective || gap > 2*excess+2*basisEnough*objective {
						t.Errorf("weights × %g: gap %v, the optimum of this basis is %v below the objective %v", shrink,
							gap, excess, objective)
					}
					if excess > 0.01*objective {
						far++
					}
				}
			})
		}
	}
	if far < 6 {
		t.Errorf("%d models were far from the optimum of their basis", far)
	}
}

// TestBasisGapWithLinearTerm checks gaps of models with a linear term and bias that are far from their optimum, in both
// forms, against a solve to a small tolerance over the same basis; and that the bound at a single point, with a smaller
// dual norm or without the ridge terms, is seen to be too small.
func TestBasisGapWithLinearTerm(t *testing.T) {
	tier.NotUnderRace(t)
	p := plantedRatings(32, 300, 8, 9)
	caught := map[string]int{}
	for _, pen := range allPenalties {
		for form, strength := range map[string][2]float64{"penalised": {2, 0}, "constrained": {0, 6}} {
			t.Run(fmt.Sprintf("%v/%s", pen, form), func(t *testing.T) {
				s := smallSettings()
				s.Penalty, s.BiasRidge, s.MaxBasis, s.Lambda, s.Tau = pen, 0.01, 3, strength[0], strength[1]
				res, err := Solve(t.Context(), p, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				for _, shrink := range []float64{1, 0.9, 0.3} {
					model := res.Model.Clone()
					for _, part := range [][]float64{model.Weights, model.Linear, model.Bias} {
						for i := range part {
							part[i] *= shrink
						}
					}
					gap, objective, err := BasisGap(t.Context(), p, model, s)
					if err != nil {
						t.Fatal(err)
					}
					only := s
					only.MaxSteps, only.Tolerance, only.MaxIterations, only.Solver = 0, 1e-9, 20000, FISTA
					best, err := Solve(t.Context(), p, model, only)
					if err != nil {
						t.Fatal(err)
					}
					excess := objective - best.Objective
					if gap < excess-1e-9*objective || gap > 2*excess+0.02*objective {
						t.Errorf("parameters × %g: gap %v, the optimum of this basis is %v below the objective %v",
							shrink, gap, excess, objective)
					}
					catch(t, p, model, s, excess, form, caught)
				}
			})
		}
	}
	for _, what := range []string{"penalised dual norm", "constrained dual norm", "penalised ridge"} {
		if caught[what] == 0 {
			t.Errorf("a gap with a wrong %s was never seen to be too small: %v", what, caught)
		}
	}
}

// catch counts wrong bounds at a model that are less than the excess.
func catch(t *testing.T, p *Problem, model *Model, s Settings, excess float64, form string, caught map[string]int) {
	t.Helper()
	run, err := newSolve(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.load(model); err != nil {
		t.Fatal(err)
	}
	run.begin()
	wrong := run.gapTerms()
	wrong.own = 0
	if wrong.at(0) < excess {
		caught[form+" dual norm"]++
	}
	wrong = run.gapTerms()
	wrong.ridge = linear.RidgeTerms{}
	if wrong.at(0) < excess {
		caught[form+" ridge"]++
	}
}

// TestBasisGapEnds: nothing is started with a context that is done, a model of other columns is refused, and the number
// of workers changes nothing.
func TestBasisGapEnds(t *testing.T) {
	p := plantedRatings(33, 400, 8, 9)
	s := smallSettings()
	res, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := BasisGap(done, p, res.Model, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, _, err := BasisGap(t.Context(), plantedRatings(33, 400, 9, 9), res.Model, s); !errors.Is(err, ErrSettings) {
		t.Errorf("a model of other columns: %v", err)
	}
	one, objective, err := BasisGap(t.Context(), p, res.Model, s)
	if err != nil || !solvertest.Near(objective, res.Objective, 1e-9, 0) || one > 0.01*objective {
		t.Errorf("gap %v of objective %v, %v; the solve ended at %v", one, objective, err, res.Objective)
	}
	s.Workers = 3
	if three, _, err := BasisGap(t.Context(), p, res.Model, s); err != nil || three != one {
		t.Errorf("gap %v with three workers, %v with one, %v", three, one, err)
	}
}

// TestBasisGapOfWeakPenalty: where λ is small the bound at a model that was left early says little. That of rounds of
// refits from there is a few times the true distance.
func TestBasisGapOfWeakPenalty(t *testing.T) {
	p := plantedRatings(34, 900, 60, 40)
	s := smallSettings()
	s.Lambda, s.MaxBasis, s.Rough, s.Tolerance = 0.02, 4, true, 1e-3
	res, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	gap, objective, err := BasisGap(t.Context(), p, res.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	run, err := newSolve(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.load(res.Model); err != nil {
		t.Fatal(err)
	}
	run.begin()
	run.score()
	if single := run.gapTerms().at(0); gap > 0.4*single || gap < 0.001*objective {
		t.Errorf("gap %v, that at the model alone %v, objective %v", gap, single, objective)
	}
}
