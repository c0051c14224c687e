package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/mat"
)

// globalCase is a problem whose optimum over all unit vectors is known.
type globalCase struct {
	goldenCase
	Objective  float64
	LowerBound float64 `json:"lower_bound"`
	LossValue  float64 `json:"loss_value"`
	Norm       float64 `json:"penalty_value"`
}

// eachGlobalOptimum calls f for the reference problems in both forms, with optimum and a lower bound of it. The number
// of problems called with is returned.
func eachGlobalOptimum(t *testing.T, f func(t *testing.T, p *Problem, s Settings, optimum, lower float64)) int {
	var file struct{ Cases []globalCase }
	golden(t, "global_optimum.json", &file)
	called := 0
	for n, c := range file.Cases {
		m := len(c.O[0])
		p := c.problem(t, m)
		pen, err := ParsePenalty(c.Penalty)
		if err != nil {
			t.Fatal(err)
		}
		s := DefaultSettings()
		s.Kernel, s.Penalty, s.Lambda, s.LinearRidge, s.BiasRidge = kernelOf(t, c.Kind), pen, c.Lam, 0, 0
		s.Tolerance, s.MaxIterations, s.Solver, s.Workers, s.MaxBasis = 1e-8, 1000, FISTA, 1, 1000
		called++
		t.Run(fmt.Sprintf("%d/%s/%s/%s/penalised", n, c.Kind, c.Loss, c.Penalty),
			func(t *testing.T) { f(t, p, s, c.Objective, c.LowerBound) })
		s.Lambda, s.Tau = 0, c.Norm
		// For U of the same norm λΩ cancels, so the constrained optimum is the loss at the penalised one.
		slack := c.Objective - c.LowerBound
		t.Run(fmt.Sprintf("%d/%s/%s/%s/constrained", n, c.Kind, c.Loss, c.Penalty),
			func(t *testing.T) { f(t, p, s, c.LossValue, c.LossValue-slack) })
	}
	return called
}

// solvedTo runs a few steps and returns the solve at its last point, with the operators ready.
func solvedTo(t *testing.T, p *Problem, s Settings, steps int) *solve {
	t.Helper()
	s.MaxSteps = steps
	run, err := newSolve(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	run.begin()
	run.loop(t.Context(), false)
	return run
}

// TestGapBoundsGlobalOptimum checks certified gaps against known optima, at points from none to many basis vectors, in
// both forms. A certificate with too small a dual norm must be seen to fail: if none did, the test would prove nothing.
func TestGapBoundsGlobalOptimum(t *testing.T) {
	tier.NotUnderRace(t)
	caught := map[string]int{}
	eachGlobalOptimum(t, func(t *testing.T, p *Problem, s Settings, optimum, _ float64) {
		for _, steps := range []int{0, 1, 2, 3, 5, 9, 20} {
			run := solvedTo(t, p, s, steps)
			terms, bound := run.gapTerms(), run.gamma.BoundDual(s.Penalty, s.Tolerance, 1, nil)
			excess := run.objective - optimum
			gap := terms.at(bound.Value)
			if gap < excess-1e-7 || gap > run.objective || !solvertest.Near(terms.objective, run.objective, 1e-12, 0) {
				t.Errorf("%d steps: gap %v (%s), objective %v is %v above the optimum", steps, gap, bound.Kind,
					run.objective, excess)
			}
			if terms.at(0) > gap || terms.at(run.last.Criterion) > gap*(1+1e-9)+1e-9 {
				t.Errorf("%d steps: gap %v is below that of a basis vector found, %v", steps, gap,
					terms.at(run.last.Criterion))
			}
			form := "penalised"
			if s.Tau > 0 {
				form = "constrained"
			}
			terms.own = 0 // which would mend it
			if terms.at(0.9*bound.Value) < excess-1e-7 {
				caught[form+" dual norm"]++
			}
			terms.inner = 0.9 * terms.inner
			if terms.at(bound.Value) < excess-1e-7 {
				caught[form+" inner product"]++
			}
		}
	})
	t.Logf("certificates made too small and seen to fail: %v", caught)
	for _, what := range []string{"penalised dual norm", "constrained dual norm"} {
		if caught[what] == 0 {
			t.Errorf("%s × 0.9 was never seen to be too small", what)
		}
	}
}

// TestGapWithRidge checks gaps with a linear term and bias against a much better solution, at points where the linear
// term is far from its optimum, and that a gap without the ridge term is seen to be too small.
func TestGapWithRidge(t *testing.T) {
	tier.NotUnderRace(t)
	p := plantedRatings(21, 500, 9, 11)
	for _, pen := range few(allPenalties) {
		for form, strength := range map[string][2]float64{"penalised": {2, 0}, "no interactions": {300, 0}, "constrained": {0,
			8}} {
			t.Run(fmt.Sprintf("%v/%s", pen, form), func(t *testing.T) {
				s := smallSettings()
				s.Penalty, s.Solver, s.Tolerance, s.MaxBasis, s.BiasRidge = pen, FISTA, 1e-7, 40, 0.01
				s.Lambda, s.Tau = strength[0], strength[1]
				best, err := Solve(t.Context(), p, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				caught := 0
				for _, steps := range []int{0, 2, 6} {
					for _, shrink := range []float64{1, 0.7, 0} {
						run := solvedTo(t, p, s, steps)
						for i := range run.linear.Theta {
							run.linear.Theta[i] *= shrink
						}
						run.evaluate()
						run.loss = linear.RowLosses(run.output.Workers, p, run.pred, run.gamma.Grad)
						run.gamma.Prepare()
						run.total()
						terms, bound := run.gapTerms(), run.gamma.BoundDual(pen, s.Tolerance, 1, nil)
						excess := run.objective - best.Objective
						if gap := terms.at(bound.Value); gap < excess {
							t.Errorf("%d steps, linear term × %g: gap %v, a better objective is %v lower", steps,
								shrink, gap, excess)
						}
						terms.ridge = linear.RidgeTerms{}
						if terms.at(bound.Value) < excess {
							caught++
						}
					}
				}
				if caught == 0 && form != "penalised" { // there the rest of the gap covers it
					t.Error("a gap without the ridge term was never seen to be too small")
				}
				if best.GapKind != Certified || best.GapEstimate > best.Gap ||
					form != "penalised" && best.GapEstimate > 1e-3*best.Objective {
					t.Errorf("%s gap %v (%s), estimate %v of objective %v", best.GapKind, best.Gap, best.GapBound,
						best.GapEstimate, best.Objective)
				}
			})
		}
	}
}

// TestGapOfScaledBasis checks that the gap is about unit vectors: a basis vector of another length is the same model.
func TestGapOfScaledBasis(t *testing.T) {
	p := plantedRatings(22, 400, 8, 9)
	for _, pen := range allPenalties {
		s := smallSettings()
		s.Penalty = pen
		run := solvedTo(t, p, s, 4)
		want := run.gapTerms()
		for row := range run.basis {
			f := 0.5 + 0.25*float64(row)
			h := append([]float64(nil), run.basis[row]...)
			for j := range h {
				h[j] *= f
			}
			run.basis[row] = h
			for i := range run.output.Phi[row] {
				run.output.Phi[row][i] *= f * f
			}
			for c := range run.m {
				run.v[row*run.m+c] /= f * f
			}
		}
		run.evaluate()
		run.loss = linear.RowLosses(run.output.Workers, p, run.pred, run.gamma.Grad)
		if got := run.gapTerms(); !solvertest.Near(got.objective, want.objective, 1e-9, 0) || !solvertest.Near(got.norm,
			want.norm, 1e-9, 0) ||
			!solvertest.Near(got.inner, want.inner, 1e-9, 0) ||
			!solvertest.Near(got.own, want.own, 1e-9, 0) {
			t.Errorf("%v: %+v, want %+v", pen, got, want)
		}
	}
}

// TestDualBounds compares the bounds by Lanczos and by eigensolvers with sign patterns enumerated on slow dense
// matrices.
func TestDualBounds(t *testing.T) {
	tier.NotUnderRace(t)
	rng := rand.New(rand.NewPCG(31, 32))
	for name, g := range map[string]*gamma.Gamma{
		"dense solver":       randomGamma(rng, Homogeneous, 300, 12, 4, 1),
		"explicit operators": randomGamma(rng, ANOVA, 4000, 10, 3, 1),
		"lanczos":            oneHotGamma(rng, 400, 100, 105, 4),
		"lanczos, m = 6":     oneHotGamma(rng, 400, 100, 105, 6),
		"one output":         oneHotGamma(rng, 400, 100, 105, 1),
	} {
		t.Run(name, func(t *testing.T) {
			d, m := g.X.NumColumns, g.Outputs
			g.Prepare()
			norms := make([]float64, m)
			for c := range m {
				norms[c] = dominantAbs(t, g, c)
			}
			for _, pen := range allPenalties {
				bound := g.BoundDual(pen, 1e-3, 5, nil)
				found := g.SelectBasis(pen, nil, gamma.FineOracle, 1).Criterion
				want, exact := pen.RowDual(norms), pen == L1 || m == 1
				if pen == L1Linf && m <= 4 {
					want, exact = slowSigns(t, g), true
				}
				if bound.Value < found*(1-1e-9) || bound.Value > 1.05*want && (exact || pen == L1L2) ||
					exact && bound.Value < want*(1-1e-9) {
					t.Errorf("%v: bound %v (%s), found %v, want %v", pen, bound.Value, bound.Kind, found, want)
				}
				if (bound.Failure > 0) != (d > gamma.MaxDenseFeatures) || bound.Tight(pen, m) != exact {
					t.Errorf("%v: bound by %s may fail with %g, tight %v", pen, bound.Kind, bound.Failure,
						bound.Tight(pen, m))
				}
				t.Logf("%v: %s %.4f of what is found", pen, bound.Kind, bound.Value/found)
			}
		})
	}
}

// TestBoundOfCloseEigenvalues: where many eigenvalues lie close to the largest, the bounds that can be tight are, by
// more Krylov vectors than 30.
func TestBoundOfCloseEigenvalues(t *testing.T) {
	g := oneHotGamma(rand.New(rand.NewPCG(33, 34)), 6000, 300, 300, 3)
	g.Prepare()
	for _, pen := range []Penalty{L1, L1Linf} {
		bound, found := g.BoundDual(pen, 1e-6, 5, nil), g.SelectBasis(pen, nil, gamma.FineOracle, 1).Criterion
		if !bound.Tight(pen, 3) || bound.Value < found || bound.Value > 1.01*found {
			t.Errorf("%v: bound %v (%s), found %v", pen, bound.Value, bound.Kind, found)
		}
		t.Logf("%v: %s %.4f of what is found", pen, bound.Kind, bound.Value/found)
	}
}

// slowSigns returns max over signs of |λ|max(Σ s_c Γ_c), the criterion of ℓ1/ℓ∞ over all unit vectors (appendix C).
func slowSigns(t testing.TB, g *gamma.Gamma) float64 {
	t.Helper()
	d, m := g.X.NumColumns, g.Outputs
	operators := make([]*mat.SymDense, m)
	for c := range m {
		operators[c] = slowGamma(g, c)
	}
	best := 0.0
	for pattern := range 1 << (m - 1) {
		sum := mat.NewSymDense(d, nil)
		for c, operator := range operators {
			var part mat.SymDense
			part.ScaleSym(1-2*float64(pattern>>c&1), operator)
			sum.AddSym(sum, &part)
		}
		var eig mat.EigenSym
		if !eig.Factorize(sum, false) {
			t.Fatal("eigensolver failed")
		}
		values := eig.Values(nil)
		best = max(best, values[d-1], -values[0])
	}
	return best
}

// TestGlobalOptimum runs Algorithm 1 to 60 basis vectors: the objective falls from step to step, never below the lower
// bound, and ends at the optimum.
func TestGlobalOptimum(t *testing.T) {
	called := eachGlobalOptimum(t, func(t *testing.T, p *Problem, s Settings, optimum, lower float64) {
		s.MaxSteps = 60
		res, err := Solve(t.Context(), p, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		last := math.Inf(1)
		for i, step := range res.Steps {
			if step.Objective < lower-1e-8 || step.Objective > last+1e-9 {
				t.Errorf("step %d: objective %v after %v, lower bound %v", i, step.Objective, last, lower)
			}
			last = step.Objective
		}
		early := res.Steps[min(len(res.Steps)-1, 3*p.X.NumColumns)].Objective/optimum - 1
		late := res.Objective/optimum - 1
		if early > 0.05 || math.Abs(late) > 1e-7 {
			t.Errorf("objective %.2g above the optimum after %d steps, %.2g after %d", early, 3*p.X.NumColumns, late,
				len(res.Steps)-1)
		}
		if bound := (gamma.DualBound{Kind: res.GapBound}); bound.Tight(s.Penalty, p.Outputs) && res.GapRelative > 0.15 {
			t.Errorf("relative gap %v (%s)", res.GapRelative, res.GapBound)
		}
		t.Logf("%v after %d steps: %.1e, then %.1e above the optimum; gap %.1e (%s), estimate %.1e", res.Status,
			len(res.Steps)-1, early, late, res.GapRelative, res.GapBound, res.GapEstimate/res.Objective)
	})
	if called < 12 {
		t.Errorf("only %d cases", called)
	}
}
