package task

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestGateRowsAreCapped: no entity has more than its share of the weight of gate rows, others keep theirs, and few
// names are no entities.
func TestGateRowsAreCapped(t *testing.T) {
	m := cycletest.PublicModel(nil)
	schema := m.Schema.Event()
	j := &Task{Model: m, Schema: &schema}
	rows := cycletest.Public(8, 2000)
	for range 1000 {
		rows = append(rows, event.Event{Categorical: []string{"stuck", "i3"}})
	}
	names := make(map[string]bool)
	for i := range rows {
		names[rows[i].Categorical[0]] = true
	}
	for _, weights := range [][]float64{nil, slices.Repeat([]float64{0.5}, len(rows))} {
		got := j.CapEntities(weights, rows)
		one := 1.0
		if weights != nil {
			one = 0.5
		}
		stuck := 0.0
		for i, w := range got {
			if rows[i].Categorical[0] == "stuck" {
				stuck += w
			} else if w != one {
				t.Fatalf("a row of another entity has weight %g", w)
			}
		}
		if want := admission.ShareOfEach(0.01, len(names)) * one * 3000; math.Abs(stuck-want) > 1e-9 {
			t.Errorf("rows of one entity have %g, want %g", stuck, want)
		}
		if free := j.CapEntities(weights, rows[:2000]); !slices.Equal(free, weights) {
			t.Error("rows of entities within their shares have other weights")
		}
	}
	if got := j.CapEntities(nil, cycletest.Stream(1, 1000)); got != nil {
		t.Error("rows of 60 users are capped at 1 %")
	}
}
