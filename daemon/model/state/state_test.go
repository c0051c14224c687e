package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/report"
)

// TestFailuresWhileTheClockIsSet (G7): storage errors of a run before, which are in the future after a clock was set
// back, keep nothing down.
func TestFailuresWhileTheClockIsSet(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	note := func(at ...time.Time) {
		if err := os.RemoveAll(filepath.Join(dir, failuresFile)); err != nil {
			t.Fatal(err)
		}
		for _, at := range at {
			if err := noteFailure(dir, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, ahead := range []time.Duration{time.Second, 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		note(now.Add(ahead), now.Add(ahead), now.Add(ahead))
		if err := failedOften(dir, now); err != nil {
			t.Errorf("storage errors %v ahead: %v", ahead, err)
		}
	}
	note(now.Add(-time.Minute), now.Add(-time.Minute), now.Add(-time.Second))
	if err := failedOften(dir, now); report.CodeOf(err) != report.ExitState {
		t.Errorf("three storage errors within a minute: %v", err)
	}
}
