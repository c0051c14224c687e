package daemon

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCourtesy: while the log is behind, every goroutine of a refit works an eighth of the time, and all of it from the first look on that finds
// it caught up. Calling the refit off ends the wait for the next rest.
func TestCourtesy(t *testing.T) {
	for _, workers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			const behindFor, length, block = 400 * time.Millisecond, 800 * time.Millisecond, time.Millisecond / 2
			ctx, cancel := context.WithCancel(t.Context())
			began, looks := time.Now(), 0
			c := &courtesy{Context: ctx, began: began, behind: func(elapsed time.Duration) bool {
				if looks++; elapsed != time.Since(began) {
					t.Errorf("asked at %v with %v", time.Since(began), elapsed)
				}
				return elapsed < behindFor
			}}
			var mu sync.Mutex
			var before, after time.Duration // worked
			var running sync.WaitGroup
			for range workers {
				running.Go(func() {
					for time.Since(began) < length {
						if c.Err() != nil {
							t.Error("the refit was called off")
						}
						at := time.Since(began)
						time.Sleep(block)
						mu.Lock()
						if at < behindFor {
							before += block
						} else {
							after += block
						}
						mu.Unlock()
					}
				})
			}
			running.Wait()
			if share := float64(before) / float64(behindFor) / float64(workers); share < 0.1 || share > 0.15 {
				t.Errorf("%d workers: behind, they worked %.3f of the time", workers, share)
			}
			if share := float64(after) / float64(length-behindFor) / float64(workers); share < 0.9 {
				t.Errorf("%d workers: caught up, they worked %.3f of the time", workers, share)
			}
			if looks > 100 {
				t.Errorf("%d looks at the log in %v", looks, length)
			}
			cancel()
			if at := time.Now(); !errors.Is(c.Err(), context.Canceled) || time.Since(at) > 0 {
				t.Error("a refit that was called off has to wait")
			}
		})
	}
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
