package refit_test

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// cubics are models of degree 3 by Algorithm 1, of names and of numbers.
var cubics = []stage{
	{
		"names",
		func() *config.Model { return cycletest.By(sideModel(nil), config.ConditionalGradient, 3) },
		func(n int) []event.Event { return withSides(cycletest.Stream(6, n)) },
	},
	{
		"numbers",
		func() *config.Model { return cycletest.By(switchModel(), config.ConditionalGradient, 3) },
		func(n int) []event.Event { return cycletest.Numbers(9, n) },
	},
}

// TestCubicRefitIsRepeated: a refit of degree 3, cold or warm, publishes what Algorithm 1 fitted with a gap that it
// calls estimated, is repeated to the same payload, and outlives a restart.
func TestCubicRefitIsRepeated(t *testing.T) {
	tier.NotUnderRace(t)
	for _, s := range cubics {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.isRepeated(t, func(ch *fitted.Fitted) {
				v := &ch.Version
				if ch.Model.Kernel.Degree() != 3 || v.Form != "convex" || v.Sweeps != 0 ||
					v.GapKind != string(solver.Estimated) ||
					v.Gap == nil {
					t.Errorf("version of degree %d, form %s after %d sweeps, gap %v (%s)", ch.Model.Kernel.Degree(),
						v.Form, v.Sweeps, v.Gap, v.GapKind)
				}
			})
			quadratic := cycletest.By(s.model(), config.ConditionalGradient, 2)
			restoresCheckpoint(t, s.model(), quadratic, s.events(tier.Size(400, 1200)))
		})
	}
}
