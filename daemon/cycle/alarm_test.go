package cycle

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestAlarmsAreTold: alarms are told by group, count events since, and outlive a restart with the progressive sums; each is taken once.
func TestAlarmsAreTold(t *testing.T) {
	c := newCycle(t, ratingsModel(nil))
	events := stream(3, 120)
	observeAll(c, events[:100])
	if d := c.Progressive().Drift; d != nil {
		t.Fatalf("drift %+v without an alarm", d)
	}
	c.alarmed("item", &event.Event{Time: 1_700_000_000_000})
	c.alarmed("user", &event.Event{})
	observeAll(c, events[100:110])
	c.alarmed("user", &event.Event{})
	observeAll(c, events[110:])
	if taken := c.DriftAlarms(); len(taken) != 3 || taken[0].Group != "item" || taken[2].Group != "user" || len(c.DriftAlarms()) != 0 {
		t.Errorf("alarms %+v", taken)
	}
	sums, err := c.Sums()
	if err != nil {
		t.Fatal(err)
	}
	again := newCycle(t, ratingsModel(nil))
	if err := again.Restore(sums); err != nil {
		t.Fatal(err)
	}
	for _, of := range []*Cycle{c, again} {
		d := of.Progressive().Drift
		if len(d) != 2 || d[0].Group != "item" || d[0].Alarms != 1 || d[0].EventsAgo != 20 || d[0].EventTime != "2023-11-14T22:13:20Z" ||
			d[1].Group != "user" || d[1].Alarms != 2 || d[1].EventsAgo != 10 || d[1].EventTime != "" {
			t.Errorf("drift %+v", d)
		}
	}
}
