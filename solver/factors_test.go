package solver

import (
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/gamma"
)

// TestConvexFMNewRows: where a twentieth of the rows are others than those of the model that a fit begins from, the
// descent and the certificate of the first step are enough, without a search for vectors; the certificate holds.
func TestConvexFMNewRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(91, 92))
	const users, items, n, replaced = 40, 30, 800, 40
	left, right := gamma.RandomUnit(2*users, 1), gamma.RandomUnit(2*items, 2)
	all := &Problem{X: NewRows(users+items, n+replaced, 2*(n+replaced)), Outputs: 1, Loss: Squared{}}
	for range n + replaced {
		u, i := rng.IntN(users), rng.IntN(items)
		all.X.Append([]int32{int32(u), int32(users + i)}, []float64{1, 1})
		all.Targets = append(all.Targets, 40*left[u]*right[i]+20*left[users+u]*right[items+i]+rng.NormFloat64())
	}
	from := func(first int) *Problem {
		p := &Problem{
			X:       NewRows(users+items, n, 2*n),
			Outputs: 1,
			Loss:    Squared{},
			Targets: all.Targets[first : first+n],
		}
		for i := first; i < first+n; i++ {
			p.X.Append(all.X.Row(i))
		}
		return p
	}
	s := convexSettings(ANOVA, 0.1, 12, 20)
	s.Tolerance = 1e-2
	before, err := ConvexFM{}.Fit(t.Context(), from(0), nil, s)
	if err != nil {
		t.Fatal(err)
	}
	p := from(replaced)
	warm, err := ConvexFM{}.Fit(t.Context(), p, &Warm{Model: before.Model}, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Tolerance = 1e-9
	best, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	above := warm.Objective - best.Objective + best.Gap
	if len(before.Steps) < 2 || len(warm.Steps) != 1 || warm.Status != Converged || warm.Steps[0].Nu != 0 ||
		warm.Gap < above ||
		above < 0 {
		t.Errorf(
			"%d steps from nothing, %d from the model before, the first with ν %v; %v, gap %v, %v above the optimum",
			len(before.Steps), len(warm.Steps), warm.Steps[0].Nu, warm.Status, warm.Gap, above)
	}
}
