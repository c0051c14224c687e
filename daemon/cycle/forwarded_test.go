package cycle

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/report"
)

// forwardTo has a cycle observe events of partition 0 of topic t from an offset on.
func forwardTo(c *Cycle, from int64, events []event.Event) {
	for i := range events {
		ev := events[i]
		c.Observe(&ev, true, rows.Position{Topic: "t", Offset: from + int64(i)}, rows.AppendEvent(nil, &events[i]), nil)
	}
}

// TestForwardedLearnsAsOne: a cycle of forwarded events learns what one learns that reads them, to the bit, while none
// of them is in a refit before.
func TestForwardedLearnsAsOne(t *testing.T) {
	events := cycletest.Stream(3, 3000)
	run := func(forwarded bool) *Cycle {
		c := newCycle(t, cycletest.RatingsModel(nil))
		c.Forwarded = forwarded
		forwardTo(c, 0, events[:2000])
		c.Install(mustRefit(t, c, sampleOf(events[:1800])))
		forwardTo(c, 2000, events[2000:])
		c.Reach([]report.Cut{{Topic: "t", Next: 3000}}, 0)
		return c
	}
	one, team := run(false), run(true)
	if a, b := *one.Progressive().All.Live.RMSE, *team.Progressive().All.Live.RMSE; a != b {
		t.Errorf("forwarded events have a live loss of %v, those that are read %v", b, a)
	}
	u, v := one.Update(), team.Update()
	for i, weight := range u.Model.Basis {
		if v.Model.Basis[i] != weight {
			t.Fatalf("weight %d of the live model is %v, of one process %v", i, v.Model.Basis[i], weight)
		}
	}
}

// TestForwardedAfterItsRefit: an event that a refit has before it is forwarded is scored and not learned again, until
// the topic is another one of its name.
func TestForwardedAfterItsRefit(t *testing.T) {
	events := cycletest.Stream(3, 2500)
	c := newCycle(t, cycletest.RatingsModel(nil))
	c.Forwarded = true
	forwardTo(c, 0, events[:1500])
	c.Install(mustRefit(t, c, sampleOf(events[:2000])))
	if known, _ := c.lineage.Known(); len(known) != 1 || known[0].Next != 2000 {
		t.Fatalf("known up to %v", known)
	}
	levels := func() (sum float64) {
		for _, w := range c.Update().Model.Basis {
			sum += w
		}
		return sum
	}
	scored, before := c.Progressive().N, levels()
	forwardTo(c, 1500, events[1500:2000])
	if after := levels(); after != before {
		t.Errorf("events of the refit were learned again: %v, before %v", after, before)
	}
	if n := c.Progressive().N; n != scored+500 {
		t.Errorf("%d events are scored, want %d", n, scored+500)
	}
	err := c.Relearn(rows.Position{Topic: "t", Offset: 1900}, rows.AppendEvent(nil, &events[1900]), false)
	if err != nil || levels() != before {
		t.Errorf("an event of the refit was learned again after a restart: %v", err)
	}
	forwardTo(c, 2000, events[2000:2010])
	if levels() == before {
		t.Error("what came after the refit was not learned")
	}
	before = levels()
	c.lineage.Recreated("t", 0)
	forwardTo(c, 0, events[2010:2020])
	if levels() == before {
		t.Error("events of the topic that was made again were not learned")
	}
}
