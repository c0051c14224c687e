package evaluate

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/snapshot/format"
)

// reference predicts the classes of events from the labels of those before alone: by their frequencies so far, and as
// the last of them. Models are measured against it. Its fields are part of the progressive sums of the state.
type reference struct {
	target *encode.Target
	Events int64   `json:"events"`
	Counts []int64 `json:"counts"`         // events by class; of a binary label the positive ones
	Last   []int   `json:"last,omitempty"` // classes of the last event
	now    []int
}

// Compared is what the reference makes of one event.
type Compared struct {
	// loss of the frequencies of the events before, 0 without probabilities; of numbers, which have none, the label
	Base    float64
	class   int16 // of the event; of several the first, of none 0
	Before  int16 // class of the event before
	HasLast bool  // there was one
	Last    bool  // its label is that of this event
	Known   bool  // false of numeric labels, for which nothing but base and slice is set
	Slice   Slice
	Beyond  bool // the event does not count in full
}

func NewReference(t *encode.Target) *reference {
	return &reference{target: t, Counts: make([]int64, t.Outputs())}
}

// Next compares with an event of the given targets, and then counts it.
func (r *reference) Next(targets []float64) (c Compared) {
	t := r.target
	c.Known, c.class = true, int16(Class(t, targets))
	r.now = r.now[:0]
	for k, v := range targets {
		if v > t.Threshold() {
			r.now = append(r.now, k)
		}
	}
	if HasProbabilities(t) {
		c.Base = r.loss()
	}
	if c.HasLast = r.Events > 0; c.HasLast {
		c.Last = slices.Equal(r.now, r.Last)
		if t.Task == event.Binary {
			c.Before = int16(len(r.Last))
		} else if len(r.Last) > 0 {
			c.Before = int16(r.Last[0])
		}
	}
	for _, k := range r.now {
		r.Counts[k]++
	}
	r.Events++
	r.Last = append(r.Last[:0], r.now...)
	return c
}

// loss is that of the frequencies on the event whose classes are in now. One event of no class in particular is added
// to those that came.
func (r *reference) loss() float64 {
	n, prior := float64(r.Events), r.target.ClassPrior()
	if r.target.Link == format.Softmax {
		return -math.Log((float64(r.Counts[r.now[0]]) + prior) / (n + 1))
	}
	loss, at := 0.0, 0
	for k, count := range r.Counts {
		p := (float64(count) + prior) / (n + 1)
		if at < len(r.now) && r.now[at] == k {
			at++
		} else {
			p = 1 - p
		}
		loss -= math.Log(p)
	}
	return loss
}
