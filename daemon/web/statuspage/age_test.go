package statuspage

import (
	"testing"
	"time"
)

// TestAges (G7): what happened in the future, after a clock was set back, is no negative time ago.
func TestAges(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for ahead, want := range map[time.Duration]string{0: "0 s ago", time.Hour: "0 s ago", 24 * time.Hour: "0 s ago",
		-time.Hour:        "60 min ago",
		-40 * time.Second: "40 s ago", -9 * time.Hour: "9 h ago", -1108 * 24 * time.Hour: "1108 days ago"} {
		if got := agoText(now, now.Add(ahead)); got != want {
			t.Errorf("%v ahead is %q, want %q", ahead, got, want)
		}
	}
}
