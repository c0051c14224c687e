package experiment

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
)

func TestAverageIsTheMeanOfOutputs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, kernel := range []solver.Kernel{solver.ANOVA, solver.Homogeneous, solver.ANOVA3} {
		var models []*solver.Model
		for n, k := range []int{3, 0, 2} {
			m := solver.NewModel(kernel, 7, 2, n != 2)
			m.NumBasis, m.Basis, m.Weights = k, make([]float64, 7*k), make([]float64, k*2)
			for _, part := range [][]float64{m.Basis, m.Weights, m.Linear, m.Bias} {
				for i := range part {
					part[i] = r.NormFloat64()
				}
			}
			models = append(models, m)
		}
		mean, err := averageOf(models...)
		if err != nil {
			t.Fatal(err)
		}
		index, value := []int32{0, 2, 5, 6}, []float64{0.5, -1, 2, 1}
		work := make([]float64, 2*mean.NumBasis)
		got, want, out := make([]float64, 2), make([]float64, 2), make([]float64, 2)
		mean.Predict(got, work, index, value)
		for _, m := range models {
			m.Predict(out, work, index, value)
			for c, o := range out {
				want[c] += o / 3
			}
		}
		for c := range want {
			if math.Abs(got[c]-want[c]) > 1e-13*(1+math.Abs(want[c])) {
				t.Errorf("%v: output %d of the average is %g, mean of outputs %g", kernel, c, got[c], want[c])
			}
		}
	}
}

func TestAverageRefusesShapes(t *testing.T) {
	base := solver.NewModel(solver.ANOVA, 4, 2, true)
	for _, models := range [][]*solver.Model{nil, {base, solver.NewModel(solver.Homogeneous, 4, 2, true)}, {base, solver.NewModel(solver.ANOVA, 5, 2, true)},
		{base, solver.NewModel(solver.ANOVA, 4, 1, true)}} {
		if _, err := averageOf(models...); !errors.Is(err, solver.ErrProblem) {
			t.Errorf("%d models: error %v", len(models), err)
		}
	}
}
