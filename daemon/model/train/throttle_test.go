package train

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestThrottle: while reading is behind, every goroutine of a refit works an eighth of the time; all of it once
// reading has caught up or has stopped, and in the second half of a time budget.
func TestThrottle(t *testing.T) {
	caughtUp := func(elapsed time.Duration) int64 { return 1_000_000 - perSecond(1_000_000)(elapsed) } // after a second
	for name, test := range map[string]struct {
		workers int
		applied func(elapsed time.Duration) int64
		unread  func(elapsed time.Duration) int64
		budget  time.Duration
		rests   time.Duration // until then
	}{
		"catches up":       {1, perSecond(100_000), caughtUp, 0, 995 * time.Millisecond},
		"three goroutines": {3, perSecond(100_000), caughtUp, 0, 995 * time.Millisecond},
		"stopped":          {1, perSecond(0), func(time.Duration) int64 { return 1_000_000 }, 0, time.Second},
		"time budget": {1, perSecond(100_000), func(time.Duration) int64 { return 1_000_000 }, 3 * time.Second,
			1500 * time.Millisecond},
		"keeps up": {1, perSecond(100_000), func(time.Duration) int64 { return 4000 }, 0, 0}, // that take 40 ms
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const length, block = 2 * time.Second, time.Millisecond / 2
				began, looks := time.Now(), 0
				c := newThrottle(t.Context(), test.budget, func() int64 { return 7 + test.applied(time.Since(began)) },
					func() int64 { looks++; return test.unread(time.Since(began)) })
				var mu sync.Mutex
				var before, after time.Duration // worked
				var running sync.WaitGroup
				for range test.workers {
					running.Go(func() {
						for time.Since(began) < length {
							c.Yield()
							at := time.Since(began)
							time.Sleep(block)
							mu.Lock()
							if at < test.rests {
								before += block
							} else {
								after += block
							}
							mu.Unlock()
						}
					})
				}
				running.Wait()
				workers := float64(test.workers)
				if share := float64(before) / float64(test.rests) / workers; test.rests > 0 &&
					!(share > 0.1 && share < 0.15) {
					t.Errorf("until %v they worked %.3f of the time", test.rests, share)
				}
				if share := float64(after) / float64(length-test.rests) / workers; share < 0.95 {
					t.Errorf("from %v on they worked %.3f of the time", test.rests, share)
				}
				if looks > 500 {
					t.Errorf("%d looks at the log in %v", looks, length)
				}
			})
		})
	}
}

// TestThrottleEnds: a refit that is called off waits no longer.
func TestThrottleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newThrottle(ctx, 0, func() int64 { return 0 }, func() int64 { return 1_000_000 })
		began := time.Now()
		time.AfterFunc(throttleSlice+time.Millisecond, cancel)
		for c.Yield(); ctx.Err() == nil; c.Yield() {
			time.Sleep(throttleSlice) // of work; then it rests
		}
		if c.Yield(); time.Since(began) != throttleSlice+time.Millisecond {
			t.Errorf("called off in its rest, it waited until %v", time.Since(began))
		}
	})
}

// perSecond is a count that grows steadily.
func perSecond(n int64) func(elapsed time.Duration) int64 {
	return func(elapsed time.Duration) int64 { return int64(float64(n) * elapsed.Seconds()) }
}

// TestIsBehind: what is on its way is no lag.
func TestIsBehind(t *testing.T) {
	for _, test := range []struct {
		lag, applied int64
		elapsed      time.Duration
		want         bool
	}{
		{0, 0, time.Second, false},
		{1000, 0, time.Second, false}, // so few are soon read
		{1001, 0, time.Second, true},
		{2500, 50_000, time.Second, false}, // 50 ms of what is read
		{2501, 50_000, time.Second, true},
		{2501, 500_000, 10 * time.Second, true},
		{1001, 20, time.Second, true}, // slow events are behind, too
		{5000, 0, 0, false},           // nothing is known of the pace
	} {
		if got := isBehind(test.lag, test.applied, test.elapsed); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
