package cycle

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/refitd/refitd/consumer/event"
)

// A refit chooses by losses on rows that a model has not learned. No entity counts there for more than its share
// (train.cap), and no row for more than a plausible loss. The gate judges a version alike.

// chosenBy returns the weights of rows by which a refit chooses, from others, nil for equal ones.
func (j *refitJob) chosenBy(weights []float64, rows []event.Event) []float64 {
	if j.unbounded {
		return weights
	}
	return j.capEntities(weights, rows)
}

// selectWeights returns the weights of the select rows, which fade as the training rows do and are capped by entity,
// nil if all count alike.
func (j *refitJob) selectWeights() []float64 {
	return j.chosenBy(decayed(nil, j.sample.SelectAge, horizons[j.horizon]), j.select_.events)
}

// bounded has the losses of a part of the sample count as at most the largest plausible one.
func (j *refitJob) bounded(part *encoded) *encoded {
	if !j.unbounded {
		part.most, _ = j.plausible()
	}
	return part
}

// boundLoss returns what a loss counts as, which is at most the given one, or what it is where that is 0. A loss that
// is no number counts as the largest.
func boundLoss(loss, most float64) float64 {
	if most > 0 && !(loss <= most) {
		return most
	}
	return loss
}

// capEntities scales the weights of rows, nil for equal ones, so that no entity has more than its share of their sum.
func (j *refitJob) capEntities(weights []float64, rows []event.Event) []float64 {
	return j.capNames(weights, j.entitiesOf(rows))
}

// entitiesOf returns the entities of rows, "" where one has none, nil where entities are not bounded.
func (j *refitJob) entitiesOf(rows []event.Event) []string {
	by := &j.model.Train.Cap
	field := slices.Index(j.schema.Categorical, by.By)
	if field < 0 || !(by.Share > 0) {
		return nil
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Categorical[field]
	}
	return names
}

// capNames is capEntities of rows whose entities are known.
func (j *refitJob) capNames(weights []float64, names []string) []float64 {
	sums, total := make(map[string]float64), 0.0
	for i, name := range names {
		if name != "" {
			sums[name] += weightAt(weights, i)
		}
		total += weightAt(weights, i)
	}
	limit := total * shareOfEach(j.model.Train.Cap.Share, len(sums))
	var out []float64
	for i, name := range names {
		sum := sums[name]
		if sum > limit && out == nil {
			for k := range names {
				out = append(out, weightAt(weights, k))
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

// weightAt returns the weight of a row, nil counting each once.
func weightAt(weights []float64, i int) float64 {
	if weights == nil {
		return 1
	}
	return weights[i]
}

// sumOf returns the weighted sum of losses.
func sumOf(losses, weights []float64) float64 {
	if weights == nil {
		return floats.Sum(losses)
	}
	return floats.Dot(losses, weights)
}

// isLess reports whether the weighted mean of a is less than that of b by more than some standard errors of the
// difference. Without rows it is not.
func isLess(a, b, weights []float64, margin float64) bool {
	n, sum := 0.0, 0.0
	for i := range a {
		w := weightAt(weights, i)
		n += w
		sum += w * (a[i] - b[i])
	}
	mean, square := sum/n, 0.0
	for i := range a {
		w, d := weightAt(weights, i), a[i]-b[i]-mean
		square += w * w * d * d
	}
	return mean < -margin*math.Sqrt(square)/n
}
