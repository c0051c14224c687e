package refit_test

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestSideFieldsDoNoHarm: fields that are functions of user and item but say nothing of the label cost next to nothing,
// for what consumers have, known users and new ones alike, over several warm refits.
func TestSideFieldsDoNoHarm(t *testing.T) {
	tier.NotUnderRace(t)
	run := func(m *config.Model, events []event.Event) (known, fresh float64) {
		c := newCycle(t, m)
		for to := 1500; to <= 6000; to += 1500 {
			observeAll(c, events[to-1500:to])
			c.Install(mustRefit(t, c, sampleOf(events[:to])))
		}
		champion := c.Champion()
		scorer, outputs := fitted.NewScorer(champion.Model, champion.Vocabulary), make([]float64, champion.Target.Outputs())
		for i := range events[6000:] {
			ev := events[6000+i]
			scorer.Outputs(outputs, &ev)
			known += cycletest.Squared(champion.Target.Clip(champion.Target.Value(outputs))-ev.Label) / 1000
			ev.Categorical = append([]string{"nobody"}, ev.Categorical[1:]...)
			scorer.Outputs(outputs, &ev)
			fresh += cycletest.Squared(champion.Target.Clip(champion.Target.Value(outputs))-ev.Label) / 1000
		}
		return known, fresh
	}
	two, twoFresh := run(cycletest.RatingsModel(nil), cycletest.Stream(9, 7000))
	all, allFresh := run(sideModel(nil), withSides(cycletest.Stream(9, 7000)))
	t.Logf("squared error of known and new users: two fields %.3f %.3f, with side fields %.3f %.3f", two, twoFresh, all,
		allFresh)
	if all > 1.1*two || allFresh > 1.1*twoFresh {
		t.Errorf("squared error of known and new users: two fields %.3f %.3f, with side fields %.3f %.3f", two,
			twoFresh, all, allFresh)
	}
}
