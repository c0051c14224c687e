package cycle

import (
	"encoding/json"
	"math"
	"runtime"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// linesThenBoxes draws events of numbers whose label is a line in them and a product, and from an event on which of
// four boxes they are in.
func linesThenBoxes(n, change int) (*config.Model, []event.Event) {
	m, events := numberEvents(7, 0, n)
	for i := change; i < n; i++ {
		x, y := events[i].Numeric, 2.0
		if math.Abs(x[0]) < 0.7 != (math.Abs(x[1]) < 0.7) {
			y = -2
		}
		events[i].Label = y + 0.1*x[2]
	}
	return m, events
}

// asleep returns which experts sleep.
func asleep(c *Cycle) (names []string) {
	for _, p := range c.Progressive().Parts {
		if p.Asleep {
			names = append(names, p.Name)
		}
	}
	return names
}

// TestExpertsSleepAndWake: experts on which no prediction depends fall asleep, at no cost in loss. Within
// SleepCheck·(sleepChecks+1) events of a change that needs them they are awake, and what is live is then as good as
// where none has slept.
func TestExpertsSleepAndWake(t *testing.T) {
	const change, back = 5 * 1024, 33 * mixture.SleepCheck
	m, events := linesThenBoxes(change+back+2000, change)
	whole, _ := linesThenBoxes(0, 0)
	whole.Without = []string{experts.ChoiceSleep}
	with, without := newCycle(t, m), newCycle(t, whole)
	losses := func(c *Cycle) float64 {
		w := c.progress.progressive.Window()
		return w[evaluate.Live].Judged(true)
	}
	for _, c := range []*Cycle{with, without} {
		observeRuns(c, events[:change], 700)
	}
	if got := asleep(with); len(got) != 2 {
		t.Errorf("after %d lines %v sleep", change, got)
	}
	if a, b := losses(with), losses(without); a > 1.001*b {
		t.Errorf("lines: loss %v, without sleep %v", a, b)
	}
	for _, c := range []*Cycle{with, without} {
		observeRuns(c, events[change:change+back], 700)
	}
	slept := with.SleptEvents()
	if got := asleep(with); len(got) > 0 || slept == 0 {
		t.Errorf("%d events after the change %v still sleep, %d events slept through", back, got, slept)
	}
	tail := func(c *Cycle) float64 {
		c.progress.StartTail()
		observeRuns(c, events[change+back:], 700)
		return float64(*c.progress.Tail().Live.RMSE)
	}
	if a, b := tail(with), tail(without); a > 1.005*b {
		t.Errorf("after the change: RMSE %v, without sleep %v", a, b)
	}
	if without.SleptEvents() > 0 || len(asleep(without)) > 0 {
		t.Error("experts sleep where that is left out")
	}
}

// TestSleepIsTheSameInRuns: experts fall asleep and wake at the same events however many are observed at once, by one
// processor or several, and when a drift alarm comes.
func TestSleepIsTheSameInRuns(t *testing.T) {
	m, events := linesThenBoxes(6200, 5000)
	run := func(length, processors int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		c := newCycle(t, m)
		observeRuns(c, events[:4900], length)
		sleeping := len(asleep(c)) > 0
		c.ensemble.sleep.alarmed = true
		observeRuns(c, events[4900:], length)
		out, err := json.Marshal([]any{c.Progressive(), c.SleptEvents(), sleeping})
		if err != nil {
			t.Fatal(err)
		}
		if !sleeping || len(asleep(c)) > 0 {
			t.Fatalf("asleep before the alarm: %v, after it %v", sleeping, asleep(c))
		}
		return string(out)
	}
	want := run(1, 1)
	for _, length := range []int{40, 700} {
		if got := run(length, 4); got != want {
			t.Fatalf("runs of %d:\n%s\none by one:\n%s", length, got, want)
		}
	}
}
