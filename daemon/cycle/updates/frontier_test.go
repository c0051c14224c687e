package updates

import (
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
)

// TestDeltasNeverGoBack: what is stored can end behind the last event, in markers of transactions, and a delta after a
// version of that says no less.
func TestDeltasNeverGoBack(t *testing.T) {
	var r Frontier
	at := func(offset int64) rows.Position { return rows.Position{Topic: "ratings", Partition: 2, Offset: offset} }
	stamped := func() []format.Cut {
		var d format.Delta
		r.Stamp(&d, time.Now())
		return d.Cut
	}
	r.Add(at(36), &event.Event{})
	r.CarryOver([]report.Cut{{Topic: "ratings", Partition: 2, Next: 38}})
	if cut := stamped(); cut != nil {
		t.Errorf("after a version of offset 38 a delta says %v", cut)
	}
	r.Add(at(40), &event.Event{})
	r.CarryOver(
		[]report.Cut{{Topic: "ratings", Partition: 2, Next: 38}},
	) // a version of what is stored, which is less than was observed
	later := []format.Cut{{Topic: "ratings", Partition: 2, Next: 41}}
	if cut := stamped(); !slices.Equal(cut, later) {
		t.Errorf("after an event at offset 40 a delta says %v", cut)
	}
	// a version that was made while a delta of the version before already held the event
	r.CarryOver([]report.Cut{{Topic: "ratings", Partition: 2, Next: 38}})
	if cut := stamped(); !slices.Equal(cut, later) {
		t.Errorf("after a version of offset 38 a delta says %v of an event at 40", cut)
	}
}
