package backoff

import (
	"math"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		failures          int
		first, most, want time.Duration
	}{
		{0, 100, 5000, 100}, {1, 100, 5000, 100}, {2, 100, 5000, 200}, {6, 100, 5000, 3200}, {7, 100, 5000, 5000}, {1 << 40,
			100, 5000, 5000},
		{3, 7, 5, 5}, {99, 1, math.MaxInt64, math.MaxInt64}, {5, 7, 7, 7},
	} {
		if got := Doubled(c.failures, c.first, c.most); got != c.want {
			t.Errorf("%d failures from %d to %d: %d, want %d", c.failures, c.first, c.most, got, c.want)
		}
		differ := false
		for range 200 {
			got := Wait(c.failures, c.first, c.most)
			if got > c.want || got < c.want-c.want/4-1 {
				t.Fatalf("%d failures from %d to %d: waits %d", c.failures, c.first, c.most, got)
			}
			differ = differ || got != Wait(c.failures, c.first, c.most)
		}
		if c.want > 100 && !differ {
			t.Errorf("%d failures: every wait is the same", c.failures)
		}
	}
}
