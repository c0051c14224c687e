package refit

import (
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// A polynomial that was chosen is fitted again to training and validation events together, on top of the weights on a
// feature map: there the gradient of the loss by the bias of each output vanishes.
func TestWholeLearnsValid(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		m, events := cycletest.NumericModel(2, 3), cycletest.Spots(1, 3000, 2, 3, 4)
		if weighted {
			for i := range events {
				events[i].Weight = 1 + float64(i%3)
			}
		}
		m.Train.MaxBasis = 1
		train, valid := events[:2000], events[2000:]
		out, err := Fit(t.Context(), task.FitInput{Model: m, Train: train, Valid: valid, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		ch := out.Champion
		if ch.Version.Solver != "products:2+map" || ch.Version.Rows != 3000 || ch.Model.Map == nil {
			t.Fatalf("version %+v, want products and a map", ch.Version)
		}
		bias := func(events []event.Event) (gradient []float64, total float64) {
			e, _ := encode.Encode(ch.Vocabulary, ch.Target, events, nil)
			gradient = make([]float64, 3)
			e.Each(ch.Target, ch.Model, func(i int, outputs, targets []float64) {
				one := make([]float64, 3)
				ch.Target.Loss.Eval(one, outputs, targets)
				for c, g := range one {
					gradient[c] += events[i].Weight * g
				}
				total += events[i].Weight
			})
			return gradient, total
		}
		gradient, total := bias(events)
		for c, g := range gradient {
			if math.Abs(g) > 2.5e-3*total {
				t.Errorf("the gradient by the bias of output %d is %g over rows of weight %g", c, g, total)
			}
		}
	}
}
