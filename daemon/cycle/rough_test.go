package cycle

import (
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// TestConvexStageIsPolishedOnce: a convex model that is published is near the optimum of its basis vectors, cold and warm, although the solves that
// found it ended further off; where the variational stage wins nothing is polished. A record of a build that polished every solve is repeated so.
func TestConvexStageIsPolishedOnce(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	m := ratingsModel(func(m *config.Model) { m.Train.Refit, m.Publish.KeepSample = "output", true })
	c := newCycle(t, m)
	events := stream(6, 1600)
	for round := range 2 {
		to := 800 * (round + 1)
		observeAll(c, events[to-800:to])
		ch := refit(t, c, sampleOf(events[:to]))
		v := &ch.Version
		if gap := float64(*v.BasisGapRelative); !(gap < 3*streamTolerance) {
			t.Errorf("round %d: %g above the optimum of its basis vectors", round, gap)
		}
		if record, err := ReadRecord(ch.Kept); err != nil || !record.start.Rough {
			t.Fatalf("round %d: record %v, error %v", round, record, err)
		}
		repeated(t, ch, m, 2)
		v.Version = int64(round + 1)
		c.Install(ch)
	}

	c = newCycle(t, ratingsModel(nil))
	observeAll(c, events[:800])
	first := refit(t, c, sampleOf(events[:800]))
	first.Version.Version = convexAgain // the convex stage is not left out after it
	c.Install(first)
	for _, rough := range []bool{true, false} {
		j := prepared(t, &refitJob{given: -1, rough: rough, model: c.config, schema: &c.schema, champion: first, workers: 1, sample: sampleOf(events)})
		best, fit, err := j.stages(t.Context(), j.continuing(j.vocab))
		if err != nil || fit == nil || fit.loss > best.loss {
			t.Fatalf("candidate %+v, stage %+v, error %v: want the variational stage to win", best, fit, err)
		}
		if polished := best.result.GapKind == solver.Certified; polished == rough {
			t.Errorf("rough %t: polished %t", rough, polished)
		}
	}
}

// TestPathGoesOn: the λ of an automatic choice go on from each other and the best one to its end, in a refit each is for itself, and neither
// predicts the select rows better by much.
func TestPathGoesOn(t *testing.T) {
	t.Parallel()
	c := newCycle(t, ratingsModel(func(m *config.Model) { m.Train.Refit = "output" }))
	events := stream(6, 800)
	observeAll(c, events)
	losses := make(map[bool]float64)
	for _, carries := range []bool{true, false} {
		j := prepared(t, &refitJob{given: -1, rough: true, carries: carries, model: c.config, schema: &c.schema, workers: 2, sample: sampleOf(events)})
		j.judge = func(m *solver.Model) float64 { return j.select_.loss(j.target, m, nil) }
		s, err := j.settings()
		if err != nil {
			t.Fatal(err)
		}
		s.Rough = true
		lambdas, err := j.lambdasFor(t.Context(), j.problem, s)
		if err != nil || len(lambdas) < 2 {
			t.Fatalf("%d λ (%v)", len(lambdas), err)
		}
		first := make(map[float64]int) // basis vectors of its first step
		best, err := j.walkPath(t.Context(), j.problem, lambdas, len(lambdas), s, func(c *candidate) {
			if _, ok := first[c.lambda]; !ok {
				first[c.lambda] = c.step.K
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if last := lambdas[len(lambdas)-1]; len(first) != len(lambdas) || first[lambdas[0]] != 0 || (first[last] > 0) != carries {
			t.Errorf("carries %t: basis vectors to begin with by λ: %v", carries, first)
		}
		if best.left {
			t.Errorf("carries %t: the best λ was left after %d steps", carries, len(best.result.Steps))
		}
		losses[carries] = best.loss
	}
	if !(losses[true] < 1.01*losses[false]) {
		t.Errorf("loss on the select rows %g, with each λ for itself %g", losses[true], losses[false])
	}
}
