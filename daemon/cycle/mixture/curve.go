package mixture

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
)

// IntervalLosses sums what predictors lost since the last TakeLosses.
type IntervalLosses struct {
	Roles [evaluate.NumRoles]evaluate.Tally
	Parts []evaluate.Tally // of the mixture
}

// Add takes up an event that the mixture, which may be nil, has predicted and not learned yet.
func (s *IntervalLosses) Add(o *[evaluate.NumRoles]evaluate.EventOutcome, versus evaluate.Compared, m *Mixture,
	ev *event.Event, targets []float64) {
	for r := range o {
		s.Roles[r].Add(&o[r], versus)
	}
	if m == nil {
		return
	}
	if len(s.Parts) == 0 {
		s.Parts = make([]evaluate.Tally, len(m.Parts))
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Present {
			loss := evaluate.BoundedError(m.Loss(p, ev, targets))
			s.Parts[i].Add(&evaluate.EventOutcome{Present: true, Lossy: true, Loss: loss, Square: loss},
				evaluate.Compared{})
		}
	}
}
