package choose

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/snapshot/format"
)

// FarLimits are how far beyond the range of the sample a number may count for more than the end of it. A counter, a day
// number or a price level leaves the range of every sample at once, and its relation to the label continues there. For
// other numbers, values beyond the range are outliers. The champion decides between both: events after its cut that are
// beyond its range are scored with each limit. Of the limits with which they are predicted as well, the farthest is
// used, and no farther one: outliers of a growing number count as the limit.
var FarLimits = []float64{3, 2, 1.5, 1.25} // a range that lasts as long again takes a number that grows with it to 3

const (
	// farErrors is by how many standard errors events beyond the range want to be predicted better with such a limit,
	// for a number to have one.
	farErrors = 2.0
	// leastBeyond is how many of them there are at the least.
	leastBeyond = 10
)

// Limits returns the limit of each numeric field, NumericClip or one of FarLimits. A field without events beyond its
// range keeps its last limit.
func Limits(j *task.Task, train []event.Event) []float64 {
	limits := slices.Repeat([]float64{encode.NumericClip}, len(j.Schema.Numeric))
	if j.Repeats != nil {
		copy(limits, j.Repeats.Limits)
		return limits
	}
	if j.Champion == nil || !gate.Comparable(j, j.Champion) || len(j.Champion.Vocabulary.Numeric) != len(limits) {
		return limits
	}
	recent, labels := variational.SinceChampion(j, len(train)), make([]float64, len(train))
	for i := range train {
		labels[i] = train[i].Label
	}
	most, _ := task.PlausibleOf(j.Target, labels, len(train))
	for f := range limits {
		limits[f] = limitOf(j, f, train, recent, most)
	}
	return limits
}

// limitOf returns that of one field. recent are the places of the training events since the champion's cut, and most is
// what a loss counts as at most.
func limitOf(j *task.Task, f int, train []event.Event, recent []int, most float64) float64 {
	last := j.Champion.Vocabulary.Numeric[f]
	grows := slices.Contains(FarLimits, last.Clip)
	targets := make([]float64, j.Target.Outputs())
	beyond := make([]event.Event, 0, len(recent))
	for _, i := range recent {
		if math.Abs(train[i].Numeric[f]-last.Center) > encode.NumericClip*last.Scale &&
			j.Target.Encode(targets, &train[i]) {
			beyond = append(beyond, train[i])
		}
	}
	weights := j.ChosenBy(nil, beyond)
	near := lossesLimited(j, f, encode.NumericClip, beyond, most)
	switch {
	case len(near) >= leastBeyond:
	case grows:
		return last.Clip
	default:
		return encode.NumericClip
	}
	limit, far := FarLimits[0], lossesLimited(j, f, FarLimits[0], beyond, most)
	for _, l := range FarLimits[1:] {
		if losses := lossesLimited(j, f, l, beyond, most); task.SumOf(losses, weights) < task.SumOf(far, weights) {
			limit, far = l, losses
		}
	}
	errors := farErrors
	if grows {
		errors = 0
	}
	if task.IsLess(far, near, weights, errors) {
		return limit
	}
	return encode.NumericClip
}

// lossesLimited returns the champion's losses, bounded by most, on events that have a target, with such a limit of one
// numeric field.
func lossesLimited(j *task.Task, f int, limit float64, events []event.Event, most float64) (losses []float64) {
	vocab := *j.Champion.Vocabulary
	vocab.Numeric = slices.Clone(vocab.Numeric)
	vocab.Numeric[f].Clip = limit
	s := fitted.NewScorer(j.Champion.Model, &vocab)
	targets, outputs := make([]float64, j.Target.Outputs()), make([]float64, j.Target.Outputs())
	for i := range events {
		ev := &events[i]
		j.Target.Encode(targets, ev)
		s.Outputs(outputs, ev)
		losses = append(losses, encode.BoundLoss(j.Target.Judged(ev, outputs, targets), most))
	}
	return losses
}

// LimitNumbers makes numbers of fields with one of FarLimits count as no more than the end of the range in all parts of
// a sample, as those of other fields do where they are encoded: a version is asked beyond its range, but learns nothing
// from outliers of its sample.
func LimitNumbers(fields []format.NumericField, parts ...[]event.Event) {
	for f, field := range fields {
		if field.Clip <= encode.NumericClip {
			continue
		}
		field.Clip = encode.NumericClip
		for _, events := range parts {
			for i := range events {
				events[i].Numeric[f] = encode.Within(&field, events[i].Numeric[f])
			}
		}
	}
}
