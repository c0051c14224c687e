package task

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/margin"
)

// calibration makes the outputs o of a model of margins the logarithms of probabilities, up to a constant: factor·o +
// shift. It is the one with the least logarithmic loss on the select rows: temperature scaling (Guo et al. 2017) and,
// for classes, a shift of each (bias-corrected temperature scaling, Alexandari et al. 2020). Without a shift the
// outputs of a hinge loss on labels that no feature decides, as ratings are, say less than the frequencies of the
// classes.
type calibration struct {
	Factor float64
	shift  []float64 // by output; nil for none
}

// Of returns the model whose outputs are those of another one, calibrated.
func (c *calibration) Of(m *solver.Model) *solver.Model {
	out := Scaled(m, c.Factor)
	for o, by := range c.shift {
		out.Bias[o] += by
	}
	return out
}

// SelectLoss is the loss on the select rows by which a refit chooses. Outputs of a loss of margins have no fixed scale:
// they are calibrated first.
func (j *Task) SelectLoss(m *solver.Model, weights []float64) float64 {
	if j.Target.Margin != "" {
		c := j.Calibrate(m)
		m = c.Of(m)
	}
	return evaluate.Loss(j.Rows.Select_, j.Target, m, weights)
}

// Calibrate fits the calibration of a model on the select rows, on the training rows if there are no such rows. Every
// class counts one row more, of which nothing is known, so that one that those rows lack stays possible. What a matrix
// of costs decides is not shifted: its outputs are of costs and not of frequencies.
func (j *Task) Calibrate(m *solver.Model) calibration {
	x, targets := j.Rows.Select_.X, j.Rows.Select_.Targets
	weights := j.ChosenBy(j.SelectCounts(), j.Rows.Select_.Events)
	if x.NumRows() == 0 {
		x, targets, weights = j.Rows.Problem.X, j.Rows.Problem.Targets, nil
	}
	n, k := x.NumRows(), m.NumOutputs
	f := &calibrationFit{
		outputs: make([]float64, n*k),
		targets: targets,
		weights: weights,
		k:       k,
		chances: make([]float64, k),
	}
	f.shifts = k > 1 && j.Target.Margin != string(margin.Structured)
	work := make([]float64, 2*m.NumBasis)
	for i := range n {
		index, value := x.Row(i)
		m.Predict(f.outputs[i*k:i*k+k], work, index, value)
	}
	return f.run()
}

// IsLess reports whether the weighted mean of a is less than that of b by more than some standard errors of the
// difference. Without rows it is not.
func IsLess(a, b, weights []float64, margin float64) bool {
	n, sum := 0.0, 0.0
	for i := range a {
		w := encode.WeightAt(weights, i)
		n += w
		sum += w * (a[i] - b[i])
	}
	mean, square := sum/n, 0.0
	for i := range a {
		w, d := encode.WeightAt(weights, i), a[i]-b[i]-mean
		square += w * w * d * d
	}
	return mean < -margin*math.Sqrt(square)/n
}

// ValidLoss returns what an offline fit chooses by: the error rate for classes, with the loss to break ties, and the
// squared error for numbers.
func (j *Task) ValidLoss() func(*solver.Model) float64 {
	weights := j.SelectWeights()
	return func(model *solver.Model) float64 {
		loss := j.SelectLoss(model, weights)
		if j.Target.IsNumeric() || math.IsNaN(loss) {
			return loss
		}
		errors := evaluate.WeightedSum{Weights: weights}
		for i, wrong := range j.Errors(model) {
			errors.Add(i, wrong)
		}
		return errors.Mean() + 1e-6*loss/(1+loss)
	}
}

// FeatureMapErrors is by how many standard errors a form wants to predict better than a plainer one, unless the
// champion has it. Chosen by hand.
const FeatureMapErrors = 1.0

// MapRidges are the ridges that a refit chooses from. With less, weights gain nothing on newer rows and grow without
// end. Chosen by hand: a factor of 5 apart.
var MapRidges = []float64{75, 15, 3, 0.6, 0.12}

// Errors returns 1 for each of the select rows that a model predicts wrongly, else 0.
func (j *Task) Errors(model *solver.Model) []float64 {
	errors := make([]float64, len(j.Rows.Select_.Events))
	j.Rows.Select_.Each(j.Target, model, func(i int, outputs, targets []float64) {
		if !j.Target.Correct(outputs, targets) {
			errors[i] = 1
		}
	})
	return errors
}

// BaselineField returns the categorical field of the item mean, or -1.
func (j *Task) BaselineField() int {
	return slices.Index(j.Schema.Categorical, j.Model.Evaluate.BaselineBy)
}

// Criteria are what models are compared by: baselines, popularity and lists.
type Criteria struct {
	Means          *fitted.BaselineMeans
	Least          float64                // what a loss counts as at least where models are compared
	MeansOfAll     *fitted.BaselineMeans  // of held-out rows, too
	PopularLearned *fitted.PopularWeights // of choices, by the training rows; nil of events with labels
	PopularAll     *fitted.PopularWeights // by all rows
	Chosen         *lists                 // what versions of choices are judged by; nil of events with labels
	Lists          *lists                 // the same while they are
	Paired         [][2]float64           // of the fold-in and of what consumers have, on the last events, oldest first
	AlarmAge       float64                // events since the last alarm of the drift detector, +Inf without one
}
