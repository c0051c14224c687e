package cycle

import (
	"math"
	"sync/atomic"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/vectors"
)

// ensemble is the live model: the fold-in, the experts next to it, and the mixture of their predictions. It is guarded
// by Cycle.mu. It is one type: an event goes through all its fields, under one lock.
type ensemble struct {
	*common

	learner   experts.FoldInLearner
	experts   []*experts.Expert
	numbers   *encode.NumberScale // what labels are limited by; experts that see numbers have their copies
	weights   *encode.WeightScale // nil where events have no weights
	mixture   *mixture.Mixture    // nil if what is live is the fold-in alone
	levels    *mixture.OrdinalMixture
	stacked   *mixture.StackedUpdate // nil where versions hold no sums
	pooled    *mixture.PooledUpdate  // the same of sums of variants
	sgd       *baselines.SGDBias     // a part of the mixture; nil for classes
	linear    *experts.Expert        // the baseline of classes, which is no part; nil for numbers
	popular   *fitted.Popularity     // of choices; nil of events with labels
	cap       *admission.EntityCap
	admitted  [pipelineMost]rows.Counted // of the events of a chunk
	pool      rows.Interner              // names of relearned events
	evicted   atomic.Int64               // names that the fold-in gave up for others
	pipeline  pipeline
	predicted [][]float64 // outputs of the experts for an event
	outputs   []float64   // of the mixture
	targets   []float64
	sleep     sleepState
	value     []float64 // of a baseline
}

// noteLive writes into a champion what its version says about the live fold-in. c.mu is held.
func (e *ensemble) noteLive(ch *fitted.Fitted) {
	if low, high := e.numbers.Labels(); low <= high && e.numbers.Limited && e.numbers.Label.Ready() {
		ch.LabelRange = []float64{low, high}
	}
	if l, ok := e.learner.(*experts.FoldIn); ok {
		ch.RateLosses = l.FoldIn.RateLosses()
	}
}

// follow lets a fold-in know where rows of names with vectors begin, from the prior of the champion.
func (e *ensemble) follow(l *experts.FoldIn, ch *fitted.Fitted) {
	if old, ok := e.learner.(*experts.FoldIn); ok && old.Beginning != nil {
		e.tables.Unfollow(old.Waiting)
	}
	if ch == nil || len(ch.Vectors) == 0 {
		return
	}
	l.Beginning = &experts.Beginning{Waiting: e.tables.Follow(), Room: e.config.Train.FoldIn.MaxRows / 4,
		Row: func(field int, name string) []float64 {
			return vectors.Begins(ch.Vectors, e.tables, field, name, ch.Posterior.RowSize())
		}}
	e.tables.Differing(l.Waiting, nil) // all: also what came while the refit ran
}

// begin gives names that tables know, and neither events nor the champion, rows in the fold-in: updates and deltas have
// them before their first event. They take at most a quarter of its rows. c.mu is held.
func (e *ensemble) begin() {
	l, ok := e.learner.(*experts.FoldIn)
	if !ok || l.Beginning == nil {
		return
	}
	for _, name := range e.tables.Take(l.Waiting, math.MaxInt) {
		if l.Room > 0 && l.Know(e.tables.Field(name.Table), name.Name) {
			l.Room--
		}
	}
}

// admit decides what of an observation is learned. An event that does not have the fields of the schema is not counted:
// what it makes observe do is reported there. c.mu is held, and it is called in the order of the events.
func (c *Cycle) admit(o *Observation, to *rows.Counted) {
	o.counts = nil
	if !o.Learn || len(o.Event.Categorical) != len(c.ensemble.cap.Own) || c.knows(o.Position) {
		return
	}
	position := o.Position
	if o.Stage != Whole { // several events may be learned at one, none of which is a negative
		position = rows.Position{}
	}
	c.ensemble.cap.EndReplay()
	c.ensemble.cap.Take(to, o.Event, position)
	o.counts = to
}

// Held returns how many events were not learned in full since the start, for a reason.
func (e *ensemble) Held(why admission.Held) int64 { return e.cap.Held[why].Load() }

// weigh has events count with their limited weights until restore is called.
func (e *ensemble) weigh(events []Observation) (restore func()) {
	if e.weights == nil {
		return func() {}
	}
	type weighed struct {
		ev     *event.Event
		weight float64
	}
	var heavy []weighed
	for i := range events {
		ev := events[i].Event
		if w := e.weights.Take(ev.Weight); w != ev.Weight {
			heavy = append(heavy, weighed{ev, ev.Weight})
			ev.Weight = w
		}
	}
	return func() {
		for _, h := range heavy {
			h.ev.Weight = h.weight
		}
	}
}

// KeepCopies returns what RestoreCopies takes up after a restart, before what it learns again: which events came, and
// of which copies were left out. It is nil where there is nothing to keep.
func (e *ensemble) KeepCopies() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cap.Keep()
}

// RestoreCopies takes up what KeepCopies returned. An error changes nothing.
func (e *ensemble) RestoreCopies(b []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cap.Restore(b)
}
