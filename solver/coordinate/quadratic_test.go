package coordinate

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver"
)

// TestQuadratic compares the quadratic functions in place of the losses with losses evaluated row by row: slopes
// along a unit's weights with differences, and curvatures with those of differences and with the bound, which is no
// less anywhere.
func TestQuadratic(t *testing.T) {
	for _, loss := range []solver.Loss{solver.MultinomialLogistic{}, solver.SmoothedHinge{}, solver.SquaredHinge{}} {
		f := form{kernel: solver.Homogeneous, d: Descent{Shared: true, Variance: 0.5}, loss: loss, outputs: 3}
		g := newTestRun(t, f, f.problem(21, 60, 5, 4), f.settings()).groups[0].group
		v := []float64{0.7, -0.4, 0.2}
		along := func(i int, by float64) float64 {
			o := slices.Clone(g.state[i*3 : i*3+3])
			for c := range o {
				o[c] += by * v[c]
			}
			return g.weightOf(i) * g.loss.Eval(nil, o, g.target[i*3:i*3+3])
		}
		g.know()
		for _, local := range g.locals() {
			g.takeAlong(v, local)
			for i := range g.n {
				const step = 1e-4
				slope := (along(i, step) - along(i, -step)) / (2 * step)
				curve := (along(i, step) - 2*along(i, 0) + along(i, -step)) / (step * step)
				if !near(g.quadratic.slope[i], slope, 1e-5, 1e-6) {
					t.Fatalf("%s, row %d: slope %g, by a difference %g", loss.Name(), i, g.quadratic.slope[i], slope)
				}
				least := leastCurve * g.block.mu * sumSquares(v) * g.weightOf(i)
				if want := max(curve, least); local && !near(g.quadratic.curve[i], want, 1e-3, 1e-5) {
					t.Fatalf("%s, row %d: curvature %g, by a difference %g", loss.Name(), i, g.quadratic.curve[i], want)
				}
				for _, by := range []float64{-3, -1, 0.5, 2} {
					bound := along(i, 0) + by*g.quadratic.slope[i] + 0.5*by*by*g.quadratic.curve[i]
					if !local && along(i, by) > bound+1e-9 {
						t.Fatalf("%s, row %d: the loss is %g and its bound %g", loss.Name(), i, along(i, by), bound)
					}
				}
			}
		}
	}
}

// TestUndone: a move that raises the objective is undone, and made again under the bound, which lowers it.
func TestUndone(t *testing.T) {
	f := form{kernel: solver.Homogeneous, d: Descent{Shared: true}, loss: solver.MultinomialLogistic{}, outputs: 3}
	g := newTestRun(t, f, f.problem(22, 60, 5, 4), f.settings()).groups[0].group
	g.score()
	before, state, x := g.objective, slices.Clone(g.state), []float64{0.5}
	passes, renewed := 0, 0
	g.moveAlong([]float64{1, -1, 0}, x, 0, func() {
		if x[0] != 0.5 {
			t.Errorf("pass %d begins at %g", passes, x[0])
		}
		x[0] = 0
		if passes++; passes == 1 {
			x[0] = 1e3
			for i := range g.quadratic.moved {
				g.quadratic.moved[i] = 1e3
			}
		}
	}, func() { renewed++ })
	if g.score(); passes != 2 || renewed != 1 || x[0] != 0 || !slices.Equal(g.state, state) ||
		math.Abs(g.objective-before) > 1e-9*before {
		t.Errorf("%d passes, %d renewals, coordinate %g, objective %g after %g", passes, renewed, x[0], g.objective,
			before)
	}
	g.b = []float64{
		50,
		0,
		0,
	} // far from the outputs: a step from there by local curvature may be long, and the objective has to fall
	g.predict()
	g.score()
	before = g.objective
	g.moveTerms(g.ridges[1], func(yield func(term) bool) { yield(term{g.b, nil, g.ones}) })
	g.score()
	fell := g.objective
	g.predict()
	if g.score(); !(fell < before) || math.Abs(g.objective-fell) > 1e-9*fell {
		t.Errorf("objective %g after %g, %g with outputs made anew", fell, before, g.objective)
	}
}

// TestMaxSweeps bounds the sweeps of a fit.
func TestMaxSweeps(t *testing.T) {
	f := form{
		kernel:  solver.ANOVA,
		d:       Descent{Shared: true, MaxSweeps: 7},
		loss:    solver.MultinomialLogistic{},
		outputs: 3,
	}
	s := f.settings()
	s.Tolerance = 1e-12
	res, err := f.d.Fit(t.Context(), f.problem(23, 60, 5, 4), nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != solver.BasisLimit || len(res.Steps) > 8 || len(res.Steps) < 6 {
		t.Errorf("%v after %d steps", res.Status, len(res.Steps))
	}
	f.d.MaxSweeps = -1
	if err := f.d.Check(f.problem(23, 60, 5, 4), s); err == nil {
		t.Error("a negative number of sweeps is taken")
	}
}
