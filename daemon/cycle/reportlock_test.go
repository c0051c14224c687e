package cycle

import (
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
)

// TestFiguresDoNotWait: what metrics and pages tell is there while something holds the learners, such as an update that
// copies a million names.
func TestFiguresDoNotWait(t *testing.T) {
	c, events := newCycle(t, cycletest.RatingsModel(nil)), cycletest.Stream(5, 600)
	observeAll(c, events)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, tell := range map[string]func(){
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
		told := make(chan struct{})
		go func() { defer close(told); tell() }()
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s waits for the learners", name)
		}
	}
}
