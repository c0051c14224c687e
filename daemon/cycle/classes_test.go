package cycle

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestClassesOfNewUsers: on users that the refit did not know, the live model of a multi-class or multilabel model over
// names is better with the fold-in than without, its champion is of the variational stage, and the next refit continues
// from what was learned.
func TestClassesOfNewUsers(t *testing.T) {
	tier.NotUnderRace(t)
	for _, task := range []event.Task{event.Multiclass, event.Multilabel} {
		const n = 4000
		events := cycletest.ClassStream(task, n)
		accuracy := func(foldIn bool) float64 {
			c := newCycle(t, cycletest.ClassesModel(task, func(m *config.Model) { m.Train.FoldIn.Enabled = foldIn }))
			observeAll(c, events[:n/2])
			ch := mustRefit(t, c, sampleOf(events[:n/2]))
			if ch.Posterior == nil || !ch.Posterior.Separate {
				t.Fatalf("%s: no posterior with separate outputs", task)
			}
			c.Install(ch)
			c.progress.StartTail()
			observeAll(c, events[n/2:])
			live := float64(*c.progress.Tail().Live.Accuracy)
			if foldIn {
				warm := mustRefit(t, c, sampleOf(events))
				if !warm.Version.Warm || !warm.Model.IsFinite() {
					t.Errorf("%s: the second refit is not a finite warm one", task)
				}
			}
			return live
		}
		with, without := accuracy(true), accuracy(false)
		if with < without+0.05 {
			t.Errorf("%s: %.3f of the classes of new users are right with the fold-in, %.3f without", task, with,
				without)
		}
		t.Logf("%s: %.3f with, %.3f without", task, with, without)
	}
}
