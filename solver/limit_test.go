package solver

import (
	"fmt"
	"testing"
)

// TestRounding: an optimum up to rounding is not called stalled, however small the tolerance.
func TestRounding(t *testing.T) {
	for _, loss := range []Loss{Squared{}, BinaryLogistic{}} {
		for _, a := range []Algorithm{ConditionalGradient{}, ConvexFM{}, ConvexFM{Diagonal: true}} {
			p := interactions(3, loss, 200, 5)
			s := smallSettings()
			s.Penalty, s.Lambda, s.MaxBasis, s.Tolerance, s.MaxIterations = L1, 8, 40, 1e-17, 5000
			res, err := a.Fit(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			if res.Status != Converged || res.GapRelative > RoundingGap || res.GapLimit != "" {
				t.Errorf("%s of %T: %v with the gap %v, limit %q", loss.Name(), a, res.Status, res.GapRelative,
					res.GapLimit)
			}
		}
	}
}

// TestGapLimit: what keeps a gap above the tolerance is the bound of ℓ1/ℓ2 with several outputs, a vector that MaxBasis
// kept out, or weights that few iterations left off their optimum.
func TestGapLimit(t *testing.T) {
	for _, c := range []struct {
		limit  GapLimit
		change func(*Settings)
	}{
		{LimitBound, func(s *Settings) {}},
		{LimitVectors, func(s *Settings) { s.MaxBasis = 2 }},
		{LimitWeights, func(s *Settings) { s.MaxBasis, s.Solver, s.MaxIterations = 2, FISTA, 1 }},
		{"", func(s *Settings) { s.Tolerance = 0.5 }},
	} {
		t.Run(fmt.Sprintf("%q", c.limit), func(t *testing.T) {
			p := plantedRatings(1, 50, 12, 15)
			s := smallSettings()
			s.Penalty, s.MaxBasis, s.Tolerance = L1L2, 40, 1e-4
			top, err := LambdaMax(t.Context(), p, s)
			if err != nil {
				t.Fatal(err)
			}
			s.Lambda = 0.1 * top
			c.change(&s)
			res, err := Solve(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			if res.GapKind != Certified || res.GapLimit != c.limit || (res.Status == Converged) != (c.limit == "") {
				t.Errorf("%v with the %s gap %v (%s), estimate %v of %v: limit %q", res.Status, res.GapKind,
					res.GapRelative, res.GapBound, res.GapEstimate, res.ConvexObjective, res.GapLimit)
			}
		})
	}
}
