package train

import (
	"testing"
	"time"
)

// TestDisabledUntil (G4): the wait before training is tried again is ten minutes after two deaths, doubles with each,
// and ends at a day; a clock that was set back makes it no longer.
func TestDisabledUntil(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		deaths int
		last   time.Duration // against now
		want   time.Duration
	}{
		{2, 0, 10 * time.Minute},
		{3, 0, 20 * time.Minute},
		{4, -time.Hour, -20 * time.Minute},
		{9, 0, 1280 * time.Minute},
		{10, 0, 24 * time.Hour},
		{1000, 0, 24 * time.Hour},
		{2, 100 * time.Hour, 10 * time.Minute},
	} {
		if got := disabledUntil(c.deaths, now.Add(c.last), now).Sub(now); got != c.want {
			t.Errorf("%d deaths, the last %v from now: wait of %v, want %v", c.deaths, c.last, got, c.want)
		}
	}
}
