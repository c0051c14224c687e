package refit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit/choose"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
)

// growingModel is a model of two names and a number.
func growingModel() *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) {
		m.Schema = config.Schema{
			Task:        "regression",
			Label:       "wear",
			TimeUnit:    "ms",
			Categorical: []string{"user", "item"},
			Numeric:     []string{"km"},
		}
	})
}

// grown draws events with a number around a level that grows by perEvent, one in outliers of which is a million times
// too large, and whose label is a twentieth of the number without that, something of names, and noise of 0.5.
func grown(seed uint64, n int, perEvent float64, outliers int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 24))
	events := make([]event.Event, n)
	for i := range events {
		user, item, x := r.IntN(20), r.IntN(20), 100+perEvent*float64(i)+10*r.NormFloat64()
		y := 0.05*x + 0.3*float64(user%5) + 0.5*r.NormFloat64()
		if outliers > 0 && i%outliers == 7 {
			x *= 1e6
		}
		events[i] = event.Event{
			Weight:      1,
			Time:        int64(i),
			Categorical: []string{fmt.Sprint("u", user), fmt.Sprint("i", item)},
			Numeric:     []float64{x},
			Label:       y,
		}
	}
	return events
}

// rmseOf returns that of what a version predicts of events.
func rmseOf(ch *fitted.Fitted, events []event.Event) float64 {
	s, out, sum := fitted.NewScorer(ch.Model, ch.Vocabulary), make([]float64, 1), 0.0
	for i := range events {
		s.Outputs(out, &events[i])
		sum += (out[0] - events[i].Label) * (out[0] - events[i].Label)
	}
	return math.Sqrt(sum / float64(len(events)))
}

// TestNumbersBeyondTheRange: after a number has grown beyond the range of the first version, the next one has wider
// limits of it, also where one in 500 is an outlier. Where the number does not grow, outliers are still clipped to the
// range.
func TestNumbersBeyondTheRange(t *testing.T) {
	for _, test := range []struct {
		name     string
		perEvent float64
		outliers int
		far      bool
	}{{"grows", 0.1, 0, true}, {"grows, with outliers", 0.1, 500, true}, {"stays, with outliers", 0, 50, false}} {
		events := grown(1, 4000, test.perEvent, test.outliers)
		c := newCycle(t, growingModel())
		var ch *fitted.Fitted
		for _, n := range []int{1500, 3000} {
			observeAll(c, events[n-1500:n])
			ch = mustRefit(t, c, withAges(events[:n]))
			c.Install(ch)
			if f := ch.Vocabulary.Numeric[0]; (f.Clip > encode.NumericClip) != (test.far && n == 3000) {
				t.Errorf("%s, %d events: limit %g", test.name, n, f.Clip)
			}
		}
		later := events[3000:]
		if test.outliers > 0 { // what is asked for is what the others have
			later = nil
			for _, ev := range events[3000:] {
				if ev.Numeric[0] < 1e6 {
					later = append(later, ev)
				}
			}
		}
		if rmse := rmseOf(ch, later); rmse > 0.65 {
			t.Errorf("%s: RMSE %.3f of the thousand events after it, the noise is 0.5", test.name, rmse)
		}
	}
}

// TestNumbersStopAgain: the limits of a number are widened no longer where events beyond the range are predicted worse
// with them.
func TestNumbersStopAgain(t *testing.T) {
	events := grown(2, 4500, 0.1, 0)
	for i := range events[3000:] { // the label follows no longer
		ev := &events[3000+i]
		ev.Label -= 0.05 * (ev.Numeric[0] - 400)
	}
	c := newCycle(t, growingModel())
	var far []bool
	for n := 1500; n <= 4500; n += 1500 {
		ch := mustRefit(t, c, withAges(events[:n]))
		c.Install(ch)
		far = append(far, ch.Vocabulary.Numeric[0].Clip > encode.NumericClip)
	}
	if want := []bool{false, true, false}; !slices.Equal(far, want) {
		t.Errorf("wider limits: %t, want %t", far, want)
	}
}

// TestNumbersBeyondAreRepeated: a refit that chose the limit is repeated from its record, which has no champion to
// choose it by.
func TestNumbersBeyondAreRepeated(t *testing.T) {
	m := growingModel()
	m.Publish.KeepSample = true
	events := grown(3, 1200, 0.25, 0)
	c := newCycle(t, m)
	for _, n := range []int{600, 1200} {
		ch := mustRefit(t, c, withAges(events[:n]))
		if f := ch.Vocabulary.Numeric[0]; n == 1200 && f.Clip != choose.FarLimits[0] {
			t.Fatalf("limit %g", f.Clip)
		}
		repeated(t, ch, m, 1)
		c.Install(ch)
	}
}

// TestLimitsOfAnotherChampion: a champion of other outputs, or of another number of numbers, as a changed schema leaves
// one, is asked for no predictions of events beyond its range: the limits are those of a first refit.
func TestLimitsOfAnotherChampion(t *testing.T) {
	classes := []string{"low", "mid", "high"}
	for _, test := range []struct {
		name   string
		change func(*config.Model)
		edit   func(*event.Event)
		want   float64
	}{
		{"the same outputs", func(*config.Model) {}, func(*event.Event) {}, choose.FarLimits[0]},
		{"three classes", func(m *config.Model) {
			m.Schema.Task, m.Schema.Classes, m.Train.Loss = "multiclass", classes, "mlogistic"
		}, func(ev *event.Event) { ev.Classes = []string{classes[int(ev.Time)%3]} }, encode.NumericClip},
		{"two numbers", func(m *config.Model) { m.Schema.Numeric = []string{"km", "age"} },
			func(ev *event.Event) { ev.Numeric = []float64{ev.Numeric[0], ev.Numeric[0]} }, encode.NumericClip},
	} {
		old, m, events := growingModel(), growingModel(), grown(3, 1200, 0.25, 0)
		test.change(old)
		old.Resolve()
		before := slices.Clone(events[:600])
		for i := range before {
			test.edit(&before[i])
		}
		j := &task.Task{
			Process: task.Process{Budget: new(task.Budget)},
			Model:   m,
			Schema:  new(m.Schema.Event()),
			Start:   task.Start{Champion: mustRefit(t, newCycle(t, old), withAges(before))},
			Rows: task.Rows{
				Sample: withAges(events),
			},
		}
		var train []event.Event
		for i := range events {
			if i%10 > 1 { // the rest is held out
				train = append(train, events[i])
			}
		}
		var err error
		if j.Target, err = encode.NewTarget(m, encode.ClassesOf(train)); err != nil {
			t.Fatal(err)
		}
		if got := choose.Limits(j, train); !slices.Equal(got, []float64{test.want}) {
			t.Errorf("a champion of %s: limits %v, want %g", test.name, got, test.want)
		}
	}
}
