package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/coordinate"
)

// TestProximal: the peer's objective is that of its model, never below the certified optimum of the same problem and in
// the end next to it.
func TestProximal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const users, items, beta = 40, 30, 4.0
	set := &ratingSet{x: solver.NewRows(users+items, 0, 0), users: users, items: items}
	var rows []int
	for u := range users {
		for m := range items {
			if rng.IntN(2) == 0 {
				continue
			}
			set.x.Append([]int32{int32(u), int32(users + m)}, []float64{1, 1})
			set.level = append(
				set.level,
				3+math.Sin(float64(u))*math.Cos(float64(3*m))+math.Cos(float64(2*u*m))+0.1*rng.NormFloat64(),
			)
			rows = append(rows, len(rows))
		}
	}
	p := set.problem(rows, false)
	s := convexSettings(solver.ANOVA, beta, convexRidge)
	s.MaxBasis, s.Tolerance = items, 1e-6
	best, err := solver.ConvexFM{}.Fit(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	var trace []float64
	peer := newProximal(set, rows, beta)
	model, err := peer.run(t.Context(), func(objective float64) { trace = append(trace, objective) })
	if err != nil {
		t.Fatal(err)
	}
	last := trace[len(trace)-1]
	if least := best.Objective - best.Gap; last < least*(1-1e-9) || last > best.Objective*(1+1e-3) ||
		trace[0] < 1.05*last {
		t.Errorf(
			"from %v to %v in %d steps, the optimum is between %v and %v",
			trace[0],
			last,
			len(trace)-1,
			least,
			best.Objective,
		)
	}
	sum := 0.0
	for i, x := range predictionsOf(model, p.X) {
		sum += 0.5 * (x - p.Targets[i]) * (x - p.Targets[i])
	}
	for at, x := range model.Basis {
		sum += s.Lambda * model.Weights[at%model.NumBasis] * x * x
	}
	for _, w := range model.Linear {
		sum += 0.5 * convexRidge * w * w
	}
	if math.Abs(sum-last) > 1e-9*last || model.NumBasis == 0 {
		t.Errorf("objective %v of a model of rank %d, the method says %v", sum, model.NumBasis, last)
	}
	// A factorization machine has to have its matrix positive but for the diagonal, as this one has.
	machine := coordinate.Descent{Objective: coordinate.Direct, Weights: coordinate.Ones}
	s.Tolerance = 1e-4
	other, err := machine.Fit(t.Context(), p, nil, s)
	if err != nil || other.Objective < best.Objective-best.Gap {
		t.Errorf("a factorization machine of objective %v, below %v: %v", other.Objective, best.Objective-best.Gap, err)
	}
}
