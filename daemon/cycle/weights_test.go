package cycle

import (
	"fmt"
	"math"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// TestHeavyEventCountsAsOthers: an event of the largest weight whose label is wrong changes what is live for its user
// and item no more than a few events do, after a restart too, and is counted. The event keeps its weight.
func TestHeavyEventCountsAsOthers(t *testing.T) {
	m := cycletest.RatingsModel(func(m *config.Model) { m.Schema.Weight = "w" })
	run := func(weight float64, all func(c *Cycle, events []event.Event)) (c *Cycle, loss float64) {
		events := cycletest.Stream(23, 3000)
		events[2400].Weight, events[2400].Label = weight, 6-events[2400].Label
		c = newCycle(t, m)
		observeAll(c, events[:2000])
		c.Install(mustRefit(t, c, sampleOf(events[:2000])))
		all(c, events[2000:2800])
		if events[2400].Weight != weight {
			t.Errorf("the event has a weight of %g after it was observed", events[2400].Weight)
		}
		outputs := make([]float64, c.target.Outputs())
		targets := make([]float64, c.target.Outputs())
		n := 0
		for i := range events {
			ev := &events[i]
			if i == 2400 ||
				ev.Categorical[0] != events[2400].Categorical[0] && ev.Categorical[1] != events[2400].Categorical[1] {
				continue
			}
			c.target.Encode(targets, ev)
			c.ensemble.learner.Outputs(outputs, ev)
			loss += c.target.Judged(ev, outputs, targets)
			n++
		}
		return c, loss / float64(n)
	}
	inTurn := func(c *Cycle, events []event.Event) {
		list := make([]Observation, len(events))
		for i := range events {
			list[i] = Observation{
				Event:    &events[i],
				Learn:    true,
				Position: rows.Position{Topic: "t", Offset: int64(2000 + i)},
				Payload:  rows.AppendEvent(nil, &events[i]),
			}
		}
		c.ObserveAll(list, func(i int, value any) { t.Errorf("event %d: %v", i, value) })
	}
	again := func(c *Cycle, events []event.Event) {
		for i := range events {
			if err := c.Relearn(rows.Position{Topic: "t", Offset: int64(2000 + i)}, rows.AppendEvent(nil, &events[i]),
				false); err != nil {
				t.Error(err)
			}
		}
	}
	installed := func(c *Cycle, events []event.Event) {
		inTurn(c, events)
		c.Install(c.Champion())
	}
	for name, all := range map[string]func(*Cycle, []event.Event){"one by one": observeAll, "in turn": inTurn,
		"after a restart": again, "installed": installed} {
		_, plain := run(1, all)
		c, heavy := run(1e6, all)
		if n := c.ensemble.Outlying()["w"]; n != 1 {
			t.Errorf("%s: %d weights counted", name, n)
		}
		t.Logf("%s: loss %.4f, with a heavy event %.4f", name, plain, heavy)
		if heavy > 1.03*plain {
			t.Errorf("%s: loss %.4f, with a heavy event %.4f", name, plain, heavy)
		}
	}
}

// TestUnitOfWeights: in which unit producers give weights changes nothing of what is live: of fold-ins and of
// gradients, in turn, after a restart and where a refit is installed.
func TestUnitOfWeights(t *testing.T) {
	models := map[string]*config.Model{"ratings": cycletest.RatingsModel(func(m *config.Model) { m.Schema.Weight = "w" }),
		"numbers": ruledModel(2)}
	for _, m := range models {
		m.Schema.Weight, m.Schema.Identity = "w", "id"
	}
	for name, m := range models {
		var want []float64
		for _, unit := range []float64{1, 64, 1.0 / 128} { // powers of two: equal to the last bit
			events := cycletest.Stream(23, 2400)
			if name == "numbers" {
				events = ruled(1, 2400, 2)
			}
			for i := range events {
				events[i].Weight, events[i].Identity = unit*float64(1+i%3), fmt.Sprint("e", i)
			}
			c := newCycle(t, m)
			observeAll(c, events[:1000])
			c.Install(mustRefit(t, c, sampleOf(events[:1000])))
			observeAll(c, events[1000:1600])
			for i := 1600; i < 2000; i++ {
				if err := c.Relearn(rows.Position{Topic: "t", Offset: int64(i)}, rows.AppendEvent(nil, &events[i]),
					false); err != nil {
					t.Fatal(err)
				}
			}
			corrected := events[1900]
			corrected.Label = events[1901].Label + events[1902].Label - corrected.Label
			observeAll(c, []event.Event{corrected})
			c.Install(c.Champion())
			var got []float64
			for i := range events[2000:] {
				outputs := make([]float64, c.target.Outputs())
				c.ensemble.learner.Outputs(outputs, &events[2000+i])
				got = append(got, outputs...)
			}
			if want == nil {
				want = got
			}
			for i := range got {
				if !(math.Abs(got[i]-want[i]) <= 1e-9*(1+math.Abs(want[i]))) {
					t.Fatalf("%s, unit %g: event %d is %g, by weights of about 2 %g", name, unit, i, got[i], want[i])
				}
			}
		}
	}
}
