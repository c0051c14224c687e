package cycle

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// stationary are values whose mean, given all before, is not above the margin: alike, heavy at both ends, and in blocks of one user.
var stationary = map[string]func(r *rand.Rand, n int) float64{
	"uniform": func(r *rand.Rand, _ int) float64 { return 2*r.Float64() - 1 },
	"signs":   func(r *rand.Rand, _ int) float64 { return float64(2*r.IntN(2) - 1) },
	"at the margin": func(r *rand.Rand, _ int) float64 {
		if r.Float64() < (1+driftMargin)/2 {
			return 1
		}
		return -1
	},
	"blocks": func(r *rand.Rand, n int) float64 { // each block of one width
		return (0.1 + 0.9*math.Abs(math.Sin(float64(n/100)))) * (2*r.Float64() - 1)
	},
}

// TestNoFalseAlarms: 10^7 values without a change raise no alarm, 10^6 of each kind unless long tests are asked for.
func TestNoFalseAlarms(t *testing.T) {
	n := 1_000_000
	if tier.Asked(tier.Long) {
		n = 10_000_000
	}
	for name, value := range stationary {
		r := rand.New(rand.NewPCG(15, 1))
		var d driftTest
		for i := range n {
			if d.add(value(r, i)) {
				t.Errorf("%s: a false alarm after %d values", name, i+1)
				break
			}
		}
	}
}

// TestAlarmAfterAChange: a mean that rises to what changed names give raises an alarm soon, and values that are no numbers do not.
func TestAlarmAfterAChange(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 2))
	var d driftTest
	for i := range 20_000 {
		if d.add(2*r.Float64()-1) || d.add(math.NaN()) || d.add(math.Inf(-1)) {
			t.Fatalf("an alarm after %d values without a change", i)
		}
	}
	for i := 1; ; i++ {
		if d.add(min(1, 0.25+2*r.Float64()-1)) {
			t.Logf("an alarm %d values after the change", i)
			return
		}
		if i == 1500 {
			t.Fatal("no alarm 1,500 values after the mean has risen to a quarter")
		}
	}
}

// TestNoAlarmBeforeTheFirstRefit: tests that would alarm at their next value do so only once there is a refit.
func TestNoAlarmBeforeTheFirstRefit(t *testing.T) {
	tier.NotUnderRace(t)
	c, events := newCycle(t, ratingsModel(nil)), stream(5, 900)
	due := func() {
		for f := range c.drift.tests {
			c.drift.rest[f], c.drift.tests[f] = 0, driftTest{wealth: [4]float64{driftAlarm * 100, driftAlarm * 100, driftAlarm * 100, driftAlarm * 100}}
		}
	}
	observeAll(c, events[:400])
	due()
	observeAll(c, events[400:600])
	if alarms := c.DriftAlarms(); len(alarms) > 0 {
		t.Errorf("alarms %+v without a refit", alarms)
	}
	c.Install(refit(t, c, sampleOf(events[:600])))
	due()
	observeAll(c, events[600:])
	if alarms := c.DriftAlarms(); len(alarms) == 0 {
		t.Error("no alarm with a refit: the test shows nothing")
	}
}
