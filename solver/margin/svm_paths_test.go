package margin

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/solver"
)

// TestFlat checks rows without features, which no dual variable moves, and rows whose curvature rounding hides:
// everything stays finite.
func TestFlat(t *testing.T) {
	for _, loss := range everyLoss {
		p := &solver.Problem{
			X:       solver.NewRows(2, 6, 12),
			Outputs: 4,
			Loss:    loss,
			Targets: make([]float64, 24),
			Weights: []float64{1, 1, 0, 2, 1, 1},
		}
		for i := range 6 {
			switch i % 3 {
			case 0:
				p.X.Append(nil, nil)
			case 1:
				p.X.Append([]int32{0}, []float64{1e-9})
			default:
				p.X.Append([]int32{0, 1}, []float64{1e6, -1e6})
			}
			p.Targets[i*4+i%4] = 1
		}
		s := settings(1)
		s.BiasRidge = 0
		r := fitted(t, SVM{}, p, nil, s)
		if !r.Model.IsFinite() || !isFinite(r.Objective) || !isFinite(r.Gap) ||
			!near(r.Objective, objectiveOf(p, r.Model, 1), 1e-9, 0) {
			t.Errorf("%+v: objective %v, gap %v", loss, r.Objective, r.Gap)
		}
		clear(p.Weights)
		if r := fitted(t, SVM{}, p, nil, s); r.Objective != 0 || r.Gap != 0 || r.GapRelative != 0 ||
			r.Status != solver.Converged {
			t.Errorf("%+v, no weight: objective %v, gap %v, %v", loss, r.Objective, r.Gap, r.Status)
		}
	}
}

func TestCheck(t *testing.T) {
	good := func() (*solver.Problem, solver.Settings) {
		return planted(8, 30, 3, 3, Loss{Kind: MaxHinge}), settings(1)
	}
	for _, c := range []struct {
		word   string
		a      SVM
		change func(p *solver.Problem, s *solver.Settings)
	}{
		{"squared: use one of [max_hinge", SVM{}, func(p *solver.Problem, _ *solver.Settings) { p.Loss = solver.Squared{} }},
		{"2 rows for 3 classes", SVM{}, func(p *solver.Problem, _ *solver.Settings) {
			p.Loss = Loss{Kind: Structured, Cost: [][]float64{{0, 1}, {1, 0}}}
		}},
		{"takes Lambda, not Tau", SVM{}, func(_ *solver.Problem, s *solver.Settings) { s.Lambda, s.Tau = 0, 1 }},
		{"target of row 4 is not one class", SVM{}, func(p *solver.Problem, _ *solver.Settings) {
			copy(p.Target(4),
				[]float64{1, 1, 0})
		}},
		{"target of row 4 is not one class", SVM{}, func(p *solver.Problem, _ *solver.Settings) { clear(p.Target(4)) }},
		{"Method is method(9)", SVM{Method: 9}, func(*solver.Problem, *solver.Settings) {}},
		{"basis of 0 vectors over 7 features for a problem of 3", SVM{Basis: solver.NewModel(solver.ANOVA, 7, 3, false)},
			func(*solver.Problem, *solver.Settings) {}},
		{"no rows", SVM{}, func(p *solver.Problem, _ *solver.Settings) { p.X = solver.NewRows(3, 0, 0) }},
		{"Tolerance", SVM{}, func(_ *solver.Problem, s *solver.Settings) { s.Tolerance = 0 }},
	} {
		p, s := good()
		c.change(p, &s)
		_, err := c.a.Fit(t.Context(), p, nil, s)
		if err == nil || !strings.Contains(err.Error(), c.word) ||
			!errors.Is(err, solver.ErrProblem) && !errors.Is(err, solver.ErrSettings) {
			t.Errorf("%v, want %q", err, c.word)
		}
	}
	p, s := good()
	for _, dual := range [][]float64{make([]float64, 5), append(make([]float64, 89), math.NaN()), append(make([]float64,
		89), 1e300)} {
		if _, err := (SVM{}).Fit(t.Context(), p, &solver.Warm{Dual: dual}, s); !errors.Is(err, solver.ErrSettings) {
			t.Errorf("%d dual variables: %v", len(dual), err)
		}
	}
	lambdas, err := SVM{}.Strengths(t.Context(), p, s)
	if err != nil || len(lambdas) != len(strengths) || !(lambdas[0] > lambdas[1] && lambdas[len(lambdas)-1] > 0) {
		t.Errorf("strengths %v, %v", lambdas, err)
	}
	if name := (SVM{}).Name(); name != "frank_wolfe_svm" {
		t.Error(name)
	}
}

// TestPath runs the algorithm along λ, each fit from the dual of the one before, and hears of each once, by its final
// model.
func TestPath(t *testing.T) {
	p, s := planted(9, 300, 6, 4, Loss{Kind: MaxHinge}), settings(1)
	lambdas, err := SVM{}.Strengths(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	var heard []*solver.Model
	points, _, err := solver.Path(t.Context(), p, lambdas, s, solver.PathOptions{Algorithm: SVM{}, FinalOnly: true,
		OnStep: func(_ float64, _ solver.Step, model *solver.Model, _ float64) { heard = append(heard, model) }})
	if err != nil || len(points) != len(lambdas) || len(heard) != len(points) {
		t.Fatalf("%d points, heard of %d, %v", len(points), len(heard), err)
	}
	for i, point := range points {
		if heard[i] != point.Best || point.Best != point.Result.Model {
			t.Errorf("λ %v: heard of another model than the final one", lambdas[i])
		}
		s.Lambda = lambdas[i]
		cold := fitted(t, SVM{}, p, nil, s)
		if math.Abs(cold.Objective-point.Result.Objective) > cold.Gap+point.Result.Gap ||
			point.Result.Gap > 2e-3*cold.Objective {
			t.Errorf("λ %v: objective %v ± %v on the path, %v ± %v from a cold start", lambdas[i],
				point.Result.Objective, point.Result.Gap, cold.Objective, cold.Gap)
		}
	}
}

// TestLineSearch checks that the step of the line search raises the dual more than a little less or more of it.
func TestLineSearch(t *testing.T) {
	for _, loss := range everyLoss {
		p, s := planted(10, 200, 6, 4, loss), settings(40)
		p.Weights = make([]float64, 200)
		for i := range p.Weights {
			p.Weights[i] = 0.5 + float64(i%3)
		}
		f := newFit(t, SVM{Method: LineSearch}, p, s)
		for step := range 4 {
			f.evaluate()
			before, whole := slices.Clone(f.alpha), slices.Clone(f.move)
			f.frankWolfe(step)
			move := slices.Clone(f.alpha)
			for i := range move {
				move[i] -= before[i]
			}
			length := math.Sqrt(dot(move, move) / dot(whole, whole))
			var values [3]float64
			for k, part := range []float64{0.97, 1, 1.03} {
				for i := range move {
					f.alpha[i] = before[i] + part*move[i]
				}
				f.sum()
				f.evaluate()
				values[k] = f.value
			}
			if values[1] < values[0] || length < 0.999 && values[1] < values[2] {
				t.Errorf("%+v, step %d: dual %v at .97, 1 and 1.03 of the step", loss, step, values)
			}
			for i := range move {
				f.alpha[i] = before[i] + move[i]
			}
			f.sum()
		}
	}
}

// TestOneHot: a target is one class if one entry is 1 and all others are 0, of either sign.
func TestOneHot(t *testing.T) {
	for _, c := range []struct {
		target []float64
		want   int32
	}{{[]float64{0, 0, 1}, 2}, {[]float64{1, math.Copysign(0, -1), 0}, 0}, {[]float64{0, 0}, -1}, {[]float64{1, 1}, -1},
		{[]float64{0, 2}, -1}, {[]float64{0, -1}, -1}, {[]float64{1, 1e-300}, -1}, {[]float64{0.5, 0.5}, -1}, {[]float64{1,
			-1, 1}, -1},
		{[]float64{math.NaN(), 0}, -1}, {nil, -1}} {
		if got := oneHot(c.target); got != c.want {
			t.Errorf("%v is class %d, want %d", c.target, got, c.want)
		}
	}
}
