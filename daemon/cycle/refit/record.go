package refit

import (
	"context"
	"fmt"
	"time"

	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/snapshot/format"
)

// Repeat makes the refit again and returns its model. It ends where the refit was cut short; cut is nil if the refit
// ended without a cut. The time budget of the configuration does not apply, and what of says was chosen is not chosen
// again. It takes the training rows of the record.
func Repeat(r *task.Record, ctx context.Context, cut *format.CutShort, of task.Chosen,
	workers int) (*fitted.Fitted, error) {
	given := fitted.HalfLifeIndex(of.HalfLife)
	if given < 0 {
		return nil, fmt.Errorf(
			"cycle: training rows faded with a half-life of %d events, which this build does not know: "+
				"use the build that made the version",
			of.HalfLife,
		)
	}
	began := fitted.PrecisionStart(of.Precisions)
	if began != "" && began != variational.PrecisionsAnew && began != variational.PrecisionsCarried {
		return nil, fmt.Errorf(
			"cycle: precisions began %q, which this build does not know: use the build that made the version",
			of.Precisions)
	}
	if cut == nil {
		cut = &format.CutShort{Solves: task.NoCut}
	}
	schema := r.Model.Schema.Event()
	j := &task.Task{
		Model:   r.Model,
		Schema:  &schema,
		Process: task.Process{Workers: workers, Now: time.Now, Budget: &task.Budget{Repeat: cut}},
		Start:   task.Start{Repeats: r.Start},
		Rough:   r.Start.Rough,
		Carries: r.Start.Carries,
		Choices: task.Choices{
			Given:     given,
			Unbounded: !r.Start.Bounded,
		},
		Stages: task.Stages{
			HeldOutSweeps: of.HeldOutSweeps,
			Began:         began,
		},
		Rows: task.Rows{
			Sample: r.Sample,
		},
	}
	ch, err := Run(ctx, j)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err() // what ends early for another reason proves nothing
	}
	return ch, err
}
