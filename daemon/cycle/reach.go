package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// How far beyond the range of the sample a number counts for more than the end of it. A counter, a day number or a price level leaves the range of
// every sample at once, and what it says goes on as it was; what is beyond the range of other numbers are outliers. Which of both a number is says
// the champion: events after its cut that are beyond its range are scored with either limit. farClip is twice as far as a range of events that
// lasts as long again takes a number that grows with them.
const (
	farClip = 3
	// farErrors is by how many standard errors events beyond the range want to be predicted better with farClip, for a number to have it.
	farErrors = 2.0
	// leastBeyond is how many of them there are at the least.
	leastBeyond = 10
)

// limits returns the limit of each numeric field: numericClip or farClip. The last one stays where no event tells.
func (j *refitJob) limits(train []event.Event) []float64 {
	limits := slices.Repeat([]float64{numericClip}, len(j.schema.Numeric))
	if j.repeats != nil {
		copy(limits, j.repeats.Limits)
		return limits
	}
	if j.champion == nil {
		return limits
	}
	recent := j.sinceChampion(len(train))
	for f := range limits {
		limits[f] = j.limitOf(f, train, recent)
	}
	return limits
}

// limitOf returns that of one field. recent are the places of the training events since the champion's cut.
func (j *refitJob) limitOf(f int, train []event.Event, recent []int) float64 {
	vocab := j.champion.Vocabulary
	last := vocab.Numeric[f]
	if last.Clip != farClip && last.Clip != numericClip {
		return numericClip // of a build that had others
	}
	limited := func(clip float64) *scorer {
		v := *vocab
		v.Numeric = slices.Clone(v.Numeric)
		v.Numeric[f].Clip = clip
		return newScorer(j.champion.Model, &v)
	}
	near, far := limited(numericClip), limited(farClip)
	targets, outputs := make([]float64, j.target.Outputs()), make([]float64, j.target.Outputs())
	var nearLoss, farLoss []float64
	for _, i := range recent {
		ev := &train[i]
		if !(math.Abs(ev.Numeric[f]-last.Center) > numericClip*last.Scale) || !j.target.Encode(targets, ev) {
			continue
		}
		near.outputs(outputs, ev)
		nearLoss = append(nearLoss, j.target.Judged(ev, outputs, targets))
		far.outputs(outputs, ev)
		farLoss = append(farLoss, j.target.Judged(ev, outputs, targets))
	}
	if len(nearLoss) < leastBeyond {
		return last.Clip
	}
	errors := farErrors
	if last.Clip == farClip {
		errors = 0
	}
	if isLess(farLoss, nearLoss, slices.Repeat([]float64{1}, len(farLoss)), errors) {
		return farClip
	}
	return numericClip
}

// limitNumbers makes numbers of fields with farClip count as no more than the end of the range in all parts of a sample, as those of other fields do
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
