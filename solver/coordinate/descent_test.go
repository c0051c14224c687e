package coordinate

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// TestCheck names what is wrong.
func TestCheck(t *testing.T) {
	f := form{"", solver.ANOVA, Descent{}, solver.Squared{}, 1}
	p := f.problem(1, 20, 5, 3)
	for want, change := range map[string]func(*Descent, *solver.Settings){
		"":                     func(*Descent, *solver.Settings) {},
		"no constrained form":  func(_ *Descent, s *solver.Settings) { s.Lambda, s.Tau = 0, 3 },
		"use Lifted":           func(d *Descent, s *solver.Settings) { d.Objective, s.Kernel = Direct, solver.Homogeneous },
		"use Direct":           func(d *Descent, s *solver.Settings) { d.Objective, s.Kernel = Lifted, solver.ANOVA3 },
		"no WeightsOnly":       func(_ *Descent, s *solver.Settings) { s.WeightsOnly = true },
		"Starts -1":            func(d *Descent, _ *solver.Settings) { d.Starts = -1 },
		"Variance 2":           func(d *Descent, _ *solver.Settings) { d.Variance = 2 },
		"Relaxation 2":         func(d *Descent, _ *solver.Settings) { d.Relaxation = 2 },
		"Objective 9":          func(d *Descent, _ *solver.Settings) { d.Objective = 9 },
		"Kernel is kernel(77)": func(_ *Descent, s *solver.Settings) { s.Kernel = 77 },
		"MaxIterations is 0":   func(_ *Descent, s *solver.Settings) { s.MaxIterations = 0 },
	} {
		d, s := f.d, f.settings()
		change(&d, &s)
		err := d.Check(p, s)
		if want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, solver.ErrSettings) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if _, fit := d.Fit(t.Context(), p, nil, s); fit == nil {
			t.Errorf("%s: fitted", want)
		}
	}
	if err := f.d.Check(&solver.Problem{}, f.settings()); !errors.Is(err, solver.ErrProblem) {
		t.Errorf("error %v of an empty problem", err)
	}
	other := solver.NewModel(solver.Homogeneous, 5, 1, true)
	if _, err := f.d.Fit(t.Context(), p, &solver.Warm{Model: other}, f.settings()); !errors.Is(err,
		solver.ErrSettings) {
		t.Errorf("error %v from a model of another kernel", err)
	}
}

// TestEnds checks how a fit ends: at its limit of sweeps, where it no longer falls, at its deadline and without a
// basis.
func TestEnds(t *testing.T) {
	f := form{"", solver.ANOVA, Descent{}, solver.Squared{}, 1}
	p := f.problem(2, 100, 5, 3)
	for _, c := range []struct {
		want   solver.Status
		change func(*solver.Settings)
	}{
		{solver.BasisLimit, func(s *solver.Settings) { s.MaxIterations = 3 }},
		{solver.Stalled, func(s *solver.Settings) { s.Tolerance, s.MaxIterations = 1e-3, 1000 }},
		{solver.Stalled, func(s *solver.Settings) { s.MaxBasis, s.MaxIterations = 0, 1000 }},
		{solver.BasisLimit, func(s *solver.Settings) { s.MaxBasis, s.LinearRidge, s.BiasRidge = 0, 0, 0 }},
		{solver.TimeBudget, func(s *solver.Settings) { s.Budget.Steps = func(float64) int { return 2 } }},
		{solver.Interrupted, func(s *solver.Settings) { s.OnStep = func(solver.Step, *solver.Model) bool { return true } }},
	} {
		s := f.settings()
		c.change(&s)
		res, err := f.d.Fit(t.Context(), p, nil, s)
		if err != nil || res.Status != c.want {
			t.Errorf("status %v, want %v: %v", res.Status, c.want, err)
		}
		if res.CutShort != (c.want == solver.TimeBudget) {
			t.Errorf("status %v: cut short %v", res.Status, res.CutShort)
		}
	}
	for _, d := range []Descent{{}, {Objective: Lifted}} { // without a basis: a linear model, of one output and of several
		for _, m := range []int{1, 3} {
			f := form{"", solver.Homogeneous, d, solver.Squared{}, m}
			s := f.settings()
			s.MaxBasis = 0
			res, err := f.d.Fit(t.Context(), f.problem(2, 100, 5, 3), nil, s)
			if err != nil || res.Model.NumBasis != 0 || sumSquares(res.Model.Linear) == 0 {
				t.Errorf("%+v, %d outputs: %v, model %+v", d, m, err, res)
			}
		}
	}
	s := f.settings()
	s.Budget.Deadline = time.Now().Add(-time.Hour)
	if _, err := f.d.Fit(t.Context(), p, nil, s); err == nil {
		t.Error("no error after a deadline that was over before the start")
	}
}

// TestStrengths checks that nothing but the linear term is left above the largest strength, and interactions are below
// the smallest.
func TestStrengths(t *testing.T) {
	for _, lifted := range []Objective{Direct, Lifted} {
		f := form{"", solver.ANOVA, Descent{Objective: lifted}, solver.Squared{}, 1}
		p, s := f.problem(3, 200, 6, 4), f.settings()
		lambdas, err := f.d.Strengths(t.Context(), p, s)
		if err != nil {
			t.Fatal(err)
		}
		weight := func(lambda float64) float64 {
			s.Lambda, s.MaxIterations = lambda, 200
			res, err := f.d.Fit(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			return norm(res.Model.Weights)
		}
		if above, below := weight(1.1*lambdas[0]/fractions[2][0]), weight(lambdas[len(lambdas)-1]); above > 1e-6 ||
			below < 0.1 {
			t.Errorf("weights of norm %g above λ_max and %g far below", above, below)
		}
	}
	f := form{"", solver.ANOVA3, Descent{}, solver.Squared{}, 1}
	if lambdas, err := f.d.Strengths(t.Context(), f.problem(3, 50, 5, 4), f.settings()); err != nil ||
		len(lambdas) != len(fractions[3]) {
		t.Errorf("%v: %v", lambdas, err)
	}
}

// TestPath checks that a path over λ goes through the interface.
func TestPath(t *testing.T) {
	f := form{"", solver.ANOVA, Descent{}, solver.Squared{}, 1}
	p, s := f.problem(4, 150, 6, 3), f.settings()
	points, best, err := solver.Path(t.Context(), p, []float64{3, 1, 0.3}, s, solver.PathOptions{Algorithm: f.d})
	if err != nil || len(points) != 3 || best != 2 {
		t.Fatalf("%d points, best %d: %v", len(points), best, err)
	}
	if warm := points[1].Result.Steps[0].Objective; !(warm < points[0].Result.Objective) {
		t.Errorf("objective %v at the start of the second, %v at the end of the first under a larger λ", warm,
			points[0].Result.Objective)
	}
}

// TestPlantedTriples checks that degree 3 beats degree 2 by a fifth where triples of features are planted, on rows that
// it has not seen.
func TestPlantedTriples(t *testing.T) {
	tier.NotUnderRace(t)
	f := form{"", solver.ANOVA3, Descent{}, solver.Squared{}, 1}
	p := f.problem(5, 3000, 8, 8)
	for i := range p.X.NumRows() {
		_, x := p.X.Row(i)
		p.Targets[i] = 2*x[0]*x[1]*x[2] - 1.5*x[3]*x[4]*x[5] + x[1]*x[6] + 0.5*x[7] + 0.5*p.Targets[i]/10
	}
	train, test := make([]int, 2000), make([]int, 1000)
	for i := range train {
		train[i] = i
	}
	for i := range test {
		test[i] = 2000 + i
	}
	part := &solver.Problem{X: p.X.Select(train), Targets: p.Targets[:2000], Outputs: 1, Loss: p.Loss}
	errorOf := func(kernel solver.Kernel) float64 {
		s := f.settings()
		s.Kernel, s.Lambda, s.MaxBasis, s.MaxIterations = kernel, 1, 12, 60
		res, err := f.d.Fit(t.Context(), part, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		total := 0.0
		for _, i := range test {
			off := slowPredict(res.Model, p.X, i)[0] - p.Targets[i]
			total += off * off
		}
		return total / float64(len(test))
	}
	if two, three := errorOf(solver.ANOVA), errorOf(solver.ANOVA3); !(three <= 0.8*two) {
		t.Errorf("squared error %.4f of degree 3, %.4f of degree 2", three, two)
	} else {
		t.Logf("squared error %.4f of degree 3, %.4f of degree 2", three, two)
	}
}

// TestFootprint checks that a fit takes no more memory than it says, nor far less.
func TestFootprint(t *testing.T) {
	f := form{"", solver.ANOVA, Descent{}, solver.BinaryLogistic{}, 2}
	for _, entries := range []int{2, 3, 4, 6} {
		p, s := f.problem(6, 20000, 20, entries), f.settings()
		s.MaxIterations = 1
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := f.d.Fit(t.Context(), p, nil, s); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		took, said := int64(after.TotalAlloc-before.TotalAlloc), f.d.Footprint(20000, entries, 20, s.MaxBasis, 2)
		if took > said || 5*took < said {
			t.Errorf("%d entries a row: allocated %d bytes, said to be %d", entries, took, said)
		}
	}
}
