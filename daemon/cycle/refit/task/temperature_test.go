package task

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// temperedTask returns a task that chooses by n rows of as many numbers as a model has outputs, whose outputs are half
// of what the labels of k classes, 2 of one output, were drawn by.
func temperedTask(n, k int) (*Task, *solver.Model) {
	random, outputs := rand.New(rand.NewPCG(3, 1)), k
	schema := &event.Schema{Task: event.Multiclass}
	target := &encode.Target{Objective: config.Objective{Task: event.Multiclass, Loss: solver.MultinomialLogistic{},
		Link: format.Softmax}}
	if k == 2 {
		outputs, target.Objective = 1, config.Objective{Task: event.Binary, Loss: solver.BinaryLogistic{},
			Link: format.Logistic}
	}
	for c := range k {
		target.Classes = append(target.Classes, fmt.Sprint("c", c))
	}
	for c := range outputs {
		schema.Numeric = append(schema.Numeric, fmt.Sprint("x", c))
	}
	events := make([]event.Event, n)
	for i := range events {
		chances := make([]float64, k)
		for c := range outputs {
			x := random.NormFloat64()
			events[i].Numeric, chances[c] = append(events[i].Numeric, x), 2*x
		}
		evaluate.SoftmaxTo(chances, slices.Clone(chances))
		at, class := random.Float64(), 0
		for ; class < k-1 && at > chances[class]; class++ {
			at -= chances[class]
		}
		events[i].Classes, events[i].Label = target.Classes[class:class+1], float64(1-class)
	}
	vocab := encode.BuildVocabulary(schema, events, false, 100, nil, nil)
	model := solver.NewModel(solver.ANOVA, vocab.NumColumns(), outputs, true)
	for c := range outputs {
		model.Linear[(int(vocab.NumNames())+c)*outputs+c] = 2 // of half the deviation
	}
	rows, _ := encode.Encode(vocab, target, events, nil)
	chosen := Rows{Select_: rows, Sample: &encode.Sample{}}
	return &Task{Model: &config.Model{}, Target: target, Rows: chosen, Choices: Choices{Unbounded: true}}, model
}

// TestInverseTemperature: the factor has the least loss under its prior, which few rows do not move far, and outputs
// without labels of one class are left alone.
func TestInverseTemperature(t *testing.T) {
	for _, k := range []int{2, 4} {
		for _, n := range []int{6, 400} {
			t.Run(fmt.Sprintf("%d classes, %d rows", k, n), func(t *testing.T) {
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
				if few := n < 100; few && factor > 1.3 || !few && (factor < 1.4 || factor > 2.5) {
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
