package offline

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/daemon/dataset"
)

// Clock is what the time of a backtest's schedule is: that of the events, or of events that come at an even rate. The
// zero Clock is events:100.
type Clock struct {
	OfEvents  bool  // their time
	perSecond int64 // events; 0 is 100
}

var errClock = errors.New("is no clock: write events:N, N events being a second, or time for the time of the events")

// UnmarshalText parses events:N with N of at least 1, or time.
func (c *Clock) UnmarshalText(text []byte) error {
	if string(text) == "time" {
		*c = Clock{OfEvents: true}
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

func (c Clock) Rate() int64 { return cmp.Or(c.perSecond, 100) }

// String prints the clock as UnmarshalText reads it.
func (c Clock) String() string {
	if c.OfEvents {
		return "time"
	}
	return fmt.Sprintf("events:%d", c.Rate())
}

// Simulated is the clock of one backtest. It never goes back, and stops during a refit.
type Simulated struct {
	Clock
	newest int64 // event time, milliseconds since 1970
}

// At returns the time at which the i-th event comes.
func (s *Simulated) At(i int, e *dataset.Example) time.Time {
	if !s.OfEvents {
		n, rate := int64(i), s.Rate()
		return time.Unix(n/rate, n%rate*int64(time.Second)/rate)
	}
	if i == 0 || e.Time > s.newest {
		s.newest = e.Time
	}
	return time.UnixMilli(s.newest)
}
