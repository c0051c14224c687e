package solver

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/solvertest"
)

// fewRows returns rows with random classes, which products of the columns separate. Sparse rows have about a third of
// the columns.
func fewRows(n, d int, sparse bool) *Problem {
	rng := rand.New(rand.NewPCG(uint64(d), 29))
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

// fewRowsSteps is more than the steps of refits of the whole Z and of the weights take once the former are given up. On
// 9 rows of 10 columns they took 829, a hundred times as long as Solve.
const fewRowsSteps = 600

// TestConvexFMFewRows: where λ alone curves the models of a whole Z, the refits of Algorithm 1 take over and reach the
// certified optimum, as Solve does. Sparse rows make Newton steps give up, dense ones the count of steps.
func TestConvexFMFewRows(t *testing.T) {
	for _, c := range []struct {
		kernel Kernel
		sparse bool
		n, d   int
		lambda float64
	}{{ANOVA, true, 17, 8, 1e-6}, {Homogeneous, false, 17, 8, 1e-6}, {ANOVA, true, 9, 10, 1e-5}} {
		t.Run(fmt.Sprintf("%v, %d rows", c.kernel, c.n), func(t *testing.T) {
			p := fewRows(c.n, c.d, c.sparse)
			s := convexSettings(c.kernel, 0.5, 1e-6, 8)
			s.Lambda, s.BiasRidge, s.MaxBasis, s.Tolerance, s.MaxIterations = c.lambda, 1e-6, 40, 1e-4, 500
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
			if res.NewtonIterations > fewRowsSteps {
				t.Errorf("%d steps, each of up to thousands on its model", res.NewtonIterations)
			}
			checkOrthonormal(t, res.Model)
		})
	}
}
