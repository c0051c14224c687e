package daemon

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// While a model is behind its log, its refit leaves the processors to reading: the sooner it has caught up, the sooner what is published is of
// today.
const (
	courtesySlice = 5 * time.Millisecond  // a refit works before it looks at the log again
	courtesyRest  = 35 * time.Millisecond // it rests if the log is behind: it has an eighth of the time then

	behindFor    = 50 * time.Millisecond // that reading what is left takes, at the pace since the refit began
	behindEvents = 1000                  // and at least so many events
	standsStill  = time.Second           // without an event, after which reading has no use for the processors
)

// courtesy is the context of a refit that makes way for reading. The goroutines of a refit ask it before every block of rows and features, and
// wait for the answer while it rests.
type courtesy struct {
	context.Context
	behind func(elapsed time.Duration) bool // since the refit began
	began  time.Time
	until  atomic.Int64 // nanoseconds since began: when the rest is over
	look   atomic.Int64 // and when behind is asked again
	asking sync.Mutex   // behind
}

// Err is the context's. Where the refit goes on it costs a look at the clock.
func (c *courtesy) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	now := time.Since(c.began)
	if int64(now) >= c.look.Load() && c.asking.TryLock() {
		look := now + courtesySlice
		if c.behind(now) {
			c.until.Store(int64(now + courtesyRest))
			look += courtesyRest
		}
		c.look.Store(int64(look))
		c.asking.Unlock()
	}
	if rest := time.Duration(c.until.Load()) - now; rest > 0 {
		time.Sleep(rest)
	}
	return nil
}

// courteous returns ctx as a refit that begins now has to ask it.
func (u *unit) courteous(ctx context.Context) context.Context {
	first := u.applied.Load()
	last, moved := first, time.Duration(0)
	behind := func(elapsed time.Duration) bool {
		applied := u.applied.Load()
		if applied != last {
			last, moved = applied, elapsed
		}
		return elapsed-moved < standsStill && isBehind(u.unread(), applied-first, elapsed)
	}
	return &courtesy{Context: ctx, behind: behind, began: time.Now()}
}

// isBehind reports whether a lag is more than what is on its way, of a model that applied so many events in the time.
func isBehind(lag, applied int64, elapsed time.Duration) bool {
	return lag > behindEvents && float64(lag)*elapsed.Seconds() > float64(applied)*behindFor.Seconds()
}
