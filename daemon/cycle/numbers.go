package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
)

// numberScale has the numeric fields of events, and labels that are numbers, in units of a running location and scale that outliers cannot move: the
// median and half the distance of the 16 and 84 % quantiles of the first values, later mean and deviation of values that count as no more than
// estimateReach deviations from the mean. Below about a twentieth of outliers their size does not matter. A value is standardised by what came before
// it, and counts as no more than numberReach.
type numberScale struct {
	fields   []location
	label    *location // of a regression, else nil
	z        []float64 // of the event taken up last, 0 where it lacks the field
	raw      []float64
	outlying []int64 // per field, then label: values beyond numberReach
}

const (
	numberReach    = 6.0
	estimateReach  = 4.0
	firstValues    = 64
	locationMemory = 20_000 // events; a scale that has changed is followed
)

func newNumberScale(fields int, label bool) *numberScale {
	n := &numberScale{fields: make([]location, fields), z: make([]float64, fields), raw: make([]float64, fields), outlying: make([]int64, fields+1)}
	if label {
		n.label = new(location)
	}
	return n
}

// take takes up an event.
func (n *numberScale) take(ev *event.Event) {
	copy(n.raw, ev.Numeric)
	for f, v := range n.raw {
		n.z[f] = 0
		if !math.IsNaN(v) {
			n.z[f] = n.fields[f].standardise(v)
		}
	}
}

// learn adds the event that was taken up last.
func (n *numberScale) learn(ev *event.Event) {
	for f, v := range n.raw {
		if math.IsNaN(v) {
			continue
		}
		if n.fields[f].beyond(v) {
			n.outlying[f]++
		}
		n.fields[f].add(v)
	}
	if n.label != nil {
		if n.label.beyond(ev.Label) {
			n.outlying[len(n.fields)]++
		}
		n.label.add(ev.Label)
	}
}

// scale puts a numeric target in units of the label, unscale an output back; both do nothing unless there is one label that is a number. An ordinal
// label has a unit, too.
func (n *numberScale) scale(target []float64, numeric bool) {
	if numeric {
		target[0] = n.label.standardise(target[0])
	}
}

func (n *numberScale) unscale(output []float64, numeric bool) {
	if numeric {
		mean, deviation := n.label.of()
		output[0] = mean + deviation*output[0]
	}
}

// location is the running location and scale of one number.
type location struct {
	first          []float64 // the first values, sorted; nil once there were firstValues
	n              float64   // values that count, at most locationMemory
	mean, variance float64
}

// of returns location and scale; the scale is positive.
func (l *location) of() (mean, deviation float64) {
	mean, deviation = l.mean, math.Sqrt(l.variance)
	if n := len(l.first); n > 0 {
		mean = l.first[(n-1)/2]
		low, high := l.first[(16*(n-1)+50)/100], l.first[(84*(n-1)+50)/100]
		if deviation = (high - low) / 2; deviation == 0 {
			deviation = typicalDistance(l.first, mean)
		}
	}
	return mean, max(deviation, 1e-9*math.Abs(mean), math.SmallestNonzeroFloat64*(1<<52))
}

// standardise returns a finite number in units, within ±numberReach; 0 before there are two values.
func (l *location) standardise(v float64) float64 {
	if l.n < 2 {
		return 0
	}
	mean, deviation := l.of()
	return min(max((v-mean)/deviation, -numberReach), numberReach)
}

// beyond reports whether a number is an outlier, which none of the first are.
func (l *location) beyond(v float64) bool {
	if l.first != nil || l.n == 0 {
		return false
	}
	mean, deviation := l.of()
	return math.Abs(v-mean) > numberReach*deviation
}

// add adds a finite number.
func (l *location) add(v float64) {
	if l.n < firstValues {
		at, _ := slices.BinarySearch(l.first, v)
		l.first = slices.Insert(l.first, at, v)
		if l.n++; l.n == firstValues {
			mean, deviation := l.of()
			l.mean, l.variance, l.first = mean, deviation*deviation, nil
		}
		return
	}
	mean, deviation := l.of()
	d := min(max(v-mean, -estimateReach*deviation), estimateReach*deviation)
	l.n = min(l.n+1, locationMemory)
	l.mean += d / l.n
	l.variance += (d*(d-d/l.n) - l.variance) / l.n
}
