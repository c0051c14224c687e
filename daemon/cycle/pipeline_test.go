package cycle

import (
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/drift"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// observeRuns observes events in runs of a length by ObserveAll, some of them scored alone, and returns those that
// panicked.
func observeRuns(c *Cycle, events []event.Event, length int) (panicked []int) {
	for from := 0; from < len(events); from += length {
		var run []Observation
		for i := from; i < min(from+length, len(events)); i++ {
			run = append(run, observationOf(events, i))
		}
		c.ObserveAll(run, func(i int, _ any) { panicked = append(panicked, from+i) })
	}
	return panicked
}

func observationOf(events []event.Event, i int) Observation {
	return Observation{
		Event:    &events[i],
		Learn:    i%7 > 0,
		Position: rows.Position{Topic: "t", Offset: int64(i)},
		Payload:  rows.AppendEvent(nil, &events[i]),
	}
}

// TestObserveAllIsObserve: events that the fold-in and the experts learn ahead leave every part, figure and alarm as
// they are when events are observed one by one, also through alarms of the drift detector, a fold-in that starts again,
// labels that are outliers, and a refit; with one processor and with several.
func TestObserveAllIsObserve(t *testing.T) {
	for name, change := range map[string]func(*config.Model){
		"ordinal": nil,
		"binary":  func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "binary", 0 },
		"numbers without a range": func(m *config.Model) {
			m.Schema.Task, m.Schema.Levels = "regression", 0
		},
		"numbers and names": func(m *config.Model) { m.Schema.Numeric = []string{"x"} },
	} {
		t.Run(name, func(t *testing.T) {
			events := cycletest.Stream(5, 4000)
			for i := range events {
				events[i].Numeric = []float64{float64(i % 10)}[:len(cycletest.RatingsModel(change).Schema.Numeric)]
				switch name {
				case "binary":
					events[i].Label = float64(int(events[i].Label) / 4)
				case "numbers without a range":
					if i%97 == 96 {
						events[i].Label = 1e4
					}
				}
			}
			run := func(length int) (reported [][]byte, model any) {
				c := newCycle(t, cycletest.RatingsModel(func(m *config.Model) {
					m.Evaluate.Window = 2000
					if change != nil {
						change(m)
					}
				}))
				observe := func(events []event.Event) {
					if length > 0 {
						if failed := observeRuns(c, events, length); len(failed) > 0 {
							t.Fatalf("panics on %v", failed)
						}
						return
					}
					for i := range events {
						o := observationOf(events, i)
						c.Observe(o.Event, o.Learn, o.Position, o.Payload, nil)
					}
				}
				observe(events[:1500])
				c.Install(mustRefit(t, c, sampleOf(events[:1500])))
				if d, ok := c.watch.drift.Detectors[0].(*drift.Gradients); ok {
					for i := range d.Tests {
						d.Rest[i] = 300
						d.Tests[i].Wealth = [4]float64{drift.AlarmRate, drift.AlarmRate, drift.AlarmRate, drift.AlarmRate}
					}
				}
				observe(events[1500:2700])
				if l, ok := c.ensemble.learner.(*experts.FoldIn); ok { // made so bad that it starts again
					wrong := events[2700]
					for range 50 {
						for i := 2700; i < 3000; i++ {
							wrong.Categorical, wrong.Label = events[i].Categorical, 6-events[i].Label
							if name == "binary" {
								wrong.Label = 1 - events[i].Label
							}
							c.target.Encode(c.ensemble.targets, &wrong)
							l.Gather(&wrong)
							l.Learn(&wrong, c.ensemble.targets, 1)
						}
					}
				}
				observe(events[2700:])
				sums, err := c.progress.Sums()
				if err != nil {
					t.Fatal(err)
				}
				report, err := json.Marshal(c.Progressive())
				if err != nil {
					t.Fatal(err)
				}
				alarms, err := json.Marshal(c.watch.DriftAlarms())
				if err != nil {
					t.Fatal(err)
				}
				if name == "ordinal" && (len(alarms) < 10 || c.progress.Resets() == 0) {
					t.Errorf("alarms %s and %d new starts: not all is tested", alarms, c.progress.Resets())
				}
				outlying, err := json.Marshal([]any{c.ensemble.Outlying(), c.progress.Resets(), c.progress.Names(),
					c.backlog.Length})
				if err != nil {
					t.Fatal(err)
				}
				return [][]byte{sums, report, alarms, outlying}, c.Update().Model
			}
			want, model := run(0)
			lengths, all := tier.Size([]int{40, 700}, []int{1, 40, 700}), []int{1, 4}
			for _, length := range lengths {
				for _, processors := range all {
					before := runtime.GOMAXPROCS(processors)
					got, other := run(length)
					runtime.GOMAXPROCS(before)
					for i := range want {
						if string(got[i]) != string(want[i]) {
							t.Fatalf("runs of %d on %d processors:\n%s\none by one:\n%s", length, processors, got[i],
								want[i])
						}
					}
					if !reflect.DeepEqual(other, model) {
						t.Fatalf("runs of %d on %d processors: another live model", length, processors)
					}
				}
			}
		})
	}
}

// TestPanicInARun: an event on which the fold-in, an expert or another part panics is left out and reported, the others
// are observed.
func TestPanicInARun(t *testing.T) {
	events := cycletest.Stream(5, 300)
	events[70].Categorical = nil // no fold-in can gather it
	c := newCycle(t, cycletest.RatingsModel(nil))
	observeRuns(c, events[:50], 50)
	c.ensemble.mixture.Baselines = append(
		c.ensemble.mixture.Baselines[:0:0],
		&failing{at: 100 - 50},
	) // of those after, counted where the mixture sees them
	c.ensemble.mixture.Parts = c.ensemble.mixture.Parts[:c.ensemble.mixture.Learned+1]
	c.ensemble.mixture.Stack = nil
	c.ensemble.experts = append(c.ensemble.experts, experts.NewExpert("failing", c.target, &failingLearner{at: 120 - 50}))
	if got := observeRuns(c, events[50:], 125); !slices.Equal(got, []int{20, 50 + 1, 70 + 1}) {
		t.Errorf("panics on %v", got)
	}
	if n := c.Progressive().N; n != 297 {
		t.Errorf("%d events scored", n)
	}
}

// failing is a baseline that panics on one event.
type failing struct{ seen, at int }

func (f *failing) Name() string { return "failing" }

func (f *failing) Learn(*event.Event, []float64, *rows.Counted) {}

func (f *failing) Correct(*admission.Correction) {}

func (f *failing) Predict([]float64, *event.Event) bool {
	if f.seen++; f.seen == f.at+1 {
		panic("failing")
	}
	return false
}

// failingLearner panics on one event.
type failingLearner struct{ seen, at int }

func (f *failingLearner) Gather(*event.Event) {}

func (f *failingLearner) Learn(*event.Event, []float64, float64) {}

func (f *failingLearner) Correct(*admission.Correction) {}

func (f *failingLearner) Outputs([]float64, *event.Event) {
	if f.seen++; f.seen == f.at+1 {
		panic("failing")
	}
}
