package task

import (
	"fmt"
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/solver"
)

// temperedTask returns a task that chooses by the first n rows of marginOutputs, of a task without a margin.
func temperedTask(n, k int) (*Task, *solver.Model) {
	rows, model := marginOutputs(n, k)
	rows.Events = make([]event.Event, n)
	target := &encode.Target{}
	target.Task, target.Loss = event.Multiclass, solver.MultinomialLogistic{}
	if k == 1 {
		target.Task, target.Loss = event.Binary, solver.BinaryLogistic{}
	}
	return &Task{Target: target, Rows: Rows{Select_: rows}, Choices: Choices{Unbounded: true}}, model
}

// TestInverseTemperature: the factor has the least loss under its prior, which few rows do not move far, and outputs
// without labels of one class are left alone.
func TestInverseTemperature(t *testing.T) {
	for _, k := range []int{1, 4} {
		for _, n := range []int{6, 400} {
			t.Run(fmt.Sprintf("%d outputs, %d rows", k, n), func(t *testing.T) {
				j, model := temperedTask(n, k)
				factor := j.InverseTemperature(model)
				at := func(factor float64) (sum float64) {
					j.Rows.Select_.Each(j.Target, Scaled(model, factor), func(_ int, outputs, targets []float64) {
						sum += j.Target.Loss.Eval(nil, outputs, targets)
					})
					return sum + math.Pow(math.Log(factor)/temperatureSpread, 2)/2
				}
				for _, other := range []float64{0.98, 1.02} {
					if least, loss := at(factor), at(factor*other); !(loss > least) {
						t.Errorf("factor %g has %.9g, %g has %.9g", factor, least, factor*other, loss)
					}
				}
				if few := n < 100; few && factor > 1.5 || !few && factor < 2 {
					t.Errorf("a factor of %g by %d rows", factor, n)
				}
				ch := &fitted.Fitted{Model: Scaled(model, factor), Factor: factor}
				for i, w := range Untempered(ch).Linear {
					if math.Abs(w-model.Linear[i]) > 1e-12 {
						t.Fatalf("weight %d is %g before and %g after the factor is taken off", i, model.Linear[i], w)
					}
				}
				j.Target.Task = event.Multilabel
				if got := j.InverseTemperature(model); got != 1 {
					t.Errorf("a factor of %g for several labels", got)
				}
				j.Target.Task, j.Rows.Select_ = event.Multiclass, &encode.Encoded{X: solver.NewRows(k, 0, 0)}
				if got := j.InverseTemperature(model); got != 1 {
					t.Errorf("a factor of %g without rows", got)
				}
			})
		}
	}
}

// TestTemperedMap: weights on a feature map are scaled with the others, and what has no factor is the same model.
func TestTemperedMap(t *testing.T) {
	model := solver.NewModel(solver.ANOVA, 1, 1, true)
	model.Map = []float64{3}
	if got := Scaled(model, 2).Map[0]; got != 6 || model.Map[0] != 3 {
		t.Errorf("a weight of 3 on the map is %g, the model's own %g", got, model.Map[0])
	}
	if got := Untempered(&fitted.Fitted{Model: model}); got != model {
		t.Error("a model without a factor was copied")
	}
}
