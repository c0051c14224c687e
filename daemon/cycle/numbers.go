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
	label    *location // of a number, where there are numeric fields or it has no range; else nil
	limited  bool      // the label is one of a regression without a range
	z        []float64 // of the event taken up last, 0 where it lacks the field
	raw      []float64
	outlying []int64 // per field, then label: values beyond their reach
}

const (
	numberReach    = 6.0
	labelReach     = 10.0 // of labels: squares of errors are about them, and what lies far out may be meant
	outlierAfter   = 10   // values before any counts as an outlier
	estimateReach  = 4.0
	firstValues    = 64
	locationMemory = 20_000 // events; a scale that has changed is followed
	mostOthers     = 0.75   // of the newest values: with more outliers than that it is another scale
)

func newNumberScale(fields int, t *Target) *numberScale {
	n := &numberScale{fields: make([]location, fields), z: make([]float64, fields), raw: make([]float64, fields), outlying: make([]int64, fields+1)}
	n.limited = t.Task == event.Regression && t.Low >= t.High
	if n.limited || fields > 0 && t.IsNumeric() {
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
			n.z[f] = n.fields[f].standardise(v, numberReach)
		}
	}
}

// labels returns the range that labels are learned as, wide of all that are no outliers of those before.
func (n *numberScale) labels() (low, high float64) {
	if !n.limited || !n.label.ready() {
		return math.Inf(-1), math.Inf(1)
	}
	mean, deviation := n.label.of()
	return mean - labelReach*deviation, mean + labelReach*deviation
}

// learn adds the event that was taken up last, with its own label.
func (n *numberScale) learn(label float64) {
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
		if low, high := n.labels(); label < low || label > high {
			n.outlying[len(n.fields)]++
		}
		n.label.add(label)
	}
}

// scale puts a numeric target in units of the label, unscale an output back; both do nothing unless there is one label that is a number. An ordinal
// label has a unit, too.
func (n *numberScale) scale(target []float64, numeric bool) {
	if numeric {
		target[0] = n.label.standardise(target[0], labelReach)
	}
}

func (n *numberScale) unscale(output []float64, numeric bool) {
	if numeric {
		mean, deviation := n.label.of()
		output[0] = mean + deviation*output[0]
	}
}

// location is the running location and scale of one number. Where more than half of the first values are the same, as of a rare indicator or amount, that
// one is the location, and the scale the 84 % quantile of the distances of the latest others.
type location struct {
	first          []float64 // the first values, sorted; nil once there were firstValues
	n              float64   // values that count, at most locationMemory
	mean, variance float64
	rare           bool      // the mean is the value that more than half are
	others         []float64 // distances of the latest others, a ring of firstValues
	next           int
	share          float64 // of the others, or of outliers, fading
}

// of returns location and scale; the scale is positive.
func (l *location) of() (mean, deviation float64) {
	mean, deviation = l.mean, math.Sqrt(l.variance)
	if n := len(l.first); n > 0 {
		mean = l.first[(n-1)/2]
		low, high := l.first[(16*(n-1)+50)/100], l.first[(84*(n-1)+50)/100]
		if deviation = (high - low) / 2; deviation == 0 {
			deviation = typicalDistance(l.first, mean, 0.5)
		}
	}
	return mean, max(deviation, 1e-9*math.Abs(mean), math.SmallestNonzeroFloat64*(1<<52))
}

// ready reports whether there are enough values to tell an outlier by.
func (l *location) ready() bool {
	return l.n >= outlierAfter && !(l.rare && len(l.others) < outlierAfter)
}

// standardise returns a finite number in units, within ±reach; 0 before there are two values.
func (l *location) standardise(v, reach float64) float64 {
	if l.n < 2 {
		return 0
	}
	mean, deviation := l.of()
	return min(max((v-mean)/deviation, -reach), reach)
}

// beyond reports whether a number is an outlier, which none of the first are.
func (l *location) beyond(v float64) bool {
	if l.first != nil || !l.ready() {
		return false
	}
	mean, deviation := l.of()
	return math.Abs(v-mean) > numberReach*deviation
}

// add adds a finite number.
func (l *location) add(v float64) {
	switch {
	case l.n < firstValues:
		at, _ := slices.BinarySearch(l.first, v)
		l.first = slices.Insert(l.first, at, v)
		if l.n++; l.n == firstValues {
			l.settle()
		}
	case l.rare:
		l.addRare(v)
	default:
		mean, deviation := l.of()
		if l.count(math.Abs(v-mean) > numberReach*deviation) > mostOthers {
			l.restart(v)
			return
		}
		d := min(max(v-mean, -estimateReach*deviation), estimateReach*deviation)
		l.n = min(l.n+1, locationMemory)
		l.mean += d / l.n
		l.variance += (d*(d-d/l.n) - l.variance) / l.n
	}
}

// settle goes on from the first values.
func (l *location) settle() {
	mean, deviation := l.of()
	first := l.first
	*l = location{n: firstValues, mean: mean, variance: deviation * deviation}
	same := 0
	for _, v := range first {
		if v == mean {
			same++
		}
	}
	if l.rare = same > firstValues/2; !l.rare {
		return
	}
	l.variance = 0
	for _, v := range first {
		l.addRare(v)
	}
}

// count returns the share of the values so far that are others, fading.
func (l *location) count(other bool) float64 {
	l.share *= 1 - 1.0/firstValues
	if other {
		l.share += 1.0 / firstValues
	}
	return l.share
}

// restart takes the first values anew.
func (l *location) restart(v float64) { *l = location{n: 1, first: []float64{v}} }

// addRare adds a number to those of which more than half are the mean. Once they are not, the first values are taken anew.
func (l *location) addRare(v float64) {
	if l.count(v != l.mean) > mostOthers {
		l.restart(v)
		return
	}
	if v == l.mean {
		return
	}
	if len(l.others) < firstValues {
		l.others = append(l.others, 0)
	}
	l.others[l.next] = math.Abs(v - l.mean)
	l.next = (l.next + 1) % firstValues
	sorted := slices.Sorted(slices.Values(l.others))
	scale := sorted[84*(len(sorted)-1)/100]
	l.variance = scale * scale
}
