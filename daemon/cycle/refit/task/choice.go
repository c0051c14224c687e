package task

import (
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"gonum.org/v1/gonum/floats"
)

// A refit chooses by losses on rows that a model has not learned. No entity counts there for more than its share
// (train.cap), and no row for more than a plausible loss. The gate judges a version alike.

// ChosenBy returns the weights of rows by which a refit chooses, from others, nil for equal ones.
func (j *Task) ChosenBy(weights []float64, rows []event.Event) []float64 {
	if j.Choices.Unbounded {
		return weights
	}
	return j.CapEntities(weights, rows)
}

// SelectCounts returns what the select rows count before they fade, nil if all count alike. Where labels come later, a
// row without an outcome counts as in training: else all that is chosen would have too few outcomes.
func (j *Task) SelectCounts() []float64 {
	s := j.Rows.Sample
	if n := len(j.Rows.Select_.Events); j.Model.Schema.LabelLater && len(s.HeldOutWeights) == n+len(j.Rows.Gate.Events) {
		return s.HeldOutWeights[:n]
	}
	return nil
}

// SelectWeights returns the weights of the select rows, which fade as the training rows do and are capped by entity,
// nil if all count alike.
func (j *Task) SelectWeights() []float64 {
	return j.ChosenBy(fitted.Decayed(j.SelectCounts(), j.Rows.Sample.SelectAge, fitted.HalfLives[j.Choices.HalfLife]),
		j.Rows.Select_.Events)
}

// Bounded has the losses of a part of the sample count as at most the largest plausible one.
func (j *Task) Bounded(part *encode.Encoded) *encode.Encoded {
	if !j.Choices.Unbounded {
		part.Most, _ = j.Plausible()
	}
	return part
}

// EntitiesOf returns the entities of rows, "" where one has none, nil where entities are not bounded.
func (j *Task) EntitiesOf(rows []event.Event) []string {
	by := &j.Model.Train.Cap
	field := slices.Index(j.Schema.Categorical, by.By)
	if field < 0 || !(by.Share > 0) {
		return nil
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Categorical[field]
	}
	return names
}

// CapNames is CapEntities of rows whose entities are known.
func (j *Task) CapNames(weights []float64, names []string) []float64 {
	sums, total := make(map[string]float64), 0.0
	for i, name := range names {
		if name != "" {
			sums[name] += encode.WeightAt(weights, i)
		}
		total += encode.WeightAt(weights, i)
	}
	limit := total * admission.ShareOfEach(j.Model.Train.Cap.Share, len(sums))
	var out []float64
	for i, name := range names {
		sum := sums[name]
		if sum > limit && out == nil {
			for k := range names {
				out = append(out, encode.WeightAt(weights, k))
			}
		}
		if sum > limit {
			out[i] *= limit / sum
		}
	}
	if out == nil {
		return weights
	}
	return out
}

// SumOf returns the weighted sum of losses.
func SumOf(losses, weights []float64) float64 {
	if weights == nil {
		return floats.Sum(losses)
	}
	return floats.Dot(losses, weights)
}
