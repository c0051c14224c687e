package task

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// marginOutputs returns n rows whose features are the outputs of a model of margins of k classes, 1 for a binary label,
// and that model. Outputs are far from the logarithms of probabilities: their scale is another one, and those of the
// last class, which no row has, are as large as the others'.
func marginOutputs(n, k int) (*encode.Encoded, *solver.Model) {
	random := rand.New(rand.NewPCG(2, 1))
	e, model := &encode.Encoded{X: solver.NewRows(k, 0, 0)}, solver.NewModel(solver.ANOVA, k, k, true)
	columns := make([]int32, k)
	for c := range k {
		model.Linear[c*k+c], columns[c] = 0.1, int32(c)
	}
	for range n {
		o := make([]float64, k)
		for c := range o {
			o[c] = random.NormFloat64()
		}
		e.X.Append(columns, o)
		if k == 1 {
			e.Targets = append(e.Targets, math.Copysign(1, o[0]+random.NormFloat64()))
			continue
		}
		target := make([]float64, k)
		if c := encode.Argmax(o); random.IntN(3) == 0 {
			target[random.IntN(k-1)] = 1
		} else {
			target[min(c, k-2)] = 1
		}
		e.Targets = append(e.Targets, target...)
	}
	return e, model
}

// TestCalibration: no other factor or shift has a lower logarithmic loss, for classes and for a binary label; a class
// that no row has stays possible.
func TestCalibration(t *testing.T) {
	for _, k := range []int{1, 4} {
		rows, model := marginOutputs(400, k)
		loss := solver.Loss(solver.MultinomialLogistic{})
		if k == 1 {
			loss = solver.BinaryLogistic{}
		}
		j := &Task{
			Model:  new(config.Model),
			Target: &encode.Target{Objective: config.Objective{Margin: "max_hinge"}},
			Rows: Rows{
				Select_: rows,
			},
			Choices: Choices{
				Unbounded: true,
			},
		}
		at := func(by calibration) (sum float64) {
			calibrated, outputs := by.Of(model), make([]float64, k)
			add := func(target []float64) { sum += loss.Eval(nil, outputs, target) }
			for i := range rows.X.NumRows() {
				index, value := rows.X.Row(i)
				calibrated.Predict(outputs, nil, index, value)
				add(rows.Targets[i*k : i*k+k])
			}
			for c := range by.shift { // the row more of each class
				target := make([]float64, k)
				target[c] = 1
				copy(outputs, by.shift)
				add(target)
			}
			return sum
		}
		c := j.Calibrate(model)
		best := at(c)
		isWorse := func(what string, by calibration) {
			if loss := at(by); !(loss > best) {
				t.Errorf("%d outputs: factor %g, shift %v, loss %.9g; %.9g with another %s", k, c.Factor, c.shift, best,
					loss, what)
			}
		}
		for _, part := range []float64{0.98, 1.02} {
			isWorse("factor", calibration{c.Factor * part, c.shift})
			for o := range c.shift {
				other := calibration{c.Factor, append([]float64(nil), c.shift...)}
				other.shift[o] += part - 1
				isWorse("shift", other)
			}
		}
		if c.Factor < 2 || (c.shift != nil) != (k > 1) {
			t.Errorf("%d outputs: factor %g, shift %v", k, c.Factor, c.shift)
		}
		if last := k - 1; k > 1 && !(c.shift[last] < c.shift[0]-2 && c.shift[last] > c.shift[0]-12) {
			t.Errorf("shift %v of a class that no row has", c.shift)
		}
	}
}

// TestCalibrationSaysNoLess: outputs that say nothing are calibrated to the frequencies of the classes, those of costs
// are multiplied alone.
func TestCalibrationSaysNoLess(t *testing.T) {
	const k, n = 3, 97
	rows := &encode.Encoded{X: solver.NewRows(k, 0, 0)}
	for i := range n {
		rows.X.Append(nil, nil)
		target := make([]float64, k)
		target[[]int{0, 1, 1, 2, 1}[i%5]] = 1
		rows.Targets = append(rows.Targets, target...)
	}
	model := solver.NewModel(solver.ANOVA, k, k, true)
	model.Bias = []float64{0.3, -0.1, 0.2}
	j := &Task{
		Model:  new(config.Model),
		Target: &encode.Target{Objective: config.Objective{Margin: string(margin.MaxHinge)}},
		Rows: Rows{
			Select_: rows,
		},
		Choices: Choices{
			Unbounded: true,
		},
	}
	c := j.Calibrate(model)
	chances := make([]float64, k)
	evaluate.SoftmaxTo(chances, c.Of(model).Bias)
	for class, want := range []float64{21, 59, 20} { // with the row more of each
		if got := chances[class] * (n + k); math.Abs(got-want) > 2 {
			t.Errorf("class %d: %.2f of %d rows, want %g", class, got, n+k, want)
		}
	}
	j.Target.Margin = string(margin.Structured)
	if c := j.Calibrate(model); c.shift != nil {
		t.Errorf("shift %v of outputs of costs", c.shift)
	}
}

// TestOpenRowsCalibrate: select rows whose label is still to come count for the calibration of margins as in training.
func TestOpenRowsCalibrate(t *testing.T) {
	of := func(n int, weights []float64) float64 {
		rows, model := marginOutputs(n, 1)
		for i := 200; i < n; i++ {
			rows.Targets[i] = -1
		}
		rows.Events = make([]event.Event, n)
		j := &Task{Model: new(config.Model), Target: &encode.Target{}, Choices: Choices{Unbounded: true},
			Rows: Rows{Select_: rows, Gate: new(encode.Encoded), Sample: &encode.Sample{HeldOutWeights: weights}}}
		j.Model.Schema.LabelLater = weights != nil
		return j.Calibrate(model).Factor
	}
	weights := slices.Concat(slices.Repeat([]float64{1}, 200), slices.Repeat([]float64{1e-9}, 200))
	got, want, whole := of(400, weights), of(200, nil), of(400, nil)
	if math.Abs(got-want) > 1e-3*want || math.Abs(whole-want) < 0.1*want {
		t.Errorf("factor %g with rows that hardly count, %g without them, %g with them whole", got, want, whole)
	}
}
