// Package backoff waits after failures. It imports the standard library only and may be imported by every other
// package.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Wait is Doubled with up to a quarter off, so that clients that failed together do not march in step.
func Wait(failures int, first, most time.Duration) time.Duration {
	d := Doubled(failures, first, most)
	return d - rand.N(d/4+1)
}

// Doubled returns the wait after so many failures in a row: first after one, twice that after the next, and so on, at
// most most.
func Doubled(failures int, first, most time.Duration) time.Duration {
	d := min(first, most)
	for ; failures > 1 && d <= most/2; failures-- {
		d *= 2
	}
	if failures > 1 {
		d = most
	}
	return d
}

// Sleep waits for d, or until ctx is done, and returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
