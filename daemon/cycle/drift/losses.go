package drift

import (
	"github.com/refitd/refitd/daemon/config"
)

// lossesKind tests the losses of models without a posterior, and of those whose labels come later. These learn outcomes
// before the defaults of the same time, so that their gradients would agree without a change. Their losses count when
// labels are final.
var lossesKind = Kind{
	Name: "losses",
	Doc: "whether what is live loses more than before, and the last refit more than what is live; other models, " +
		"and where labels come later",
	Applies: func(m *config.Model) bool { return m.Train.Refit != "variational" || m.Schema.LabelLater },
	Groups:  func(*config.Model) []string { return []string{DriftLosses} },
	New:     func([]string) Detector { return newLosses() },
}

// DriftLosses is the group of the drift detector of models without a posterior.
const DriftLosses = "(loss)"

// Losses tests whether what is live loses more than before, and the last refit more than what is live. A rhythm of the
// losses raises both alike.
type Losses struct {
	losses lossTest   // of what is live
	excess excessTest // of the last refit's losses over those
	rose   int64      // event at which losses alarmed last, 0 for none
	worse  int64      // event at which the excess did
	Calm   int64      // until which event losses are not tested
}

// newLosses returns a test that has seen no event.
func newLosses() *Losses { return &Losses{Calm: driftRest - LossBlock*LossReference} }

// Add takes up the losses of an event.
func (d *Losses) Add(o *Observed) []Alarm {
	if d.excess.add(o.Refit-o.Live, o.Event >= d.Calm+LossBlock*LossReference) {
		d.worse = o.Event
	}
	if o.Event >= d.Calm && d.losses.add(o.Live) {
		d.rose = o.Event
	}
	if d.rose == 0 || d.worse == 0 || max(d.rose-d.worse, d.worse-d.rose) > driftTogether {
		return nil
	}
	d.losses, d.rose, d.worse = lossTest{}, 0, 0
	d.Calm = o.Event + driftRest - LossBlock*LossReference
	return []Alarm{{DriftAlarm{o.Event, DriftLosses}, -1}}
}
