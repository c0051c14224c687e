package refit

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// TestFewOfALabelChooseNoStage: select rows with next to none of one binary label choose no stage.
func TestFewOfALabelChooseNoStage(t *testing.T) {
	for _, test := range []struct {
		ones, rows int
		task       event.Task
		want       bool
	}{{0, 150, event.Binary, false}, {4, 150, event.Binary, false}, {5, 150, event.Binary, true}, {147, 150, event.Binary,
		false},
		{0, 150, event.Regression, true}} {
		j := &task.Task{
			Process: task.Process{Budget: new(task.Budget)},
			Target:  new(encode.Target),
			Rows: task.Rows{
				Select_: &encode.Encoded{Events: make([]event.Event, test.rows)},
			}}
		j.Target.Task = test.task
		for i := range test.ones {
			j.Rows.Select_.Events[i].Label = 1
		}
		if gate.SelectDecides(j) != test.want {
			t.Errorf("%d of %d rows of %s: SelectDecides is %t", test.ones, test.rows, test.task, !test.want)
		}
	}
}
