package train

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// While a model is behind its log, its refit leaves the processors to reading: the sooner it has caught up, the sooner
// what is published is of today.
const (
	throttleSlice = 5 * time.Millisecond  // a refit works before it looks at the log again
	throttleRest  = 35 * time.Millisecond // it rests if the log is behind: it has an eighth of the time then

	behindFor    = 50 * time.Millisecond // that reading what is left takes, at the pace since the refit began
	behindEvents = 1000                  // and at least so many events
	standsStill  = time.Second           // without an event, after which reading has no use for the processors
)

// throttle makes one refit give way to reading: the goroutines of the refit call Yield before every block of rows and
// features.
type throttle struct {
	done            <-chan struct{} // of the refit's context
	applied, unread func() int64    // events so far, and records left
	began           time.Time
	half            time.Duration // of the time budget; the second one is the refit's own

	look   atomic.Int64  // nanoseconds since began: when to look at the log again, a slice after the rest is over
	asking sync.Mutex    // guards what follows
	first  int64         // applied when the refit began
	last   int64         // and when it was looked at last
	moved  time.Duration // when applied was first seen to be last
}

// newThrottle returns the throttle of a refit that begins now and has a time budget, 0 for none.
func newThrottle(ctx context.Context, budget time.Duration, applied, unread func() int64) *throttle {
	t := &throttle{
		done:    ctx.Done(),
		applied: applied,
		unread:  unread,
		began:   time.Now(),
		half:    math.MaxInt64,
		first:   applied(),
	}
	if budget > 0 {
		t.half = budget / 2
	}
	t.last = t.first
	return t
}

// Yield waits while the refit rests, at most until it is called off. Where the refit works it costs a look at the
// clock.
func (t *throttle) Yield() {
	now := time.Since(t.began)
	if int64(now) >= t.look.Load() && t.asking.TryLock() {
		look := now + throttleSlice
		if t.behind(now) {
			look += throttleRest
		}
		t.look.Store(int64(look))
		t.asking.Unlock()
	}
	if rest := min(time.Duration(t.look.Load())-throttleSlice, t.half) - now; rest > 0 {
		select {
		case <-t.done:
		case <-time.After(rest):
		}
	}
}

// behind reports whether reading has use for the processors, so long after the refit began.
func (t *throttle) behind(elapsed time.Duration) bool {
	applied := t.applied()
	if applied != t.last {
		t.last, t.moved = applied, elapsed
	}
	return elapsed < t.half && elapsed-t.moved < standsStill && isBehind(t.unread(), applied-t.first, elapsed)
}

// isBehind reports whether a lag is more than what is on its way, of a model that applied so many events in the time.
func isBehind(lag, applied int64, elapsed time.Duration) bool {
	return lag > behindEvents && float64(lag)*elapsed.Seconds() > float64(applied)*behindFor.Seconds()
}
