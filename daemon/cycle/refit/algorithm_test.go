package refit_test

import (
	"math"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// overBasis makes a model a support vector machine over basis vectors.
func overBasis(m *config.Model) *config.Model {
	m.Train.Features = config.BasisFeatures
	return cycletest.By(m, config.FrankWolfeSVM, 2)
}

// others are the other algorithms, on names and numbers, one output and several.
var others = []stage{
	{
		"convex_fm",
		func() *config.Model { return cycletest.By(cycletest.RatingsModel(nil), "convex_fm", 2) },
		func(n int) []event.Event { return cycletest.Stream(5, n) },
	},
	{
		"convex_fm, numbers",
		func() *config.Model { return cycletest.By(switchModel(), "convex_fm", 2) },
		func(n int) []event.Event { return cycletest.Numbers(9, n) },
	},
	{"coordinate_descent", func() *config.Model {
		return cycletest.By(sideModel(func(m *config.Model) { m.Train.MaxBasis = 2 }), "coordinate_descent", 2)
	},
		func(n int) []event.Event { return withSides(cycletest.Stream(6, n)) }},
	{
		"coordinate_descent, numbers",
		func() *config.Model { return cycletest.By(switchModel(), "coordinate_descent", 3) },
		func(n int) []event.Event { return cycletest.Numbers(9, n) },
	},
	{"frank_wolfe_svm", func() *config.Model {
		return cycletest.By(cycletest.ClassesModel(event.Multiclass, nil), config.FrankWolfeSVM, 2)
	},
		func(n int) []event.Event { return cycletest.ClassStream(event.Multiclass, n) }},
	{
		"frank_wolfe_svm over a basis",
		func() *config.Model { return overBasis(cycletest.ClassesModel(event.Multiclass, nil)) },
		func(n int) []event.Event { return cycletest.ClassStream(event.Multiclass, n) },
	},
	{"conditional_gradient of degree 3", func() *config.Model { return cycletest.By(switchModel(), "", 3) },
		func(n int) []event.Event { return cycletest.Numbers(9, n) }},
}

// TestRefitByAnotherIsRepeated: a refit by another algorithm, cold or warm, publishes what that fitted, and is repeated
// to the same payload.
func TestRefitByAnotherIsRepeated(t *testing.T) {
	tier.NotUnderRace(t)
	for _, s := range others {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.isRepeated(t, func(ch *fitted.Fitted) {
				a, err := s.model().Algorithm()
				if err != nil {
					t.Fatal(err)
				}
				v := &ch.Version
				if !strings.HasPrefix(v.Solver, a.Name()) && a != (solver.ConditionalGradient{}) ||
					v.Form != "convex" ||
					v.Sweeps != 0 {
					t.Errorf("version by %s of form %s after %d sweeps", v.Solver, v.Form, v.Sweeps)
				}
				kind := string(solver.Certified)
				switch a.(type) {
				case coordinate.Descent:
					kind = ""
				case solver.ConditionalGradient:
					kind = string(solver.Estimated)
				}
				if (kind != "") != (v.Gap != nil) || v.GapKind != kind {
					t.Errorf("gap %v, %q", v.Gap, v.GapKind)
				}
				_, isConvex := a.(solver.ConvexFM)
				if isConvex != (v.NuclearNorm != nil) || isConvex && !(*v.NuclearNorm > 0) {
					t.Errorf("nuclear norm %v by %s", v.NuclearNorm, a.Name())
				}
			})
		})
	}
}

// TestColdMarginsTryAllStrengths: a cold refit of a support vector machine tries strengths after one that is no better
// than the one before, and certifies the best, whose solve was rough.
func TestColdMarginsTryAllStrengths(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	m := cycletest.ClassesModel(event.Multiclass, nil)
	cycletest.By(m, config.FrankWolfeSVM, 2)
	c := newCycle(t, m)
	events := cycletest.ClassStream(event.Multiclass, 600)
	observeAll(c, events)
	j := prepared(
		t,
		&task.Task{
			Process: task.Process{Budget: new(task.Budget), Workers: 1},
			Rough:   true,
			Model:   m,
			Schema:  new(m.Schema.Event()),
			Choices: task.Choices{
				Given: -1,
			},
			Rows: task.Rows{
				Sample: sampleOf(events),
			}},
	)
	j.Judge = func(*solver.Model) float64 { return math.NaN() }
	s, err := convex.Settings(j)
	if err != nil {
		t.Fatal(err)
	}
	s.Tolerance = task.StreamTolerance
	lambdas, err := convex.LambdasFor(t.Context(), j, j.Rows.Problem, s)
	if err != nil {
		t.Fatal(err)
	}
	best, calls := len(lambdas)/2, 0
	found, err := convex.FitBy(t.Context(), j, convex.FitAlgorithm(j), nil, s, func(*solver.Model) float64 {
		calls++
		switch {
		case calls == best+1:
			return 0.5
		case calls > len(lambdas):
			return float64(calls) // after the path: worse than the best
		}
		return 1 + float64(calls%3)
	})
	if err != nil {
		t.Fatal(err)
	}
	r := found.Result
	if calls != len(lambdas)+2 || found.Lambda != lambdas[best] || found.Rough || r.Status != solver.Converged ||
		r.GapRelative > task.StreamTolerance ||
		len(r.Dual) != j.Rows.Problem.X.NumRows()*j.Rows.Problem.Outputs {
		t.Errorf("%d solves, λ %g of %g, rough %t, %v with a gap of %g", calls, found.Lambda, lambdas, found.Rough,
			r.Status, r.GapRelative)
	}
}

// TestRestoreByAnotherAlgorithm: what another algorithm's refits continue from outlives a restart.
func TestRestoreByAnotherAlgorithm(t *testing.T) {
	tier.NotUnderRace(t)
	for _, s := range others {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			other := cycletest.By(s.model(), config.ConditionalGradient, 2)
			ch := restoresCheckpoint(t, s.model(), other, s.events(tier.Size(400, 1200)))
			if svm := s.model().Train.Algorithm == config.FrankWolfeSVM; svm != (ch.Dual != nil) ||
				svm && !(ch.Scale > 0) {
				t.Errorf("revived with dual variables: %t, scale %g", ch.Dual != nil, ch.Scale)
			}
		})
	}
}
