package cycle

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// by makes another algorithm or degree that of a model.
func by(m *config.Model, name string, degree int) *config.Model {
	m.Choose(name, degree)
	m.Resolve()
	return m
}

// overBasis makes a model a support vector machine over basis vectors.
func overBasis(m *config.Model) *config.Model {
	m.Train.Features = config.BasisFeatures
	return by(m, config.FrankWolfeSVM, 2)
}

// others are the other algorithms, on names and numbers, one output and several.
var others = []stage{
	{"convex_fm", func() *config.Model { return by(ratingsModel(nil), "convex_fm", 2) }, func(n int) []event.Event { return stream(5, n) }},
	{"convex_fm, numbers", func() *config.Model { return by(switchModel(), "convex_fm", 2) }, func(n int) []event.Event { return numbers(9, n) }},
	{"coordinate_descent", func() *config.Model { return by(sideModel(nil), "coordinate_descent", 2) },
		func(n int) []event.Event { return withSides(stream(6, n)) }},
	{"coordinate_descent, numbers", func() *config.Model { return by(switchModel(), "coordinate_descent", 3) },
		func(n int) []event.Event { return numbers(9, n) }},
	{"frank_wolfe_svm", func() *config.Model { return by(classesModel(event.Multiclass, nil), config.FrankWolfeSVM, 2) },
		func(n int) []event.Event { return classStream(event.Multiclass, n) }},
	{"frank_wolfe_svm over a basis", func() *config.Model { return overBasis(classesModel(event.Multiclass, nil)) },
		func(n int) []event.Event { return classStream(event.Multiclass, n) }},
	{"conditional_gradient of degree 3", func() *config.Model { return by(switchModel(), "", 3) },
		func(n int) []event.Event { return numbers(9, n) }},
}

// TestRefitByAnotherIsRepeated: a refit by another algorithm, cold or warm, publishes what that fitted, and is repeated to the same payload.
func TestRefitByAnotherIsRepeated(t *testing.T) {
	tier.NotUnderRace(t)
	for _, s := range others {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.isRepeated(t, func(ch *Champion) {
				a, err := s.model().Algorithm()
				if err != nil {
					t.Fatal(err)
				}
				v := &ch.Version
				if !strings.HasPrefix(v.Solver, a.Name()) && a != (solver.ConditionalGradient{}) || v.Form != "convex" || v.Sweeps != 0 {
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

// TestColdMarginsTryAllStrengths: a cold refit of a support vector machine tries strengths after one that is no better than the one before, and certifies the
// best, whose solve was rough.
func TestColdMarginsTryAllStrengths(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	m := classesModel(event.Multiclass, nil)
	by(m, config.FrankWolfeSVM, 2)
	c := newCycle(t, m)
	events := classStream(event.Multiclass, 600)
	observeAll(c, events)
	j := prepared(t, &refitJob{given: -1, rough: true, model: m, schema: &c.schema, workers: 1, sample: sampleOf(events)})
	j.judge = func(*solver.Model) float64 { return math.NaN() }
	s, err := j.settings()
	if err != nil {
		t.Fatal(err)
	}
	s.Tolerance = streamTolerance
	lambdas, err := j.lambdasFor(t.Context(), j.problem, s)
	if err != nil {
		t.Fatal(err)
	}
	best, calls := len(lambdas)/2, 0
	found, err := j.fitBy(t.Context(), j.another(), nil, s, func(*solver.Model) float64 {
		calls++
		switch {
		case calls == best+1:
			return 0.5
		case calls > len(lambdas):
			return float64(calls) // beside the best
		}
		return 1 + float64(calls%3)
	})
	if err != nil {
		t.Fatal(err)
	}
	r := found.result
	if calls != len(lambdas)+2 || found.lambda != lambdas[best] || found.rough || r.Status != solver.Converged || r.GapRelative > streamTolerance ||
		len(r.Dual) != j.problem.X.NumRows()*j.problem.Outputs {
		t.Errorf("%d solves, λ %g of %g, rough %t, %v with a gap of %g", calls, found.lambda, lambdas, found.rough, r.Status, r.GapRelative)
	}
}

// TestReviveByAnotherGoesOn: what another algorithm's refits go on from outlives a restart.
func TestReviveByAnotherGoesOn(t *testing.T) {
	tier.NotUnderRace(t)
	for _, s := range others {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			ch := reviveGoesOn(t, s.model(), by(s.model(), config.ConditionalGradient, 2), s.events(1200))
			if svm := s.model().Train.Algorithm == config.FrankWolfeSVM; svm != (ch.dual != nil) || svm && !(ch.scale > 0) {
				t.Errorf("revived with dual variables: %t, scale %g", ch.dual != nil, ch.scale)
			}
		})
	}
}

// TestDualByRow: dual variables stay with their rows while others come and go, also where rows are equal, and new rows have none.
func TestDualByRow(t *testing.T) {
	events := classStream(event.Multiclass, 40)
	events[7] = events[3]
	m := classesModel(event.Multiclass, nil)
	target, err := NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	outputs := target.Outputs()
	dual := make([]float64, 30*outputs)
	for i := range dual {
		dual[i] = float64(i + 1)
	}
	ch := &Champion{dual: &rowDual{IDs: idsOf(events[:30]), Outputs: outputs, Values: dual}}
	order := rand.New(rand.NewPCG(1, 1)).Perm(40)
	order = slices.DeleteFunc(order, func(i int) bool { return i == 11 || i == 25 }) // which leave
	j := &refitJob{target: target}
	var now []event.Event
	for _, i := range order {
		now = append(now, events[i])
	}
	j.rowIDs = idsOf(now)
	got, entered := j.dualOf(ch)
	twins := map[float64]bool{}
	for at, i := range order {
		first := got[at*outputs]
		switch {
		case i == 3 || i == 7:
			twins[first] = true
		case i >= 30 && first != 0, i < 30 && first != float64(i*outputs+1):
			t.Errorf("row %d has %g", i, first)
		}
		if isNew := slices.Contains(entered, int32(at)); isNew != (i >= 30) {
			t.Errorf("row %d is new: %t", i, isNew)
		}
	}
	if want := map[float64]bool{float64(3*outputs + 1): true, float64(7*outputs + 1): true}; !reflect.DeepEqual(twins, want) {
		t.Errorf("equal rows have %v, want %v", twins, want)
	}
	ch.dual.Outputs++
	if dual, _ := j.dualOf(ch); dual != nil {
		t.Error("dual variables of other classes are taken up")
	}
}
