package offline

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/report"
)

// Clock is what the time of a backtest's schedule is: that of the events, or of events that come at an even rate. The zero Clock is events:100.
type Clock struct {
	ofEvents  bool  // their time
	perSecond int64 // events; 0 is 100
}

var errClock = errors.New("is no clock: write events:N, N events being a second, or time for the time of the events")

// UnmarshalText parses events:N with N of at least 1, or time.
func (c *Clock) UnmarshalText(text []byte) error {
	if string(text) == "time" {
		*c = Clock{ofEvents: true}
		return nil
	}
	rate, ok := strings.CutPrefix(string(text), "events:")
	n, err := strconv.ParseInt(rate, 10, 64)
	if !ok || err != nil || n < 1 {
		return fmt.Errorf("%q %w", text, errClock)
	}
	*c = Clock{perSecond: n}
	return nil
}

func (c Clock) rate() int64 { return cmp.Or(c.perSecond, 100) }

// String prints the clock as UnmarshalText reads it.
func (c Clock) String() string {
	if c.ofEvents {
		return "time"
	}
	return fmt.Sprintf("events:%d", c.rate())
}

// simulated is the clock of one backtest. It never goes back, and stops during a refit.
type simulated struct {
	Clock
	newest int64 // event time, milliseconds since 1970
}

// at returns the time at which the i-th event comes.
func (s *simulated) at(i int, e *dataset.Example) time.Time {
	if !s.ofEvents {
		n, rate := int64(i), s.rate()
		return time.Unix(n/rate, n%rate*int64(time.Second)/rate)
	}
	if i == 0 || e.Time > s.newest {
		s.newest = e.Time
	}
	return time.UnixMilli(s.newest)
}

// checkSchedule refuses a configuration under which nothing would ever be refitted.
func (o *BacktestOptions) checkSchedule(set *dataset.Set) error {
	if o.Clock.ofEvents && !set.HasTime {
		return &report.ExitError{Code: report.ExitUsage, Key: "--clock",
			Err: errors.New("--clock time needs an event time in every line, and the file has none: set schema.time, or use --clock events:100")}
	}
	train := &o.Model.Train
	if train.Every == 0 && train.EveryEvents == 0 {
		return &report.ExitError{Code: report.ExitUsage, Key: "train.every",
			Err: errors.New("the model would never be refitted: set train.every (such as 30s) or train.every_events (such as 5000)")}
	}
	clock, n := simulated{Clock: o.Clock}, len(set.Examples)
	if n == 0 {
		return nil
	}
	schedule := cycle.NewSchedule(clock.at(0, &set.Examples[0]))
	for i := range set.Examples {
		if schedule.RefitDue(train, clock.at(i, &set.Examples[i]), int64(i)) {
			return nil
		}
	}
	key := "train.every_events"
	if train.EveryEvents == 0 {
		key = "train.every"
	}
	return &report.ExitError{Code: report.ExitUsage, Key: key, Err: fmt.Errorf("the model would never be refitted: the run has %d events under "+
		"--clock %s, train.every is %v and train.every_events %d: set one of them lower", n, o.Clock, train.Every, train.EveryEvents)}
}
