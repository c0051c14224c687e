package admission

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
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

// Remains returns the share of a gradient step that is left after so many more of its size, of a loss with a curvature.
func Remains(step, curvature float64, events int32) float64 {
	return math.Exp(-step * curvature * float64(events))
}

// Fades returns the share that is left of a term after so many more.
func Fades(rate float64, events int32) float64 { return math.Pow(rate, float64(events)) }
