package cycle

import (
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestAlarmsAreReported: alarms are reported by group with the events since, and outlive a restart with the progressive
// sums; each is taken once.
func TestAlarmsAreReported(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	events := cycletest.Stream(3, 120)
	observeAll(c, events[:100])
	if d := c.Progressive().Drift; d != nil {
		t.Fatalf("drift %+v without an alarm", d)
	}
	c.alarmed(drift.Alarm{DriftAlarm: drift.DriftAlarm{Group: "item"}, Field: 1}, &event.Event{Time: 1_700_000_000_000})
	c.alarmed(drift.Alarm{DriftAlarm: drift.DriftAlarm{Group: "user"}, Field: 0}, &event.Event{})
	observeAll(c, events[100:110])
	c.alarmed(drift.Alarm{DriftAlarm: drift.DriftAlarm{Group: "user"}, Field: 0}, &event.Event{})
	observeAll(c, events[110:])
	if taken := c.watch.DriftAlarms(); len(taken) != 3 || taken[0].Group != "item" || taken[2].Group != "user" ||
		len(c.watch.DriftAlarms()) != 0 {
		t.Errorf("alarms %+v", taken)
	}
	sums, err := c.progress.Sums()
	if err != nil {
		t.Fatal(err)
	}
	again := newCycle(t, cycletest.RatingsModel(nil))
	if err := again.progress.Restore(sums); err != nil {
		t.Fatal(err)
	}
	for _, of := range []*Cycle{c, again} {
		d := of.Progressive().Drift
		if len(d) != 2 || d[0].Group != "item" || d[0].Alarms != 1 || d[0].EventsAgo != 20 ||
			d[0].EventTime != "2023-11-14T22:13:20Z" ||
			d[1].Group != "user" || d[1].Alarms != 2 || d[1].EventsAgo != 10 ||
			d[1].EventTime != "" {
			t.Errorf("drift %+v", d)
		}
	}
}

// TestLossesOfClasses: a model of numbers alone has an alarm of the group of losses when classes come at random, and
// none before.
func TestLossesOfClasses(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	const moved, n = 12_000, 15_000
	m := chessModel("")
	c, events := newCycle(t, m), chess(9, n, 1, true)
	r := rand.New(rand.NewPCG(16, 3))
	// as if it had learned for a while
	c.watch.drift.Detectors[0].(*drift.Losses).Calm = -drift.LossBlock * drift.LossReference
	for i := moved; i < n; i++ {
		events[i].Classes[0] = m.Schema.Classes[r.IntN(2)]
	}
	observeAll(c, events[:moved/2])
	c.Install(mustRefit(t, c, sampleOf(events[:moved/2])))
	observeAll(c, events[moved/2:moved])
	if alarms := c.watch.DriftAlarms(); len(alarms) > 0 {
		t.Fatalf("alarms %+v before anything has changed", alarms)
	}
	observeAll(c, events[moved:])
	alarms := c.watch.DriftAlarms()
	if len(alarms) != 1 || alarms[0].Group != drift.DriftLosses || alarms[0].Event > moved+2000 {
		t.Errorf("alarms %+v", alarms)
	}
	if d := c.Progressive().Drift; len(d) != 1 || d[0].Group != drift.DriftGroups(m)[0] {
		t.Errorf("drift %+v", d)
	}
	if groups := drift.DriftGroups(cycletest.RatingsModel(nil)); len(groups) != 2 || groups[0] == drift.DriftLosses {
		t.Errorf("groups of a model of names: %v", groups)
	}
}

// TestDriftOfLaterLabels: where labels come later, losses count once they are final. A change raises an alarm then, not
// when its events are shown, and learning labels out of order raises none.
func TestDriftOfLaterLabels(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	const first, moved, late, n = 3000, 14_000, 500, 19_000
	m := cycletest.RatingsModel(func(m *config.Model) { m.Schema.LabelLater, m.Train.MaxBasis = true, 2 })
	c, events := newCycle(t, m), cycletest.Stream(9, n)
	r := rand.New(rand.NewPCG(16, 3))
	for i := moved; i < n; i++ {
		events[i].Label = float64(1 + r.IntN(5))
	}
	said := make([]Said, n)
	observe := func(from, to int) {
		for i := from; i < to; i++ {
			at := rows.Position{Topic: "t", Offset: int64(i)}
			shown := events[i]
			shown.Label = 1
			run := []Observation{{Event: &shown, Position: at, Stage: Shown, Said: &said[i]}}
			if i >= 100 && events[i-100].Label > 3 { // what came is learned at once
				run = append(run, Observation{Event: &events[i-100], Learn: true, Position: at, Stage: Joined})
			}
			if k := i - late; k >= 0 {
				run = append(run, Observation{Event: &events[k], Learn: events[k].Label <= 3, Position: at, Stage: Final,
					Said: &said[k]})
			}
			c.ObserveAll(run, func(_ int, fault any) { t.Fatal(fault) })
		}
	}
	observe(0, first)
	c.Install(mustRefit(t, c, sampleOf(events[:first])))
	observe(first, first+late)
	// as if it had learned for a while
	*c.watch.drift.Detectors[0].(*drift.Losses) = drift.Losses{Calm: -drift.LossBlock * drift.LossReference}
	observe(first+late, moved+late)
	if alarms := c.watch.DriftAlarms(); len(alarms) > 0 {
		t.Fatalf("alarms %+v before the labels of what has changed are final", alarms)
	}
	observe(moved+late, n)
	alarms := c.watch.DriftAlarms()
	if len(alarms) != 1 || alarms[0].Group != drift.DriftLosses || alarms[0].Event < moved ||
		alarms[0].Event > moved+4000 {
		t.Errorf("alarms %+v", alarms)
	}
	if groups := drift.DriftGroups(m); len(groups) != 1 || groups[0] != drift.DriftLosses {
		t.Errorf("groups %v", groups)
	}
}
