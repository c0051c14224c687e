package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// How far beyond the range of the sample a number counts for more than the end of it. A counter, a day number or a price level leaves the range of
// every sample at once, and what it says goes on as it was; what is beyond the range of other numbers are outliers. Which of both a number is says
// the champion: events after its cut that are beyond its range are scored with each limit. Of those under which they are predicted as well the farthest is
// taken, and no farther one, since outliers of a number that grows count as the limit.
var farLimits = []float64{3, 2, 1.5, 1.25} // a range that lasts as long again takes a number that grows with it to 3

const (
	// farErrors is by how many standard errors events beyond the range want to be predicted better with such a limit, for a number to have one.
	farErrors = 2.0
	// leastBeyond is how many of them there are at the least.
	leastBeyond = 10
)

// limits returns the limit of each numeric field, numericClip or one of farLimits. The last one stays where no event tells.
func (j *refitJob) limits(train []event.Event) []float64 {
	limits := slices.Repeat([]float64{numericClip}, len(j.schema.Numeric))
	if j.repeats != nil {
		copy(limits, j.repeats.Limits)
		return limits
	}
	if j.champion == nil || !j.comparable(j.champion) || len(j.champion.Vocabulary.Numeric) != len(limits) {
		return limits
	}
	recent, labels := j.sinceChampion(len(train)), make([]float64, len(train))
	for i := range train {
		labels[i] = train[i].Label
	}
	most, _ := plausibleOf(j.target, labels, len(train))
	for f := range limits {
		limits[f] = j.limitOf(f, train, recent, most)
	}
	return limits
}

// limitOf returns that of one field. recent are the places of the training events since the champion's cut, and most is
// what a loss counts as at most.
func (j *refitJob) limitOf(f int, train []event.Event, recent []int, most float64) float64 {
	last := j.champion.Vocabulary.Numeric[f]
	goesOn := slices.Contains(farLimits, last.Clip)
	targets := make([]float64, j.target.Outputs())
	beyond := make([]event.Event, 0, len(recent))
	for _, i := range recent {
		if math.Abs(train[i].Numeric[f]-last.Center) > numericClip*last.Scale && j.target.Encode(targets, &train[i]) {
			beyond = append(beyond, train[i])
		}
	}
	weights := j.chosenBy(nil, beyond)
	near := j.lossesLimited(f, numericClip, beyond, most)
	switch {
	case len(near) >= leastBeyond:
	case goesOn:
		return last.Clip
	default:
		return numericClip
	}
	limit, far := farLimits[0], j.lossesLimited(f, farLimits[0], beyond, most)
	for _, l := range farLimits[1:] {
		if losses := j.lossesLimited(f, l, beyond, most); sumOf(losses, weights) < sumOf(far, weights) {
			limit, far = l, losses
		}
	}
	errors := farErrors
	if goesOn {
		errors = 0
	}
	if isLess(far, near, weights, errors) {
		return limit
	}
	return numericClip
}

// lossesLimited returns the champion's losses, bounded by most, on events that have a target, with such a limit of one
// numeric field.
func (j *refitJob) lossesLimited(f int, limit float64, events []event.Event, most float64) (losses []float64) {
	vocab := *j.champion.Vocabulary
	vocab.Numeric = slices.Clone(vocab.Numeric)
	vocab.Numeric[f].Clip = limit
	s := newScorer(j.champion.Model, &vocab)
	targets, outputs := make([]float64, j.target.Outputs()), make([]float64, j.target.Outputs())
	for i := range events {
		ev := &events[i]
		j.target.Encode(targets, ev)
		s.outputs(outputs, ev)
		losses = append(losses, boundLoss(j.target.Judged(ev, outputs, targets), most))
	}
	return losses
}

// limitNumbers makes numbers of fields with one of farLimits count as no more than the end of the range in all parts of a sample, as those of other fields do
// where they are encoded: a version is asked beyond its range, but learns nothing from outliers of its sample.
func limitNumbers(fields []snapshot.NumericField, parts ...[]event.Event) {
	for f, field := range fields {
		if field.Clip <= numericClip {
			continue
		}
		field.Clip = numericClip
		for _, events := range parts {
			for i := range events {
				events[i].Numeric[f] = within(&field, events[i].Numeric[f])
			}
		}
	}
}
