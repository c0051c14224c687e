package cycle

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// correction returns what an event that corrects another one changes, by labels within bounds; nil where that is
// nothing.
func (s *common) correction(ev, was *event.Event, counts *rows.Counted, low, high float64) *admission.Correction {
	of := admission.NewCorrection(ev, was, counts)
	for _, e := range []*event.Event{of.Was, of.Is} {
		e.Label = min(max(e.Label, low), high)
	}
	if !of.Encode(s.target) {
		return nil
	}
	return of
}

// correctFoldIn has the fold-in learn a corrected label, and returns what that changes.
func (e *ensemble) correctFoldIn(o *Observation) *admission.Correction {
	low, high := e.numbers.Labels()
	of := e.correction(o.Event, o.counts.Correction.Was, o.counts, low, high)
	if of != nil && e.config.Train.FoldIn.Enabled {
		e.learner.Correct(of)
	}
	return of
}

// correct has all else that learns live learn a corrected label, which the fold-in and the experts have learned.
// Weights of the mixture and whatever else judges predictions stay: nothing is predicted anew.
func (c *Cycle) correct(o *Observation, of *admission.Correction) {
	if c.ensemble.mixture != nil {
		c.ensemble.mixture.Correct(of)
	}
	if l := c.ensemble.linear; l != nil {
		l.Take(of.Is)
		l.Correct(*of)
	}
	if o.Payload != nil {
		c.backlog.Add(o.Position, o.Payload, o.counts.Clone())
	}
}

// recorrect has what is made on a refit learn a corrected label that came since its cut.
func (e *ensemble) recorrect(l experts.Learner, others []*experts.Expert, ev *event.Event, counts *rows.Counted,
	low, high float64) {
	was := new(event.Event)
	if rows.DecodeEvent(was, counts.Correction.Payload, e.pool) != nil {
		return
	}
	e.tables.Join(was)
	if rows.PlaceOfList(was, len(was.Multi)) != len(counts.Correction.Ages) {
		return // tables have other lists by now
	}
	of := e.correction(ev, was, counts, low, high)
	if of == nil {
		return
	}
	l.Correct(of)
	for _, expert := range others {
		if !expert.Lasting {
			expert.Correct(*of)
		}
	}
}
