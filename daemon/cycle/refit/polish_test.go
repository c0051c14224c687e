package refit_test

import (
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// TestConvexStageIsPolishedOnce: a convex model that is published is near the optimum of its basis vectors, cold and
// warm, although the solves that found it ended further off; where the variational stage wins nothing is polished. A
// record of a build that polished every solve is repeated so.
func TestConvexStageIsPolishedOnce(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	m := cycletest.RatingsModel(func(m *config.Model) { m.Train.Refit, m.Publish.KeepSample = "output", true })
	c := newCycle(t, m)
	events := cycletest.Stream(6, 1600)
	for round := range 2 {
		to := 800 * (round + 1)
		observeAll(c, events[to-800:to])
		ch := mustRefit(t, c, sampleOf(events[:to]))
		v := &ch.Version
		if gap := float64(*v.BasisGapRelative); !(gap < 3*task.StreamTolerance) {
			t.Errorf("round %d: %g above the optimum of its basis vectors", round, gap)
		}
		if record, err := task.ReadRecord(ch.Kept); err != nil || !record.Start.Rough {
			t.Fatalf("round %d: record %v, error %v", round, record, err)
		}
		repeated(t, ch, m, 2)
		v.Version = int64(round + 1)
		c.Install(ch)
	}

	m = cycletest.RatingsModel(nil)
	c = newCycle(t, m)
	observeAll(c, events[:800])
	first := mustRefit(t, c, sampleOf(events[:800]))
	first.Version.Version = variational.ConvexAgain // the convex stage is not left out after it
	c.Install(first)
	for _, rough := range []bool{true, false} {
		j := prepared(
			t,
			&task.Task{
				Process: task.Process{Budget: new(task.Budget), Workers: 1},
				Rough:   rough,
				Model:   m,
				Schema:  new(m.Schema.Event()),
				Start:   task.Start{Champion: first},
				Choices: task.Choices{
					Given: -1,
				},
				Rows: task.Rows{
					Sample: sampleOf(events),
				},
			},
		)
		warm, _ := variational.Continuing(j, j.Vocab)
		best, fit, err := refit.Stages(t.Context(), j, warm)
		if err != nil || fit == nil || fit.Loss > best.Loss {
			t.Fatalf("candidate %+v, stage %+v, error %v: want the variational stage to win", best, fit, err)
		}
		if polished := best.Result.GapKind == solver.Certified; polished == rough {
			t.Errorf("rough %t: polished %t", rough, polished)
		}
	}
}

// TestPathIsWarm: the fits of an automatic choice of λ start from each other, and the best one is fitted to its end.
// Fits that start from nothing do not predict the select rows better by much.
func TestPathIsWarm(t *testing.T) {
	t.Parallel()
	m := cycletest.RatingsModel(func(m *config.Model) { m.Train.Refit = "output" })
	c := newCycle(t, m)
	events := cycletest.Stream(6, 800)
	observeAll(c, events)
	losses := make(map[bool]float64)
	for _, carries := range []bool{true, false} {
		j := prepared(
			t,
			&task.Task{
				Process: task.Process{Budget: new(task.Budget), Workers: 2},
				Rough:   true,
				Carries: carries,
				Model:   m,
				Schema:  new(m.Schema.Event()),
				Choices: task.Choices{
					Given: -1,
				},
				Rows: task.Rows{
					Sample: sampleOf(events),
				},
			},
		)
		j.Judge = func(m *solver.Model) float64 { return evaluate.Loss(j.Rows.Select_, j.Target, m, nil) }
		s, err := convex.Settings(j)
		if err != nil {
			t.Fatal(err)
		}
		s.Rough = true
		lambdas, err := convex.LambdasFor(t.Context(), j, j.Rows.Problem, s)
		if err != nil || len(lambdas) < 2 {
			t.Fatalf("%d λ (%v)", len(lambdas), err)
		}
		first := make(map[float64]int) // basis vectors of its first step
		best, err := convex.WalkPath(t.Context(), j, j.Rows.Problem, lambdas, len(lambdas), s, func(c *task.Candidate) {
			if _, ok := first[c.Lambda]; !ok {
				first[c.Lambda] = c.Step.K
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if last := lambdas[len(lambdas)-1]; len(first) != len(lambdas) || first[lambdas[0]] != 0 ||
			(first[last] > 0) != carries {
			t.Errorf("carries %t: basis vectors to begin with by λ: %v", carries, first)
		}
		if best.Left {
			t.Errorf("carries %t: the best λ was left after %d steps", carries, len(best.Result.Steps))
		}
		losses[carries] = best.Loss
	}
	if !(losses[true] < 1.01*losses[false]) {
		t.Errorf("loss on the select rows %g, with each λ for itself %g", losses[true], losses[false])
	}
}
