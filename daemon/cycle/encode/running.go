package encode

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
)

// NumberScale has the numeric fields of events, and labels that are numbers, in units of a running location and scale
// that outliers cannot move: the median and half the distance of the 16 and 84 % quantiles of the first values, later
// mean and deviation of values that count as no more than estimateReach deviations from the mean. Below about a
// twentieth of outliers their size does not matter. A value is standardised by what came before
// it, and counts as no more than NumberReach.
type NumberScale struct {
	Fields   []Location
	Label    *Location // of a number, where there are numeric fields or it has no range; else nil
	Limited  bool      // the label is one of a regression without a range
	Z        []float64 // of the event taken up last, 0 where it lacks the field
	raw      []float64
	Outlying []int64 // per field, then label: values beyond their reach
}

// What counts as an outlier while events come. All are chosen by hand.
const (
	NumberReach    = 6.0
	LabelReach     = 10.0 // of labels: squares of errors are about them, and what lies far out may be meant
	outlierAfter   = 10   // values before any counts as an outlier
	estimateReach  = 4.0
	FirstValues    = 64
	locationMemory = 20_000 // events; a scale that has changed is followed
	mostOthers     = 0.75   // of the newest values: with more outliers than that it is another scale
)

func NewNumberScale(fields int, t *Target) *NumberScale {
	n := &NumberScale{
		Fields:   make([]Location, fields),
		Z:        make([]float64, fields),
		raw:      make([]float64, fields),
		Outlying: make([]int64, fields+1),
	}
	n.Limited = t.Task == event.Regression && t.Low >= t.High
	if n.Limited || fields > 0 && t.IsNumeric() {
		n.Label = new(Location)
	}
	return n
}

// Take takes up an event.
func (n *NumberScale) Take(ev *event.Event) {
	copy(n.raw, ev.Numeric)
	for f, v := range n.raw {
		n.Z[f] = 0
		if !math.IsNaN(v) {
			n.Z[f] = n.Fields[f].Standardise(v, NumberReach)
		}
	}
}

// Labels returns the range that labels are learned as, wide of all that are no outliers of those before.
func (n *NumberScale) Labels() (low, high float64) {
	if !n.Limited || !n.Label.Ready() {
		return math.Inf(-1), math.Inf(1)
	}
	mean, deviation := n.Label.Of()
	return mean - LabelReach*deviation, mean + LabelReach*deviation
}

// Learn adds the event that was taken up last, with its own label.
func (n *NumberScale) Learn(label float64) {
	for f, v := range n.raw {
		if math.IsNaN(v) {
			continue
		}
		if n.Fields[f].beyond(v) {
			n.Outlying[f]++
		}
		n.Fields[f].Add(v)
	}
	if n.Label != nil {
		if low, high := n.Labels(); label < low || label > high {
			n.Outlying[len(n.Fields)]++
		}
		n.Label.Add(label)
	}
}

// Scale puts a numeric target in units of the label, unscale an output back; both do nothing unless there is one label
// that is a number. An ordinal label has a unit, too.
func (n *NumberScale) Scale(target []float64, numeric bool) {
	if numeric {
		target[0] = n.Label.Standardise(target[0], LabelReach)
	}
}

func (n *NumberScale) Unscale(output []float64, numeric bool) {
	if numeric {
		mean, deviation := n.Label.Of()
		output[0] = mean + deviation*output[0]
	}
}

// Location is the running location and scale of one number. Where more than half of the first values are the same, as
// of a rare indicator or amount, that one is the location, and the scale the 84 % quantile of the distances of the
// latest others.
type Location struct {
	first          []float64 // the first values, sorted; nil once there were FirstValues
	N              float64   // values that count, at most locationMemory
	mean, Variance float64
	rare           bool      // the mean is the value that more than half are
	others         []float64 // distances of the latest others, a ring of FirstValues
	next           int
	share          float64 // of the others, or of outliers, fading
}

// Of returns location and scale; the scale is positive.
func (l *Location) Of() (mean, deviation float64) {
	mean, deviation = l.mean, math.Sqrt(l.Variance)
	if n := len(l.first); n > 0 {
		mean = l.first[(n-1)/2]
		low, high := l.first[(16*(n-1)+50)/100], l.first[(84*(n-1)+50)/100]
		if deviation = (high - low) / 2; deviation == 0 {
			deviation = typicalDistance(l.first, mean, 0.5)
		}
	}
	return mean, max(deviation, 1e-9*math.Abs(mean), math.SmallestNonzeroFloat64*(1<<52))
}

// Ready reports whether there are enough values to recognise an outlier.
func (l *Location) Ready() bool {
	return l.N >= outlierAfter && !(l.rare && len(l.others) < outlierAfter)
}

// Standardise returns a finite number in units, within ±reach; 0 before there are two values.
func (l *Location) Standardise(v, reach float64) float64 {
	if l.N < 2 {
		return 0
	}
	mean, deviation := l.Of()
	return min(max((v-mean)/deviation, -reach), reach)
}

// beyond reports whether a number is an outlier, which none of the first are.
func (l *Location) beyond(v float64) bool {
	if l.first != nil || !l.Ready() {
		return false
	}
	mean, deviation := l.Of()
	return math.Abs(v-mean) > NumberReach*deviation
}

// Add adds a finite number.
func (l *Location) Add(v float64) {
	switch {
	case l.N < FirstValues:
		at, _ := slices.BinarySearch(l.first, v)
		l.first = slices.Insert(l.first, at, v)
		if l.N++; l.N == FirstValues {
			l.settle()
		}
	case l.rare:
		l.addRare(v)
	default:
		mean, deviation := l.Of()
		if l.count(math.Abs(v-mean) > NumberReach*deviation) > mostOthers {
			l.restart(v)
			return
		}
		d := min(max(v-mean, -estimateReach*deviation), estimateReach*deviation)
		l.N = min(l.N+1, locationMemory)
		l.mean += d / l.N
		l.Variance += (d*(d-d/l.N) - l.Variance) / l.N
	}
}

// settle replaces the first values by their mean and variance, which later values update.
func (l *Location) settle() {
	mean, deviation := l.Of()
	first := l.first
	*l = Location{N: FirstValues, mean: mean, Variance: deviation * deviation}
	same := 0
	for _, v := range first {
		if v == mean {
			same++
		}
	}
	if l.rare = same > FirstValues/2; !l.rare {
		return
	}
	l.Variance = 0
	for _, v := range first {
		l.addRare(v)
	}
}

// count returns the share of the values so far that are others, fading.
func (l *Location) count(other bool) float64 {
	l.share *= 1 - 1.0/FirstValues
	if other {
		l.share += 1.0 / FirstValues
	}
	return l.share
}

// restart takes the first values anew.
func (l *Location) restart(v float64) { *l = Location{N: 1, first: []float64{v}} }

// addRare adds a number to those of which more than half are the mean. Once they are not, the first values are taken
// anew.
func (l *Location) addRare(v float64) {
	if l.count(v != l.mean) > mostOthers {
		l.restart(v)
		return
	}
	if v == l.mean {
		return
	}
	if len(l.others) < FirstValues {
		l.others = append(l.others, 0)
	}
	l.others[l.next] = math.Abs(v - l.mean)
	l.next = (l.next + 1) % FirstValues
	sorted := slices.Sorted(slices.Values(l.others))
	scale := sorted[84*(len(sorted)-1)/100]
	l.Variance = scale * scale
}
