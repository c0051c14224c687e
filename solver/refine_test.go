package solver

import (
	"fmt"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/solvertest"
)

// TestSeparableRows: few rows that can be fitted, and a λ near 0, end converged with a certificate, whatever loss,
// kernel and algorithm. The objective is that of the model, and two algorithms agree as their gaps say.
func TestSeparableRows(t *testing.T) {
	for _, loss := range []Loss{Squared{}, BinarySquaredHinge{}, BinaryLogistic{}} {
		for _, kernel := range []Kernel{ANOVA, Homogeneous} {
			for _, sparse := range few([]bool{kernel == ANOVA, kernel != ANOVA}) {
				for _, lambda := range tier.Size([]float64{1e-2, 1e-6}, []float64{1e-2, 1e-4, 1e-6}) {
					t.Run(fmt.Sprintf("%s/%v/%v/%g", loss.Name(), kernel, sparse, lambda), func(t *testing.T) {
						p := fewRows(17, 8, sparse)
						p.Loss = loss
						s := convexSettings(kernel, 0.5, 1e-6, 8).withPenalty(L1)
						s.Lambda, s.BiasRidge, s.MaxBasis = lambda, 1e-6, 40
						s.Tolerance, s.MaxIterations = 1e-4, 500
						res, err := Solve(t.Context(), p, nil, s)
						if err != nil {
							t.Fatal(err)
						}
						other, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
						if err != nil {
							t.Fatal(err)
						}
						for _, r := range []*Result{res, other} {
							if r.Status != Converged || r.GapKind != Certified || r.GapRelative > s.Tolerance {
								t.Errorf("%v with the %s gap %v, limited by %q", r.Status, r.GapKind, r.GapRelative, r.GapLimit)
							}
							want := modelObjective(p, r.Model, s)
							if !solvertest.Near(r.Objective, want, 1e-6, 0) {
								t.Errorf("objective %v, recomputed %v", r.Objective, want)
							}
						}
						if d := res.Objective - other.Objective; d > res.Gap || -d > other.Gap {
							t.Errorf("objectives %v and %v, gaps %v and %v", res.Objective, other.Objective, res.Gap, other.Gap)
						}
					})
				}
			}
		}
	}
}
