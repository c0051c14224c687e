package gate

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/solver"
)

// Degenerate reports whether a model predicts the same for all of some training rows, although their labels and their
// features differ.
// Where features are the same, so is what any model predicts.
func Degenerate(j *task.Task, model *solver.Model) bool {
	const probe = 200 // rows that are looked at, spread evenly
	low, high := math.Inf(1), math.Inf(-1)
	labelLow, labelHigh := math.Inf(1), math.Inf(-1)
	m := j.Target.Outputs()
	outputs, work := make([]float64, m), make([]float64, 2*model.NumBasis)
	var phi []float64
	n := j.Rows.Problem.X.NumRows()
	differ := false
	for i := 0; i < n; i += max(1, n/probe) {
		index, value := j.Rows.Train.X.Row(i)
		firstIndex, firstValue := j.Rows.Train.X.Row(0)
		differ = differ || !slices.Equal(index, firstIndex) || !slices.Equal(value, firstValue) ||
			!slices.Equal(j.Rows.Train.Numbers(i), j.Rows.Train.Numbers(0))
		model.Predict(outputs, work, index, value)
		phi = j.Vocab.AddMapped(outputs, model, j.Rows.Train.Numbers(i), phi)
		low, high = min(low, outputs[0]), max(high, outputs[0])
		labelLow, labelHigh = min(labelLow, j.Rows.Train.Targets[i*m]), max(labelHigh, j.Rows.Train.Targets[i*m])
	}
	// Relative to the size of the outputs: less than rounding is no difference.
	return differ && labelLow < labelHigh && high-low <= 1e-12*(1+math.Abs(high))
}
