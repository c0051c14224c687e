package encode

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/stat"
)

// How numeric fields are scaled: what is no outlier of the sample is in [-1, 1], and the others count as the nearest
// end, there and when scored. (With a limit of 2, three outliers among 5,000 rows moved the error of a quadratic model
// by 2 to 18 %; with 1 by 0.5 % at most.) An outlier is fenceReach times as far from the median as the spreadQuantile
// of the values on its side. Where more than that are the median itself, such as those of a rare indicator or amount,
// it is the median distance of the others. NumericClip is tuned on a quadratic model, as said. Literature: fences
// (Tukey 1977). The quantile and the reach are chosen by hand.
const (
	NumericClip    = 1
	spreadQuantile = 0.95
	fenceReach     = 4
)

// scaleOf returns the scale of a field with the given values over the sample, which it sorts. Values without an outlier
// are scaled by their range. In a model with names their mean is the center: weights of names and of a number far from
// 0 in all rows are nearly collinear, so that a fit separates them slowly.
func scaleOf(name string, values []float64, withNames bool) format.NumericField {
	f := format.NumericField{Name: name, Scale: 1, Clip: NumericClip}
	n := len(values)
	if n == 0 {
		return f
	}
	low, high := Fence(values, fenceReach, 0.5)
	from, to := sort.SearchFloat64s(values, low), upTo(values, high)
	least, most := values[from], values[to-1]
	f.Center = least/2 + most/2
	if scale := most/2 - least/2; scale > 0 {
		f.Scale = scale
		if mean := stat.Mean(values[from:to], nil); withNames &&
			!math.IsInf(mean, 0) { // it is infinite for numbers too large to add up
			f.Center, f.Scale = mean, max(most-mean, mean-least)
		}
	}
	return f
}

// Fence sorts values, at least one, and returns the ends beyond which one is an outlier. quantile is that of the
// distances of the others, used where too many values are the median.
func Fence(values []float64, reach, quantile float64) (low, high float64) {
	n := len(values)
	slices.Sort(values)
	median := values[(n-1)/2]
	from := int(math.Ceil(spreadQuantile * float64(n-1)))
	above, below := values[from]-median, median-values[n-1-from]
	if above == 0 || below == 0 {
		typical := typicalDistance(values, median, quantile)
		above, below = cmp.Or(above, typical), cmp.Or(below, typical)
	}
	return median - reach*below, median + reach*above
}

// labelFence is fenceReach of labels. Chosen by hand.
const labelFence = 8

// LimitLabels makes labels without a configured range that are outliers of the training events count as the nearest end
// of the range of the others, in all parts of a sample: one label that is a million times too large would dominate a
// squared loss.
func LimitLabels(t *Target, train []event.Event, parts ...[]event.Event) {
	if t.Task != event.Regression || t.Low < t.High || len(train) == 0 {
		return
	}
	labels := make([]float64, len(train))
	for i := range train {
		labels[i] = train[i].Label
	}
	low, high := Fence(labels, labelFence, 0.84)
	for _, events := range append(parts, train) {
		for i := range events {
			if math.Abs(events[i].Label) <= event.MaxLabel { // others are left out
				events[i].Label = min(max(events[i].Label, low), high)
			}
		}
	}
}

// typicalDistance returns a quantile of the distances of the values that are not the median, 0 without such values.
func typicalDistance(values []float64, median, quantile float64) float64 {
	var distances []float64
	for _, v := range values {
		if v != median {
			distances = append(distances, math.Abs(v-median))
		}
	}
	if len(distances) == 0 {
		return 0
	}
	slices.Sort(distances)
	return distances[int(quantile*float64(len(distances)))]
}

// upTo returns how many of some sorted values are at most limit.
func upTo(values []float64, limit float64) int {
	return sort.Search(len(values), func(i int) bool { return values[i] > limit })
}

// Within returns a number where its column is within the limit.
func Within(f *format.NumericField, v float64) float64 {
	if f.Clip > 0 {
		v = min(max(v, f.Center-f.Clip*f.Scale), f.Center+f.Clip*f.Scale)
	}
	return v
}

// Scaling standardises dense inputs by their running mean and deviation: an input is scaled by what came before it.
type Scaling struct {
	n     []float64 // per input: inputs that a refit adds start anew
	mean  []float64
	m2    []float64
	value []float64 // the last raw inputs, for learn
}

// leastVariance keeps inputs that have hardly varied yet from being blown up. Chosen by hand.
const leastVariance = 1e-4

func (s *Scaling) Reset(inputs int) {
	s.n, s.mean, s.m2, s.value = make([]float64, inputs), make([]float64, inputs), make([]float64, inputs), make(
		[]float64, inputs)
}

// Carry takes over the first inputs of another scaling.
func (s *Scaling) Carry(from *Scaling, inputs int) {
	copy(s.n[:inputs], from.n)
	copy(s.mean[:inputs], from.mean)
	copy(s.m2[:inputs], from.m2)
}

// Of returns the mean and deviation of an input. Before two values there is no deviation to speak of: 0 and 1.
func (s *Scaling) Of(i int) (mean, deviation float64) {
	if s.n[i] < 2 {
		return s.mean[i], 1
	}
	return s.mean[i], math.Sqrt(max(s.m2[i]/s.n[i], leastVariance))
}

// Before there is a champion, which says what is an outlier, a number counts for no more than outlierDeviations once
// there were outlierAfter. Chosen by hand.
const outlierDeviations = 8

// Within returns a number without what makes it an outlier among those before it.
func (s *Scaling) Within(i int, v float64) float64 {
	if s.n[i] < outlierAfter {
		return v
	}
	mean, deviation := s.Of(i)
	return min(max(v, mean-outlierDeviations*deviation), mean+outlierDeviations*deviation)
}

// Standardise scales the inputs in place and remembers them raw. One that an event lacks is NaN and has the value at
// which it adds nothing in the published model, its center, or before there is one its mean.
func (s *Scaling) Standardise(inputs []float64, fields []format.NumericField) {
	copy(s.value, inputs)
	for i := range inputs {
		mean, deviation := s.Of(i)
		if math.IsNaN(inputs[i]) {
			inputs[i] = mean
			if i < len(fields) {
				inputs[i] = fields[i].Center
			}
		}
		inputs[i] = (inputs[i] - mean) / deviation
	}
}

// Learn adds the inputs that standardise saw last (Welford 1962).
func (s *Scaling) Learn() {
	for i, v := range s.value {
		if math.IsNaN(v) {
			continue
		}
		s.n[i]++
		d := v - s.mean[i]
		s.mean[i] += d / s.n[i]
		s.m2[i] += d * (v - s.mean[i])
	}
}

// LabelScale is the running variance of a numeric label.
type LabelScale struct{ n, mean, m2 float64 }

// Learn adds a label and returns the variance so far, at least a tiny positive number.
func (l *LabelScale) Learn(v float64) float64 {
	l.n++
	d := v - l.mean
	l.mean += d / l.n
	l.m2 += d * (v - l.mean)
	return max(l.m2/l.n, 1e-12)
}
