package cycle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// TestWeightLimit: weights that a hundredth of the rows have count in full, others as at most √n times the mean. Units do not matter.
func TestWeightLimit(t *testing.T) {
	draw := func(n, heavy int, weight float64) []float64 {
		w := slices.Repeat([]float64{1}, n)
		for i := range heavy {
			w[i*7%n] = weight
		}
		return w
	}
	r := rand.New(rand.NewPCG(1, 1))
	var tails []float64
	for range 20_000 {
		tails = append(tails, math.Exp(1.5*r.NormFloat64()))
	}
	for _, c := range []struct {
		name      string
		weights   []float64
		low, high float64
	}{
		{"too few to tell", draw(9, 1, 1e6), 0, 0},
		{"all alike", draw(10_000, 0, 0), 100, 100},
		{"one of the largest", draw(10_000, 1, 1e6), 100, 100},
		{"one among few", draw(20, 1, 1e6), 4, 5},
		{"four among few", draw(20, 4, 1e6), 4, 5},
		{"a class of one in 200 that counts 100 times", draw(10_000, 50, 100), 100, 1000},
		{"a class of one in 50 that counts 1,000 times", draw(10_000, 200, 1000), 1000, math.Inf(1)},
		{"as heavy as they come, one in 200", draw(10_000, 50, 1e6), 100, 100},
		{"with tails", tails, 300, 600},
	} {
		if got := WeightLimit(c.weights, nil); got < c.low || got > c.high {
			t.Errorf("%s: %g, want %g to %g", c.name, got, c.low, c.high)
		}
		for i := range c.weights {
			c.weights[i] *= 0.125
		}
		if got := WeightLimit(c.weights, nil); got < c.low*0.125 || got > c.high*0.125 {
			t.Errorf("%s, in another unit: %g", c.name, got)
		}
	}
	// In a sample by weight nearly all rows are heavy ones, of which each is for one event, and a light one is for thousands.
	weights, counts := draw(100, 60, 1e6), slices.Repeat([]float64{1}, 100)
	for i, w := range weights {
		if w == 1 {
			counts[i] = 5000
		}
	}
	if got := WeightLimit(weights, counts); math.Abs(got-10) > 1e-9 {
		t.Errorf("of a sample by weight: %g", got)
	}
}

// TestHeavyEventCountsAsOthers: an event of the largest weight whose label is wrong changes what is live for its user and item no more than a few events
// do, after a restart too, and is counted. The event keeps its weight.
func TestHeavyEventCountsAsOthers(t *testing.T) {
	m := ratingsModel(func(m *config.Model) { m.Schema.Weight = "w" })
	run := func(weight float64, all func(c *Cycle, events []event.Event)) (c *Cycle, loss float64) {
		events := stream(23, 3000)
		events[2400].Weight, events[2400].Label = weight, 6-events[2400].Label
		c = newCycle(t, m)
		observeAll(c, events[:2000])
		c.Install(refit(t, c, sampleOf(events[:2000])))
		all(c, events[2000:2800])
		if events[2400].Weight != weight {
			t.Errorf("the event has a weight of %g after it was observed", events[2400].Weight)
		}
		outputs := make([]float64, c.target.Outputs())
		targets := make([]float64, c.target.Outputs())
		n := 0
		for i := range events {
			ev := &events[i]
			if i == 2400 || ev.Categorical[0] != events[2400].Categorical[0] && ev.Categorical[1] != events[2400].Categorical[1] {
				continue
			}
			c.target.Encode(targets, ev)
			c.learner.outputs(outputs, ev)
			loss += c.target.Judged(ev, outputs, targets)
			n++
		}
		return c, loss / float64(n)
	}
	inTurn := func(c *Cycle, events []event.Event) {
		list := make([]Observation, len(events))
		for i := range events {
			list[i] = Observation{Event: &events[i], Learn: true, Position: Position{Topic: "t", Offset: int64(2000 + i)}, Payload: AppendEvent(nil, &events[i])}
		}
		c.ObserveAll(list, func(i int, value any) { t.Errorf("event %d: %v", i, value) })
	}
	again := func(c *Cycle, events []event.Event) {
		for i := range events {
			if err := c.Relearn(Position{Topic: "t", Offset: int64(2000 + i)}, AppendEvent(nil, &events[i]), false); err != nil {
				t.Error(err)
			}
		}
	}
	installed := func(c *Cycle, events []event.Event) {
		inTurn(c, events)
		c.Install(c.Champion())
	}
	for name, all := range map[string]func(*Cycle, []event.Event){"one by one": observeAll, "in turn": inTurn, "after a restart": again, "installed": installed} {
		_, plain := run(1, all)
		c, heavy := run(1e6, all)
		if n := c.Outlying()["w"]; n != 1 {
			t.Errorf("%s: %d weights counted", name, n)
		}
		t.Logf("%s: loss %.4f, with a heavy event %.4f", name, plain, heavy)
		if heavy > 1.03*plain {
			t.Errorf("%s: loss %.4f, with a heavy event %.4f", name, plain, heavy)
		}
	}
}
