package cycle

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestChangeBeforeTheFirstRefit: what was learned before there was a version is no variant of updates, even if a change
// was seen in it.
func TestChangeBeforeTheFirstRefit(t *testing.T) {
	tier.NotUnderRace(t)
	c, events := newCycle(t, cycletest.RatingsModel(nil)), cycletest.Stream(5, 600)
	observeAll(c, events[:500])
	c.watch.drift.Alarm = c.watch.drift.Events
	c.Install(mustRefit(t, c, sampleOf(events[:500])))
	if u, reason := c.NextUpdate(); u != nil || reason != updates.FirstUpdate {
		t.Errorf("update %v, %q", u, reason)
	}
	observeAll(c, events[500:])
	// a hundred events after nothing has changed are no matter here
	c.publisher.guard = guard.New(c.target, -1, guard.GuardSize)
	if u, reason := c.NextUpdate(); u == nil {
		t.Error(reason)
	}
}

// TestUpdatesFromBeforeAChange: after a change of all items consumers get updates that also hold the fold-in that a
// refit, most of whose rows are older, has replaced. They predict better than those without it.
func TestUpdatesFromBeforeAChange(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	events := append(cycletest.Stream(5, 4000), cycletest.Stream(77, 3000)...)
	run := func(before bool) (loss float64, held int) {
		c := newCycle(t, cycletest.RatingsModel(nil))
		for i := 0; i < len(events); i += 100 {
			if i == 4200 {
				c.watch.drift.Alarm = c.watch.drift.Events
			}
			if i > 0 && i%1000 == 0 {
				c.Install(mustRefit(t, c, sampleOf(events[:i])))
				if has := slices.ContainsFunc(c.ensemble.experts, func(
					b *experts.Expert) bool {
					return b.Name == experts.PartBefore
				}); has != (i > 4200) {
					t.Fatalf("event %d: the fold-in from before is kept: %t", i, has)
				}
				if !before {
					c.ensemble.experts = slices.DeleteFunc(c.ensemble.experts,
						func(b *experts.Expert) bool { return b.Name == experts.PartBefore })
				}
			}
			if u, _ := c.NextUpdate(); u != nil {
				if c.publisher.PublishUpdate(u); i > 5000 && !u.Again {
					if c.publisher.race.Chosen == mixture.FormBlend && c.ensemble.stacked.Has(experts.PartBefore) &&
						c.ensemble.expertOf(experts.PartBefore) != nil {
						held++
					}
				}
				if u.Model.NumOutputs != 4 || !u.Model.IsFinite() || u.Folded == nil {
					t.Fatalf("event %d: an update of %s with %d outputs", i, variants[c.publisher.race.Chosen].name,
						u.Model.NumOutputs)
				}
			}
			had := c.progress.progressive.Sums.All[evaluate.Published]
			observeAll(c, events[i:i+100])
			if i >= 5000 {
				loss += c.progress.progressive.Sums.All[evaluate.Published].Square - had.Square
			}
		}
		return loss, held
	}
	with, made := run(true)
	without, other := run(false)
	if !(with < without) || made == 0 || other > 0 {
		t.Errorf("published loss %.1f with the fold-in from before in %d updates, %.1f without it (%d)", with, made,
			without, other)
	}
}
