package solver

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/solvertest"
)

// plantedTriples returns rows of three names whose targets are a sum of products of three factors, linear effects and
// noise.
func plantedTriples(seed uint64, n, field, outputs int) *Problem {
	rng := rand.New(rand.NewPCG(seed, 13))
	const rank = 2
	factors, linear := make([]float64, 3*field*rank*outputs), make([]float64, 3*field)
	for i := range factors {
		factors[i] = rng.NormFloat64()
	}
	for i := range linear {
		linear[i] = 0.5 * rng.NormFloat64()
	}
	p := &Problem{X: threeFields(rng, field, n), Outputs: outputs, Loss: Squared{}}
	for i := range n {
		index, _ := p.X.Row(i)
		for c := range outputs {
			target := 0.3 * rng.NormFloat64()
			for r := range rank {
				product := 1.0
				for _, j := range index {
					product *= factors[(int(j)*rank+r)*outputs+c]
				}
				target += product
			}
			for _, j := range index {
				target += linear[j]
			}
			p.Targets = append(p.Targets, target)
		}
	}
	return p
}

func cubicSettings(kernel Kernel) Settings {
	s := DefaultSettings()
	s.Kernel, s.Penalty, s.Lambda, s.MaxBasis, s.Workers, s.Tolerance = kernel, L1L2, 2, 8, 1, 1e-3
	s.Now = func() time.Time { return time.Time{} }
	return s
}

// objectiveOf evaluates a model row by row.
func objectiveOf(p *Problem, model *Model, s Settings) float64 {
	out, work := make([]float64, p.Outputs), make([]float64, 2*model.NumBasis)
	value := s.Lambda*s.Penalty.Norm(model.Weights, model.NumBasis, p.Outputs) + 0.5*s.LinearRidge*square(
		model.Linear) + 0.5*s.BiasRidge*square(model.Bias)
	for i := range p.X.NumRows() {
		index, x := p.X.Row(i)
		model.Predict(out, work, index, x)
		value += p.Weight(i) * p.Loss.Eval(nil, out, p.Target(i))
	}
	return value
}

// TestSolveCubic checks solves of degree 3: objectives that never rise and are those of the model, estimated gaps,
// answers that are fixed points whatever the lengths and signs of their vectors, and the same bits for any number of
// workers.
func TestSolveCubic(t *testing.T) {
	tier.NotUnderRace(t)
	for _, kernel := range cubics {
		for _, outputs := range []int{1, 3} {
			depths := []Depth{OutputLayer, Full}
			for _, depth := range tier.Size(depths[outputs/2:outputs/2+1], depths) {
				t.Run(fmt.Sprintf("%v/%d/%v", kernel, outputs, depth), func(t *testing.T) {
					p := plantedTriples(1, 1500, 8, outputs)
					s := cubicSettings(kernel)
					s.Refit = depth
					res, err := Solve(t.Context(), p, nil, s)
					if err != nil {
						t.Fatal(err)
					}
					checkFinite(t, res)
					// A product of three names takes four cubes, more for two of them than there is room for.
					first, enough, gap := res.Steps[0].Objective, 0.6, 0.2
					if kernel == Homogeneous3 {
						enough, gap = 0.8, 1
					}
					if want := objectiveOf(p, res.Model, s); !solvertest.Near(res.Objective, want, 1e-9, 0) ||
						!(res.Objective < enough*first) {
						t.Errorf("objective %v, recomputed %v, at first %v", res.Objective, want, first)
					}
					if res.GapKind != Estimated || res.GapBound != "" || res.Status == Converged ||
						res.Gap > gap*res.Objective ||
						res.CutShort {
						t.Errorf("%v, gap %v of %v is %s (%s)", res.Status, res.Gap, res.Objective, res.GapKind,
							res.GapBound)
					}
					for i := 1; i < len(res.Steps); i++ {
						if before, after := res.Steps[i-1].Objective, res.Steps[i].Objective; after > before*(1+1e-9) {
							t.Errorf("step %d: objective rose from %v to %v", i, before, after)
						}
					}
					s.Workers = 3
					if other, err := Solve(t.Context(), p, nil, s); err != nil || !reflect.DeepEqual(other, res) {
						t.Errorf("objective %v by three workers, %v by one (%v)", other.Objective, res.Objective, err)
					}
					warm := res.Model.Clone()
					for i := range warm.Basis {
						warm.Basis[i] *= -2
					}
					for i := range warm.Weights {
						warm.Weights[i] /= -8
					}
					s.MaxSteps = 0
					again, err := Solve(t.Context(), p, warm, s)
					if err != nil {
						t.Fatal(err)
					}
					if again.Objective > res.Objective*(1+1e-9) || again.Objective < 0.98*res.Objective {
						t.Errorf("warm objective %v, was %v", again.Objective, res.Objective)
					}
				})
			}
		}
	}
}

// TestCubicMethods runs every way to refit with both forms of the penalty: the objective falls far below that of the
// linear model.
func TestCubicMethods(t *testing.T) {
	tier.NotUnderRace(t)
	p := plantedTriples(2, 900, 6, 1)
	for i, method := range []Method{Hybrid, FISTA, Stochastic, SVRG, Newton} {
		for j, ridge := range []float64{0, 1} {
			for k, tau := range []float64{0, 60} {
				if (i+j+k)%2 == 1 && !tier.Asked(tier.Long) {
					continue
				}
				s := cubicSettings(ANOVA3)
				s.Solver, s.Refit, s.BasisRidge, s.MaxBasis = method, Full, ridge, 3
				if s.Tau = tau; tau > 0 {
					s.Lambda = 0
				}
				res, err := Solve(t.Context(), p, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				checkFinite(t, res)
				if first := res.Steps[0].Objective; !(res.Objective < 0.7*first) {
					t.Errorf("%v, ridge %g, τ %g: objective %v, at first %v", method, ridge, tau, res.Objective, first)
				}
			}
		}
	}
}

// TestCubicSelections checks that choices by an eigenvector are refused, and the others enter a basis vector.
func TestCubicSelections(t *testing.T) {
	p := plantedTriples(3, 500, 6, 2)
	s := cubicSettings(ANOVA3)
	s.MaxSteps = 1
	for by := AllStarts; by <= BestData; by++ {
		s.Selection = by
		res, err := Solve(t.Context(), p, nil, s)
		if by == L1Start || by == L1Only {
			if !errors.Is(err, ErrSettings) {
				t.Errorf("%v: error %v", by, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		h, criterion, err := SelectBasis(t.Context(), p, res.Model, s)
		if err != nil || !(criterion >= 0) || math.Abs(dense.Norm2(h)-1) > 1e-12 {
			t.Errorf("%v: criterion %v, length %v (%v)", by, criterion, dense.Norm2(h), err)
		}
	}
}

// TestCubicBeatsQuadratic: on rows with planted products of three names a path of degree 3 predicts held-out rows
// better than one of degree 2 by more than the 20 percent asked for, in the squared loss, with λ chosen on rows that
// neither is judged on.
func TestCubicBeatsQuadratic(t *testing.T) {
	tier.NotUnderRace(t)
	const n, held = 2500, 800
	all := plantedTriples(5, n+2*held, 8, 1)
	part := func(lo, hi int) *Problem {
		var rows []int
		for i := lo; i < hi; i++ {
			rows = append(rows, i)
		}
		p := *all
		p.X, p.Targets = all.X.Select(rows), all.Targets[lo:hi]
		return &p
	}
	train, choose, test := part(0, n), part(n, n+held), part(n+held, n+2*held)
	loss := func(p *Problem, m *Model) float64 {
		s := Settings{Penalty: L1}
		return objectiveOf(p, m, s) / float64(p.X.NumRows())
	}
	reached := func(kernel Kernel) float64 {
		s := cubicSettings(kernel)
		lambdas, err := ConditionalGradient{}.Strengths(t.Context(), train, s)
		if err != nil {
			t.Fatal(err)
		}
		points, best, err := Path(t.Context(), train, lambdas, s,
			PathOptions{Judge: func(m *Model) float64 { return loss(choose, m) }, Patience: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v of degree %d: λ %.3g, %d basis vectors", kernel, kernel.Degree(), points[best].Lambda,
			points[best].Best.NumBasis)
		return loss(test, points[best].Best)
	}
	two, three := reached(ANOVA), reached(ANOVA3)
	t.Logf("held-out loss %.4f of degree 2, %.4f of degree 3; the noise is 0.045", two, three)
	if !(three < 0.8*two) {
		t.Errorf("held-out loss %.4f of degree 3, %.4f of degree 2", three, two)
	}
}

// TestCubicMerge checks that vectors of nearly one line become one whichever way they point, with predictions nearly as
// before and no higher objective.
func TestCubicMerge(t *testing.T) {
	p := plantedTriples(6, 1200, 6, 3)
	s := cubicSettings(ANOVA3)
	s.MaxBasis = 3
	res, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	d, k, m := p.X.NumColumns, res.Model.NumBasis, 3
	twice := NewModel(ANOVA3, d, m, true)
	copy(twice.Linear, res.Model.Linear)
	copy(twice.Bias, res.Model.Bias)
	twice.NumBasis, twice.Basis = 2*k, make([]float64, 2*k*d)
	for j := range d {
		for r := range k {
			h := res.Model.Basis[j*k+r]
			twice.Basis[j*2*k+r], twice.Basis[j*2*k+k+r] = h, -h*(1+1e-4*float64(j%3))
		}
	}
	for _, w := range res.Model.Weights {
		twice.Weights = append(twice.Weights, 0.6*w)
	}
	for _, w := range res.Model.Weights {
		twice.Weights = append(twice.Weights, -0.4*w) // the same way, as K(−h, x) = −K(h, x)
	}
	loaded := func() *solve {
		run, err := newSolve(t.Context(), p, s)
		if err == nil {
			err = run.load(twice)
		}
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	run := loaded()
	vectors, weights := run.alike(0.99)
	if len(vectors) != k {
		t.Fatalf("%d basis vectors of %d pairs", len(vectors), k)
	}
	run.begin()
	before := run.objective
	run.replace(vectors)
	copy(run.v, weights)
	if run.begin(); !solvertest.Near(run.objective, before, 1e-3, 0) ||
		!solvertest.Near(run.objective, res.Objective, 1e-2, 0) {
		t.Errorf("objective %v, before %v, of single vectors %v", run.objective, before, res.Objective)
	}
	run = loaded()
	run.score()
	if run.merge(); run.k > k || run.objective > before*(1+1e-9) {
		t.Errorf("objective %v of %d vectors, before %v of %d pairs", run.objective, run.k, before, k)
	}
}

// TestCubicBasisGap checks that the gap within the model's own vectors, whose dual norm is exact, bounds what further
// refits gain.
func TestCubicBasisGap(t *testing.T) {
	p := plantedTriples(7, 1200, 6, 1)
	s := cubicSettings(ANOVA3)
	s.MaxBasis, s.Rough, s.MaxIterations = 4, true, 3
	res, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	gap, objective, err := BasisGap(t.Context(), p, res.Model, s)
	if err != nil || !solvertest.Near(objective, objectiveOf(p, res.Model, s), 1e-9, 0) {
		t.Fatalf("objective %v, recomputed %v (%v)", objective, objectiveOf(p, res.Model, s), err)
	}
	s.WeightsOnly, s.MaxIterations, s.Tolerance = true, 1000, 1e-10
	best, err := Solve(t.Context(), p, res.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	if gained := objective - best.Objective; gained > gap*(1+1e-9) || gap > 0.05*objective {
		t.Errorf("a gap of %v, a refit gains %v of %v", gap, gained, objective)
	}
}
