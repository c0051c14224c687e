package backtest

import (
	"errors"
	"fmt"

	"github.com/refitd/refitd/daemon/cycle/schedule"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

// checkSchedule refuses a configuration under which nothing would ever be refitted.
func (o *Options) checkSchedule(set *dataset.Set) error {
	if o.Clock.OfEvents && !set.HasTime {
		return &report.ExitError{Code: report.ExitUsage, Key: "--clock",
			Err: errors.New(
				"--clock time needs an event time in every line, and the file has none: set schema.time, or use --clock events:100",
			)}
	}
	train := &o.Model.Train
	if train.Every == 0 && train.EveryEvents == 0 {
		return &report.ExitError{Code: report.ExitUsage, Key: "train.every",
			Err: errors.New(
				"the model would never be refitted: set train.every (such as 30s) or train.every_events (such as 5000)",
			)}
	}
	clock, n := offline.Simulated{Clock: o.Clock}, len(set.Examples)
	if n == 0 {
		return nil
	}
	schedule := schedule.New(o.Model, clock.At(0, &set.Examples[0]))
	for i := range set.Examples {
		if schedule.RefitDue(train, clock.At(i, &set.Examples[i]), int64(i)) {
			return nil
		}
	}
	key := "train.every_events"
	if train.EveryEvents == 0 {
		key = "train.every"
	}
	return &report.ExitError{
		Code: report.ExitUsage,
		Key:  key,
		Err: fmt.Errorf("the model would never be refitted: the run has %d events under "+
			"--clock %s, train.every is %v and train.every_events %d: set one of them lower", n, o.Clock, train.Every,
			train.EveryEvents),
	}
}
