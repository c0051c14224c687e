package convex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// scaledVocabularies returns two that are the same but for the scales of their two numbers.
func scaledVocabularies(augment bool) (from, to *encode.Vocabulary) {
	scales := []format.NumericField{{Name: "a", Center: 3, Scale: 10}, {Name: "b", Center: -1, Scale: 2},
		{Name: "a", Center: 5, Scale: 14}, {Name: "b", Center: -1, Scale: 3}}
	for i, v := range []**encode.Vocabulary{&from, &to} {
		*v = &encode.Vocabulary{
			Names:   [][]string{{"u0", "u1"}, {"i0", "i1", "i2"}},
			Numeric: scales[2*i : 2*i+2],
			Augment: augment,
		}
		(*v).Number()
	}
	return from, to
}

// TestMapModelRescales: over other scales of numbers a mapped model predicts the same, wherever it has room for that.
func TestMapModelRescales(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 8))
	for _, of := range []struct {
		kernel          solver.Kernel
		linear, augment bool
	}{{solver.ANOVA, true, false}, {solver.ANOVA, true, true}, {solver.Homogeneous, true, false}, {solver.Homogeneous,
		true, true},
		{solver.Homogeneous, false, true}} {
		from, to := scaledVocabularies(of.augment)
		model := solver.NewModel(of.kernel, from.NumColumns(), 2, of.linear)
		model.NumBasis, model.Basis, model.Weights = 3, make([]float64, 3*from.NumColumns()), make([]float64, 6)
		for _, part := range [][]float64{model.Basis, model.Weights, model.Linear, model.Bias} {
			for i := range part {
				part[i] = r.NormFloat64()
			}
		}
		before, after := fitted.NewScorer(model, from), fitted.NewScorer(MapModel(model, from, to), to)
		x, y := make([]float64, 2), make([]float64, 2)
		for i := range 20 {
			ev := event.Event{
				Categorical: []string{fmt.Sprint("u", i%2), fmt.Sprint("i", i%4)},
				Numeric:     []float64{20 * r.Float64(), r.NormFloat64()},
			}
			before.Outputs(x, &ev)
			after.Outputs(y, &ev)
			for c := range x {
				if math.Abs(x[c]-y[c]) > 1e-9*(1+math.Abs(x[c])) {
					t.Errorf("%v of degree 2, linear %t, augmented %t: event %d has %.12g, had %.12g", of.kernel,
						of.linear, of.augment, i, y[c], x[c])
				}
			}
		}
	}
}
