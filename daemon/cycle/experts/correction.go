package experts

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
)

// Correction is a learned event whose label another one takes the place of. What it moves is proportional to the
// difference of the labels, and depends on neither the label that was there nor on what was predicted. So corrections
// of one event add up to the last of them, however many there are.
type Correction struct {
	Was, Is  *event.Event // which differ in the label
	From, To []float64    // targets
	Counts   *rows.Counted
	Since    int32   // events of all that were learned since
	Ages     []int32 // by place, events of the name that were learned since
}

// NewCorrection returns what an event that corrects another one makes learners do, without targets.
func NewCorrection(ev, corrected *event.Event, counts *rows.Counted) *Correction {
	of, was, is, learned := counts.Corrects(), *corrected, *corrected, *counts
	is.Label, is.Classes, learned.None = ev.Label, ev.Classes, false
	return &Correction{Was: &was, Is: &is, Counts: &learned, Since: of.Since, Ages: of.Ages}
}

// Encode sets the targets, and reports whether they differ.
func (c *Correction) Encode(t *encode.Target) bool {
	if c.From == nil {
		c.From, c.To = make([]float64, t.Outputs()), make([]float64, t.Outputs())
	}
	c.From, c.To = c.From[:t.Outputs()], c.To[:t.Outputs()]
	return t.Encode(c.From, c.Was) && t.Encode(c.To, c.Is) && !slices.Equal(c.From, c.To)
}

// Correct has the expert take up a correction.
func (c *Expert) Correct(of Correction) {
	if of.From, of.To = nil, nil; of.Encode(c.Target) {
		c.Learner.Correct(&of)
	}
}

// remains returns the share of a gradient step that is left after so many more of its size, of a loss with a curvature.
func remains(step, curvature float64, events int32) float64 {
	return math.Exp(-step * curvature * float64(events))
}

// fades returns the share that is left of a term after so many more.
func fades(rate float64, events int32) float64 { return math.Pow(rate, float64(events)) }

// correction stores by how much the residuals of a corrected label differ in dst, in the units of targets, and returns
// the curvature of the loss in an output, at most.
func (r *residuals) correction(dst, from, to []float64) (curvature float64) {
	if r.link == format.Identity {
		variance := r.variance()
		reach := residualReach * math.Sqrt(variance)
		dst[0] = min(max(to[0]-from[0], -reach), reach)
		return 1 / variance
	}
	for c := range dst {
		dst[c] = isOne(to[c]) - isOne(from[c])
	}
	return mostCurved
}

// mostCurved is the curvature of a logistic loss where the odds are even. Derived.
const mostCurved = 0.25

// isOne returns 1 of the target of a class that holds, else 0.
func isOne(target float64) float64 {
	if target > 0 {
		return 1
	}
	return 0
}

// Correct takes the old label out of the sums and puts the new one in, each as far as it has not faded. Sums of
// contexts that are last labels stay: which one it was is not known.
func (b *Conditional) Correct(of *Correction) {
	shared := of.Counts.IsShared()
	if shared && len(b.All) > 0 {
		left := 1.0
		if b.Field < 0 && !b.Last {
			left = fades(b.Fade, of.Since)
		}
		b.amend(b.All, left, of)
	}
	switch {
	case b.Last && b.Field < 0:
		if shared && of.Since == 0 {
			b.latest = LabelKey(b.Target, of.Is)
		}
	case b.Last && of.Is.Categorical[b.Field] != "":
		at := b.Before.Find(0, of.Is.Categorical[b.Field])
		if at >= 0 && of.Ages[b.Field] == 0 && !of.Counts.Holds(b.Field) {
			b.labels[at] = LabelKey(b.Target, of.Is)
		}
	case b.Field >= 0 && !b.Last && of.Is.Categorical[b.Field] != "" && !of.Counts.Holds(b.Field):
		if at := b.Slots.Find(0, of.Is.Categorical[b.Field]); at >= 0 {
			row := b.rows[int(at)*(b.Width+1) : int(at+1)*(b.Width+1)]
			b.amend(row, fades(b.Fade, of.Ages[b.Field]), of)
		}
	}
}

// amend adds the difference of the labels to sums.
func (b *Conditional) amend(row []float64, left float64, of *Correction) {
	if b.Target.IsNumeric() {
		row[0] += left * (of.Is.Label - of.Was.Label)
		return
	}
	for c, t := range of.To {
		row[c] += left * (isOne(t) - isOne(of.From[c]))
	}
}
