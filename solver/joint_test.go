package solver

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// TestNewtonFitsLinearTermJointly: output weights, linear term and bias together end at the optimum of all three, which
// their own methods, in turns, cannot lower; in turns these crawl.
func TestNewtonFitsLinearTermJointly(t *testing.T) {
	tier.NotUnderRace(t)
	for _, loss := range allLosses {
		for _, pen := range few(allPenalties) {
			for _, d := range []int{2, linear.JointColumns + 1} { // beyond JointColumns the bias alone
				t.Run(fmt.Sprintf("%s/%v/%d columns", loss.Name(), pen, d), func(t *testing.T) {
					const n, k, m = 600, 5, 3
					f := dependentFit(loss, pen, n, k, m)
					rng := rand.New(rand.NewPCG(41, 42))
					f.P.X = NewRows(d, n, n*2)
					for range n {
						f.P.X.Append([]int32{0, int32(1 + rng.IntN(d-1))}, []float64{rng.NormFloat64(), 1})
					}
					const ridge, biasRidge = 0.5, 1e-3
					lin := linear.NewLinearFit(f.P, ridge, biasRidge, solvertest.TestWorkers(2))
					v := make([]float64, k*m)
					objective := func() float64 {
						lin.PredictTo(f.Offset, lin.Theta)
						return slowObjective(f, v) + 0.5*ridge*floats.Dot(lin.Theta[:d*m], lin.Theta[:d*m]) +
							0.5*biasRidge*floats.Dot(lin.Theta[d*m:], lin.Theta[d*m:])
					}
					linearPart := func() {
						f.Activate(lin.Pred, v)
						lin.Target = f.Target
						lin.Minimize(1e-16, 500)
					}
					linearPart()
					joint := func() float64 {
						lin.PredictTo(f.Offset, lin.Theta)
						f.Newton(v, lin.Joint(f.Offset), accurate)
						return objective()
					}
					reached := joint()
					if d > linear.JointColumns { // the linear term was fixed
						for range 200 {
							linearPart()
							reached = joint()
						}
					}
					lin.PredictTo(f.Offset, lin.Theta)
					f.Minimize(v, accurate)
					linearPart()
					if now := objective(); now < reached*(1-1e-8) {
						t.Errorf("ends at %v, from where turns fall to %v", reached, now)
					}

					clear(v)
					clear(lin.Theta)
					for range 3 {
						linearPart()
						lin.PredictTo(f.Offset, lin.Theta)
						f.Minimize(v, accurate)
					}
					if turns := objective(); reached > turns*(1+1e-9) {
						t.Errorf("ends at %v, three turns at %v", reached, turns)
					}
				})
			}
		}
	}
}

// TestSolveMovesBiasWithWeights: classes of products, with activations that are all positive. The bias gains what it
// is good for, here 8 percent of the objective; one that was fixed while the output weights were fitted gained 2.
func TestSolveMovesBiasWithWeights(t *testing.T) {
	tier.NotUnderRace(t)
	const n, d, m = 2500, 12, 12
	rng := rand.New(rand.NewPCG(51, 52))
	p := &Problem{X: NewRows(d+1, n, n*(d+1)), Outputs: m, Loss: MultinomialLogistic{}, Targets: make([]float64, n*m)}
	for i := range n {
		index, value := make([]int32, d+1), make([]float64, d+1)
		best, at := 0.0, 0
		for j := range d {
			index[j], value[j] = int32(j), 2*rng.Float64()-1
		}
		index[d], value[d] = d, 1
		for c := range m {
			if s := value[c]*value[(c+1)%d] + 0.3*value[c]; c == 0 || s > best {
				best, at = s, c
			}
		}
		p.X.Append(index, value)
		p.Targets[i*m+at] = 1
	}
	s := DefaultSettings()
	s.Kernel, s.Penalty, s.Lambda, s.LinearRidge, s.MaxBasis, s.MaxSteps, s.Workers = Homogeneous, L1L2, 0.1, 0, 30, 30, 1
	objective := func(biasRidge float64) float64 {
		s.BiasRidge = biasRidge
		result, err := Solve(t.Context(), p, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		return result.Objective
	}
	if with, without := objective(1e-6), objective(0); with > 0.95*without {
		t.Errorf("objective %g with a bias, %g without: want 0.95 of that at most", with, without)
	}
}
