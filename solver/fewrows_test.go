package solver

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/solvertest"
)

// fewRows returns 17 rows of 8 columns with random classes, which products of the columns separate. Sparse rows have
// about a third of the columns.
func fewRows(sparse bool) *Problem {
	const n, d = 17, 8
	rng := rand.New(rand.NewPCG(d, 29))
	p := &Problem{X: NewRows(d, n, n*d), Outputs: 1, Loss: BinaryLogistic{}}
	for i := range n {
		var index []int32
		var row []float64
		for j := range d {
			if !sparse || rng.IntN(3) == 0 {
				index, row = append(index, int32(j)), append(row, rng.NormFloat64())
			}
		}
		p.X.Append(index, row)
		p.Targets = append(p.Targets, float64(1-2*(i%2)))
	}
	return p
}

// TestConvexFMFewRows: where λ alone curves the models of a whole Z, the refits of Algorithm 1 take over and reach the
// certified optimum, as Solve does. Sparse rows make Newton steps give up, dense ones the count of steps.
func TestConvexFMFewRows(t *testing.T) {
	for _, c := range []struct {
		kernel Kernel
		sparse bool
	}{{ANOVA, true}, {Homogeneous, false}} {
		t.Run(fmt.Sprintf("%v", c.kernel), func(t *testing.T) {
			p := fewRows(c.sparse)
			s := convexSettings(c.kernel, 0.5, 1e-6, 8)
			s.Lambda, s.BiasRidge, s.MaxBasis, s.Tolerance, s.MaxIterations = 1e-6, 1e-6, 40, 1e-4, 500
			best, err := Solve(t.Context(), p, nil, s.withPenalty(L1))
			if err != nil {
				t.Fatal(err)
			}
			res, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			if res.Status != Converged || best.Status != Converged || res.GapKind != Certified {
				t.Errorf("%v with the %s gap %v, Solve is %v with %v", res.Status, res.GapKind, res.GapRelative,
					best.Status, best.GapRelative)
			}
			if excess := res.Objective - best.Objective; excess > res.Gap || -excess > best.Gap {
				t.Errorf("objective %v with gap %v, Solve has %v with %v", res.Objective, res.Gap,
					best.Objective, best.Gap)
			}
			if want := modelObjective(p, res.Model, s.withPenalty(L1)); !solvertest.Near(res.Objective, want, 1e-8, 0) {
				t.Errorf("objective %v, recomputed %v", res.Objective, want)
			}
			checkOrthonormal(t, res.Model)
		})
	}
}
