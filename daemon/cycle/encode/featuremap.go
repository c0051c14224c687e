package encode

import (
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// MapText returns a map as train.feature_map writes it, empty without one.
func MapText(m *format.FeatureMap) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d", m.Kind, m.Count)
}

// AddMapped adds what a model's weights on the feature map contribute to its outputs, and returns the columns to be
// used again.
func (v *Vocabulary) AddMapped(dst []float64, model *solver.Model, numeric, columns []float64) []float64 {
	if model.Map == nil {
		return columns
	}
	columns = slices.Grow(columns[:0], v.Map.NumColumns())[:v.Map.NumColumns()]
	if v.Map.Columns(columns, numeric) {
		model.AddMapped(dst, columns)
	}
	return columns
}

// AddTrees adds what trees of a version contribute to the outputs of an event.
func (v *Vocabulary) AddTrees(dst []float64, ev *event.Event) {
	v.Trees.AddTo(dst, ev.Categorical, ev.Numeric)
}

// Numbers returns those of a training row, nil unless they were kept.
func (e *Encoded) Numbers(i int) []float64 {
	if e.Numeric == nil {
		return nil
	}
	p := len(e.vocab.Numeric)
	return e.Numeric[i*p : i*p+p]
}

// MapScaling returns mean and deviation of values without outliers.
func MapScaling(values []float64) format.MapScaling {
	n, mean, square := 0.0, 0.0, 0.0
	for _, v := range values { // Welford 1962
		n++
		d := v - mean
		mean += d / n
		square += d * (v - mean)
	}
	s := format.MapScaling{Center: mean, Scale: 1}
	if math.IsNaN(mean) || math.IsInf(mean, 0) { // it overflowed
		s.Center = 0
	}
	if deviation := math.Sqrt(square / max(1, n)); deviation > 0 && !math.IsInf(deviation, 0) {
		s.Scale = deviation
	}
	return s
}
