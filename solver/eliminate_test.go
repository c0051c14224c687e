package solver

import (
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// TestEliminated: linear term and bias on top of given predictions are where their own method ends, with and without
// either, and where a column is empty.
func TestEliminated(t *testing.T) {
	for name, ridges := range map[string][2]float64{"both": {0.3, 0.01}, "linear": {0.3, 0}, "bias": {0, 0.01}} {
		p := interactions(3, Squared{}, 80, 5)
		p.X.NumColumns++ // which no row has
		rng := rand.New(rand.NewPCG(7, 8))
		rest := make([]float64, p.X.NumRows())
		for i := range rest {
			rest[i] = rng.NormFloat64()
		}
		slow := linear.NewLinearFit(p, ridges[0], ridges[1], solvertest.TestWorkers(1))
		copy(slow.Pred, rest)
		slow.Minimize(1e-18, 1000)
		e := linear.NewEliminated(linear.NewLinearFit(p, ridges[0], ridges[1], solvertest.TestWorkers(2)))
		if e == nil {
			t.Fatalf("%s: not eliminated", name)
		}
		got := append([]float64(nil), rest...)
		theta, gradient := make([]float64, len(slow.Theta)), make([]float64, len(rest))
		linear.RowLosses(solvertest.TestWorkers(1), p, rest, gradient)
		e.MoveTo(theta, got, gradient, make([]float64, len(rest)))
		if !floats.EqualApprox(theta, slow.Theta, 1e-6) {
			t.Errorf("%s: %v, by steps %v", name, theta, slow.Theta)
		}
		want := make([]float64, len(rest))
		slow.PredictTo(want, theta)
		floats.Add(want, rest)
		if !floats.EqualApprox(got, want, 1e-12) {
			t.Errorf("%s: predictions are not those of the linear term", name)
		}
	}
	p := interactions(3, BinaryLogistic{}, 80, 5)
	if linear.NewEliminated(linear.NewLinearFit(p, 1, 1, solvertest.TestWorkers(1))) != nil {
		t.Error("the optimum under logistic loss has no closed form")
	}
}
