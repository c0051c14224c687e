package cycle

import (
	"reflect"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// TestConvexStageIsLeftOut: a refit leaves out the convex stage after one that the variational stage won, and is
// repeated from its record all the same. Every so many versions, after a version of the convex stage and after one that
// was kept back it runs.
func TestConvexStageIsLeftOut(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	m := cycletest.RatingsModel(nil)
	m.Publish.KeepSample = true
	c := newCycle(t, m)
	events := cycletest.Stream(5, 2400)
	observeAll(c, events[:1200])
	first := mustRefit(t, c, sampleOf(events[:1200]))
	if first.Version.Objective == 0 || first.Version.Sweeps == 0 {
		t.Fatalf("first version %+v, want both stages and the variational one published", first.Version)
	}
	observeAll(c, events[1200:])
	for _, x := range []struct {
		version    int64
		sweeps     int
		rejections int
		lean       bool
	}{{1, first.Version.Sweeps, 0, true}, {variational.ConvexAgain, first.Version.Sweeps, 0, false}, {1, 0, 0, false}, {1,
		first.Version.Sweeps, 1, false}} {
		champion := *first
		champion.Version.Version, champion.Version.Sweeps = x.version, x.sweeps
		c.Install(&champion)
		c.lineage.rejections = x.rejections
		ch := mustRefit(t, c, sampleOf(events))
		if lean := ch.Version.Objective == 0; lean != x.lean || lean && ch.Version.Sweeps == 0 {
			t.Errorf("%+v: convex stage left out %t, %d sweeps", x, lean, ch.Version.Sweeps)
		}
		repeated(t, ch, m, 2)
	}
}

// TestConvexStageRunsAfterAll: where the sweeps gain nothing, what they began with is left as it was for the convex
// stage.
func TestConvexStageRunsAfterAll(t *testing.T) {
	t.Parallel()
	c := newCycle(t, cycletest.RatingsModel(nil))
	events := cycletest.Stream(5, 1200)
	observeAll(c, events)
	first := mustRefit(t, c, sampleOf(events))
	first.Version.Version = 1
	c.Install(first)
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget), Workers: 1},
		Model:   c.config,
		Schema:  &c.schema,
		Start:   task.Start{Champion: first},
		Choices: task.Choices{
			Given: -1,
		},
		Rows: task.Rows{
			Sample: sampleOf(events),
		},
	}
	if err := refit.Prepare(j); err != nil {
		t.Fatal(err)
	}
	warm, _ := variational.Continuing(j, j.Vocab)
	want := warm.Posterior.Clone()
	for _, gains := range []float64{1, -1} {
		loss := 0.0
		j.Judge = func(*solver.Model) float64 { loss -= gains; return loss }
		best, fit, err := refit.SweepAlone(t.Context(), j, warm, warm.Posterior.NumBasis)
		if err != nil || (best != nil) != (gains > 0) || (fit != nil) != (gains > 0) {
			t.Fatalf("gains %g: candidate %v, stage %v, error %v", gains, best, fit, err)
		}
		if gains > 0 {
			warm.Posterior = want.Clone()
		} else if !reflect.DeepEqual(warm.Posterior, want) {
			t.Error("the posterior is not what the sweeps began with")
		}
	}
}
