package gate

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// TestGateAgainstWhatHasSeenTheRows: a version that learned from held-out rows, of which the clean state is not known,
// is compared on those alone that came after its cut.
func TestGateAgainstWhatHasSeenTheRows(t *testing.T) {
	m, two := cycletest.RatingsModel(nil), []string{"u1", "i1"}
	schema := m.Schema.Event()
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Model:   m,
		Schema:  &schema,
		Target:  new(encode.Target),
		Rows: task.Rows{
			Sample: &encode.Sample{
				GateAge:   []float64{50, 5, 20},
				SelectAge: []float64{30, 1},
				Events:    format.Counts{Applied: 100},
				Lineage:   "l",
			},
			Gate: &encode.Encoded{Events: []event.Event{{Label: 1, Categorical: two}, {Categorical: two}, {Label: 1,
				Categorical: two}}},
			Select_: &encode.Encoded{Events: []event.Event{{Categorical: two}, {Label: 1, Categorical: two}}},
		}}
	j.Target.Task, j.Target.Loss, j.Rows.Train = event.Binary, solver.BinaryLogistic{}, &encode.Encoded{
		X: solver.NewRows(1, 0, 0),
	}
	r := &Incumbent{losses: heldLosses{gate: []float64{1, 2, 3}, chosen: []float64{4, 5}}, job: j}
	since, ok := EventsSince(j, &fitted.Fitted{Lineage: "l", Events: &format.Counts{Applied: 75}})
	if r.unseen = since; !ok || since != 25 {
		t.Fatalf("%g events since the cut", since)
	}
	gate, chosen := r.scores(heldLosses{gate: []float64{10, 20, 30}, chosen: []float64{40, 50}})
	if !slices.Equal(gate.loss, []float64{20, 30}) || !slices.Equal(gate.against, []float64{2, 3}) ||
		!slices.Equal(chosen.loss, []float64{50}) {
		t.Errorf("gate %+v, select %+v", gate, chosen)
	}
	if _, ok := EventsSince(j, &fitted.Fitted{Lineage: "other", Events: &format.Counts{Applied: 75}}); ok {
		t.Error("offsets of another lineage are compared")
	}
}
