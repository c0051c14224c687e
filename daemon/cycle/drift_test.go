package cycle

import (
	"testing"

	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestNoAlarmBeforeTheFirstRefit: tests that would alarm at their next value do so only once there is a refit.
func TestNoAlarmBeforeTheFirstRefit(t *testing.T) {
	tier.NotUnderRace(t)
	c, events := newCycle(t, cycletest.RatingsModel(nil)), cycletest.Stream(5, 900)
	due := func() {
		d := c.watch.drift.Detectors[0].(*drift.Gradients)
		for f := range d.Tests {
			d.Rest[f], d.Tests[f] = 0, drift.GradientTest{
				Square: evaluate.Fading{Sum: drift.DriftFirst, N: drift.DriftFirst},
			}
			for i := range d.Tests[f].Wealth {
				d.Tests[f].Wealth[i] = drift.AlarmRate * 100
			}
		}
	}
	observeAll(c, events[:400])
	due()
	observeAll(c, events[400:600])
	if alarms := c.watch.DriftAlarms(); len(alarms) > 0 {
		t.Errorf("alarms %+v without a refit", alarms)
	}
	c.Install(mustRefit(t, c, sampleOf(events[:600])))
	due()
	observeAll(c, events[600:])
	if alarms := c.watch.DriftAlarms(); len(alarms) == 0 {
		t.Error("no alarm with a refit: the test shows nothing")
	}
}
