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
		"progressive": func() { c.Progressive() }, "window": func() { c.WindowLosses() }, "names": func() { c.Names() },
		"outlying": func() { c.Outlying() },
		"resets":   func() { c.Resets() }, "impossible": func() { c.ImpossibleLosses() },
		"rejections":  func() { c.Rejections() },
		"calibration": func() { c.Calibration() }, "evicted": func() { c.Evicted() }, "tail": func() { c.Tail() },
		"sums": func() {
			if _, err := c.Sums(); err != nil {
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
