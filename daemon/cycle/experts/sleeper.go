package experts

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// ChoiceSleep is the name under which a backtest leaves out that experts sleep: then all of them predict every event.
const ChoiceSleep = "sleep"

// Sleeper is a learner that may sleep while no prediction depends on it: it keeps events and predicts none. No update
// is made of one that is asleep.
type Sleeper interface {
	Learner
	// Keep takes up an event that it has not predicted, in the place of Gather and Learn.
	Keep(ev *event.Event, targets []float64, weight float64)
	// Wake makes it ready to predict from what it has kept.
	Wake()
}

// MaySleep reports whether the learner is one that may sleep.
func (c *Expert) MaySleep() bool {
	_, ok := c.Learner.(Sleeper)
	return ok
}

// SetAsleep has the learner, which is a Sleeper, fall asleep or wake.
func (c *Expert) SetAsleep(asleep bool) {
	if c.Asleep && !asleep {
		c.Learner.(Sleeper).Wake()
	}
	c.Asleep = asleep
}

// Keep has a learner that sleeps keep what counts of an event, whose numbers were taken up.
func (c *Expert) Keep(ev *event.Event, counts *rows.Counted) {
	if counts.IsShared() && c.Target.Encode(c.targets, ev) {
		c.Learner.(Sleeper).Keep(ev, c.targets, ev.Weight)
	}
}

// Relearn takes up and learns what counts of an event that is not to be predicted.
func (c *Expert) Relearn(ev *event.Event, counts *rows.Counted) {
	if c.Asleep {
		c.Keep(ev, counts)
		return
	}
	c.Learner.Gather(ev)
	c.Learn(ev, counts)
}

// Keep puts the event into the window. No ensemble is fitted.
func (l *Boosted) Keep(ev *event.Event, targets []float64, weight float64) {
	l.setTarget(targets)
	l.window.Add(ev.Numeric, l.given(ev), l.target, min(weight, heaviest))
	for e := range l.each {
		l.each[e].since++
	}
}

// Wake fits the ensembles that are due.
func (l *Boosted) Wake() {
	for e := range l.each {
		l.refit(e)
	}
}

// Keep puts the event into the window. No tree is built.
func (l *Neighbours) Keep(ev *event.Event, targets []float64, _ float64) {
	l.take(ev)
	copy(l.target, targets)
	l.numbers.Scale(l.target, l.scaled)
	l.store()
}

// Wake builds the trees that are due.
func (l *Neighbours) Wake() { l.build() }
