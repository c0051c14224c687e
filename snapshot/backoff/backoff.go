// Package backoff says how long to wait after failures. It imports the standard library only and may be imported by every other package.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Wait is Doubled with up to a quarter off, so that clients that failed together do not march in step.
func Wait(failures int, first, most time.Duration) time.Duration {
	d := Doubled(failures, first, most)
	return d - rand.N(d/4+1)
}

// Doubled returns the wait after so many failures in a row: first after one, twice that after the next, and so on, at most most.
func Doubled(failures int, first, most time.Duration) time.Duration {
	d := first
	for ; failures > 1 && 0 < d && d <= most/2; failures-- {
		d *= 2
	}
	if failures > 1 && d > 0 {
		return most
	}
	return min(d, most)
}
