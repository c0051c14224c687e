package convex

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// TestDualByRow: dual variables stay with their rows while others come and go, also where rows are equal, and new rows
// have none.
func TestDualByRow(t *testing.T) {
	events := cycletest.ClassStream(event.Multiclass, 40)
	events[7] = events[3]
	m := cycletest.ClassesModel(event.Multiclass, nil)
	target, err := encode.NewTarget(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	outputs := target.Outputs()
	dual := make([]float64, 30*outputs)
	for i := range dual {
		dual[i] = float64(i + 1)
	}
	ch := &fitted.Fitted{Dual: &fitted.RowDual{IDs: IdsOf(events[:30]), Outputs: outputs, Values: dual}}
	order := rand.New(rand.NewPCG(1, 1)).Perm(40)
	order = slices.DeleteFunc(order, func(i int) bool { return i == 11 || i == 25 }) // which leave
	j := &task.Task{Process: task.Process{Budget: new(task.Budget)}, Target: target}
	var now []event.Event
	for _, i := range order {
		now = append(now, events[i])
	}
	j.Rows.RowIDs = IdsOf(now)
	got, entered := DualOf(j, ch)
	twins := map[float64]bool{}
	for at, i := range order {
		first := got[at*outputs]
		switch {
		case i == 3 || i == 7:
			twins[first] = true
		case i >= 30 && first != 0, i < 30 && first != float64(i*outputs+1):
			t.Errorf("row %d has %g", i, first)
		}
		if isNew := slices.Contains(entered, int32(at)); isNew != (i >= 30) {
			t.Errorf("row %d is new: %t", i, isNew)
		}
	}
	if want := map[float64]bool{float64(3*outputs + 1): true, float64(7*outputs + 1): true}; !reflect.DeepEqual(twins,
		want) {
		t.Errorf("equal rows have %v, want %v", twins, want)
	}
	ch.Dual.Outputs++
	if dual, _ := DualOf(j, ch); dual != nil {
		t.Error("dual variables of other classes are taken up")
	}
}
