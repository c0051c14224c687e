package model

import (
	"context"
	"math"
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
	applied, unread func() int64 // events so far, and records left
	began           time.Time
	half            time.Duration // of the time budget; the second one is the refit's own

	look   atomic.Int64  // nanoseconds since began: when to look at the log again, a slice after the rest is over
	asking sync.Mutex    // guards what follows
	first  int64         // applied when the refit began
	last   int64         // and when it was looked at last
	moved  time.Duration // when applied was first seen to be last
}

// newCourtesy returns ctx as a refit that begins now has to ask it.
func newCourtesy(ctx context.Context, applied, unread func() int64) *courtesy {
	c := &courtesy{Context: ctx, applied: applied, unread: unread, began: time.Now(), half: math.MaxInt64, first: applied()}
	if deadline, ok := ctx.Deadline(); ok {
		c.half = deadline.Sub(c.began) / 2
	}
	c.last = c.first
	return c
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
			look += courtesyRest
		}
		c.look.Store(int64(look))
		c.asking.Unlock()
	}
	if rest := time.Duration(c.look.Load()) - courtesySlice - now; rest > 0 {
		select {
		case <-c.Done():
		case <-time.After(rest):
		}
		return c.Context.Err()
	}
	return nil
}

// behind reports whether reading has use for the processors, so long after the refit began.
func (c *courtesy) behind(elapsed time.Duration) bool {
	applied := c.applied()
	if applied != c.last {
		c.last, c.moved = applied, elapsed
	}
	return elapsed < c.half && elapsed-c.moved < standsStill && isBehind(c.unread(), applied-c.first, elapsed)
}

// isBehind reports whether a lag is more than what is on its way, of a model that applied so many events in the time.
func isBehind(lag, applied int64, elapsed time.Duration) bool {
	return lag > behindEvents && float64(lag)*elapsed.Seconds() > float64(applied)*behindFor.Seconds()
}
