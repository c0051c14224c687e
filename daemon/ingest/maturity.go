package ingest

import (
	"math"

	"github.com/refitd/refitd/daemon/config"
)

// maturity is how the outcomes of open events come: the distribution of their delays, and how many events have any. It
// is fitted to the events that are open and to the last ones that were.
type maturity struct {
	config *config.Model
	fit    delays
	rate   float64 // share of the events that have an outcome
	joins  int     // since it was fitted
	ended  []float64
	at     int // of ended, the oldest; it is a ring of the delays of events whose window is over, -1 without an outcome
}

// How many events whose window is over count, and after how many joins the distribution is fitted again: at least
// these, or a share of the events that are open. Chosen by hand.
const (
	maturityEvents = 8192
	maturityEvery  = 256
	maturityShare  = 8
)

func newMaturity(m *config.Model) *maturity {
	c := &maturity{config: m, rate: -1}
	c.fit.window = float64(m.Input.Outcomes.Window.Std().Milliseconds())
	return c
}

// closed takes up an event whose label is final.
func (c *maturity) closed(of Label) {
	delay := -1.0
	if of.Counted > 0 {
		delay = float64(of.Delay)
		c.joins++
	}
	if len(c.ended) < maturityEvents {
		c.ended = append(c.ended, delay)
		return
	}
	c.ended[c.at] = delay
	c.at = (c.at + 1) % maturityEvents
}

// refit fits the distribution to what is known now.
func (c *maturity) refit(o *openEvents) {
	next, now, all := delays{window: c.fit.window}, o.clock(), 0
	var ages []float64
	for _, e := range o.due {
		if e.gone || e.payload == nil {
			continue
		}
		age := min(max(float64(now-e.time), 0), next.window)
		ages = append(ages, age)
		if of := LabelOf(o.model, e.time, e.outcomes); of.Counted > 0 {
			all++
			next.add(float64(of.Delay), max(age, float64(of.Delay)))
		}
	}
	for _, delay := range c.ended {
		if ages = append(ages, next.window); delay >= 0 {
			all++
			next.add(delay, next.window)
		}
	}
	next.fit()
	expected := 0.0
	for _, a := range ages {
		expected += next.come(a)
	}
	c.fit, c.joins = next, 0
	c.rate = min(float64(all)/max(expected, 1), 1)
}

// age returns the age at which a default is learned that is drawn, in [0, 1): where encode.OpenWeight is that.
//
//	share·(1 - chance)/(1 - chance·share) = drawn
func (c *maturity) age(o *openEvents, drawn, chance float64) int64 {
	if c.joins >= max(maturityEvery, len(o.due)/maturityShare) {
		c.refit(o)
	}
	if chance < 0 {
		chance = max(c.rate, 0)
	}
	share := drawn / max((1-chance)+chance*drawn, math.SmallestNonzeroFloat64)
	if len(c.fit.at) == 0 {
		return int64(share * c.fit.window)
	}
	return int64(min(c.fit.quantile(share), c.fit.window))
}
