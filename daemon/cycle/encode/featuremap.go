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

// JoinFourier returns a map with the columns of a, then those of b, on the scaling of a; nil unless both are fourier.
// Columns have the length of one of so many. Values beyond the clip of a, and missing ones, are as a has them.
func JoinFourier(a, b *format.FeatureMap) *format.FeatureMap {
	if a.Kind != format.Fourier || b.Kind != format.Fourier {
		return nil
	}
	j, p := *a, len(a.Scaling)
	j.Count = a.Count + b.Count
	j.Frequencies, j.Phases = slices.Concat(a.Frequencies, b.Frequencies), slices.Concat(a.Phases, b.Phases)
	for i := a.Count; i < j.Count; i++ {
		phase := j.Phases[i]
		for f := range p {
			x, from, to := &j.Frequencies[i*p+f], &b.Scaling[f], &a.Scaling[f]
			phase += *x * (to.Center - from.Center) / from.Scale
			*x = float64(float32(*x * to.Scale / from.Scale)) // the same in files of F32
		}
		j.Phases[i] = float64(float32(math.Remainder(phase, 2*math.Pi)))
	}
	return &j
}
