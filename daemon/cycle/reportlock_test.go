package cycle

import (
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestFiguresDoNotWait: metrics and pages are served while something holds the lock of the learners, such as an update
// that copies a million names.
func TestFiguresDoNotWait(t *testing.T) {
	c, events := newCycle(t, cycletest.RatingsModel(nil)), cycletest.Stream(5, 600)
	observeAll(c, events)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, read := range map[string]func(){
		"progressive": func() { c.Progressive() }, "window": func() { c.progress.WindowLosses() },
		"names":    func() { c.progress.Names() },
		"outlying": func() { c.ensemble.Outlying() },
		"resets":   func() { c.progress.Resets() }, "impossible": func() { c.progress.ImpossibleLosses() },
		"rejections":  func() { c.lineage.Rejections() },
		"calibration": func() { c.progress.Calibration() }, "evicted": func() { c.ensemble.Evicted() },
		"tail": func() { c.progress.Tail() },
		"sums": func() {
			if _, err := c.progress.Sums(); err != nil {
				t.Error(err)
			}
		},
	} {
		done := make(chan struct{})
		go func() { defer close(done); read() }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s waits for the learners", name)
		}
	}
}
