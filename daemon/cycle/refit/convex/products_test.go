package convex

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// A model of basis vectors says what the weights on standardised columns and their products say, also of columns far
// from zero, of one value, or rare, and without a linear term.
func TestPolynomialModel(t *testing.T) {
	const n, d, m = 400, 5, 3
	random := rand.New(rand.NewPCG(5, 6))
	for _, test := range []struct{ constant, linear bool }{{true, true}, {false, true}, {true, false}} {
		features := d
		if test.constant {
			features++
		}
		p := &solver.Problem{X: solver.NewRows(features, n, n*features), Outputs: m, Loss: solver.MultinomialLogistic{}}
		for i := range n {
			x := []float64{random.Float64(), 0.9 + 0.01*random.NormFloat64(), -0.5, 0, random.NormFloat64()}
			if i%100 == 7 {
				x[3] = 1
			}
			index, value := []int32{}, []float64{}
			for j, v := range x {
				if v != 0 {
					index, value = append(index, int32(j)), append(value, v)
				}
			}
			if test.constant {
				index, value = append(index, d), append(value, 1)
			}
			p.X.Append(index, value)
			target := make([]float64, m)
			switch {
			case x[0]*x[4] > 0.2:
				target[0] = 1
			case x[4]*x[4]+x[3] > 0.5:
				target[1] = 1
			default:
				target[2] = 1
			}
			p.Targets = append(p.Targets, target...)
		}
		j := &task.Task{Process: task.Process{Budget: new(task.Budget), Workers: 1},
			Vocab: &encode.Vocabulary{Numeric: make([]format.NumericField, d)}}
		q := newPolynomial(t.Context(), j, p, make([]float64, len(p.Targets)))
		if !q.fit.Fit(0.01) {
			t.Fatal("no fit")
		}
		model := q.model(features, test.linear)
		if model == nil || (model.Linear != nil) != test.linear || model.NumBasis > features*(features+1)/2 {
			t.Fatalf("model %v", model)
		}
		weights, bias := q.fit.Weights()
		got, work := make([]float64, m), make([]float64, 2*model.NumBasis)
		for i := range n {
			index, value := p.X.Row(i)
			z := make([]float64, d)
			for f := range z {
				z[f] = -q.mean[f] * q.inverse[f]
			}
			for e, f := range index {
				if f < d {
					z[f] += value[e] * q.inverse[f]
				}
			}
			columns := append([]float64{}, z...)
			for f := range z {
				for g := f; g < d; g++ {
					columns = append(columns, z[f]*z[g])
				}
			}
			model.Predict(got, work, index, value)
			for c := range got {
				want := bias[c]
				for a, x := range columns {
					want += x * weights[a*m+c]
				}
				if math.Abs(got[c]-want) > 1e-9*(1+math.Abs(want)) {
					t.Fatalf("%v, row %d: output %d is %g, the polynomial says %g", test, i, c, got[c], want)
				}
			}
		}
	}
}
