package cycle

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/baselines"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// correctedCase is a task with events, the first of which has a label that is corrected.
type correctedCase struct {
	model  *config.Model
	events []event.Event
	wrong  func(ev *event.Event)
	right  func(ev *event.Event)
}

func correctedCases() map[string]correctedCase {
	labelled := func(label float64) func(*event.Event) { return func(ev *event.Event) { ev.Label = label } }
	class := func(name string) func(*event.Event) { return func(ev *event.Event) { ev.Classes = []string{name} } }
	identified := func(change func(*config.Model)) func(*config.Model) {
		return func(m *config.Model) {
			m.Schema.Identity = "id"
			m.Publish.Deltas = config.Deltas{Every: config.Duration(time.Second), MaxRows: 1000}
			if change != nil {
				change(m)
			}
		}
	}
	numbers := switchModel()
	identified(nil)(numbers)
	return map[string]correctedCase{
		"ordinal": {cycletest.RatingsModel(identified(nil)), cycletest.Stream(3, 2500), labelled(1), labelled(5)},
		"regression": {cycletest.RatingsModel(identified(func(m *config.Model) {
			m.Schema.Task, m.Schema.Levels = "regression", 0
		})), cycletest.Stream(3, 2500), labelled(1), labelled(5)},
		"binary": {cycletest.RatingsModel(identified(func(m *config.Model) {
			m.Schema.Task, m.Schema.Levels = "binary", 0
		})), halves(3, 2500), labelled(0), labelled(1)},
		"classes": {cycletest.ClassesModel(event.Multiclass, identified(nil)),
			cycletest.ClassStream(event.Multiclass, 2500), class("a"), class("b")},
		"numbers": {numbers, cycletest.Numbers(3, 2500), labelled(0), labelled(1)},
	}
}

// correctedRun is a cycle that learns events of identities at their places in a topic.
type correctedRun struct {
	*Cycle
	offset int64
}

func (r *correctedRun) learn(events ...event.Event) {
	all := make([]Observation, len(events))
	for i := range events {
		r.offset++
		all[i] = Observation{Event: &events[i], Learn: true, Position: rows.Position{Topic: "t", Offset: r.offset},
			Payload: rows.AppendEvent(nil, &events[i])}
	}
	r.ObserveAll(all, func(_ int, value any) { panic(value) })
}

// startCorrected returns a cycle with a refit and an update that deltas follow.
func startCorrected(t *testing.T, name string, test *correctedCase) *correctedRun {
	t.Helper()
	r := &correctedRun{Cycle: newCycle(t, test.model)}
	for i := range test.events {
		test.events[i].Identity = fmt.Sprint("e", i)
	}
	r.learn(test.events[:2000]...)
	r.Install(refitOnce(t, "corrected, "+name, r.Cycle, sampleOf(test.events[:2000])))
	r.learn(test.events[2000:2400]...)
	prefer(mixture.FormFoldIn)(r.Cycle)
	r.publisher.comparison, r.publisher.updates = updates.UpdateComparison{N: 1}, true
	publishNext(r.Cycle)
	if r.publisher.Following() == nil {
		t.Fatal("no deltas follow the update")
	}
	return r
}

// again returns an event of the test under one identity.
func (test *correctedCase) again(label func(*event.Event)) event.Event {
	ev := test.events[2400]
	ev.Categorical = slices.Clone(ev.Categorical)
	if len(ev.Categorical) > 0 {
		ev.Categorical[0] = "somebody"
	}
	ev.Identity, ev.Time = "corrected", 2400
	label(&ev)
	return ev
}

// mixedLoss returns the loss of the live mixture on an event, but for the part that consumers have.
func (r *correctedRun) mixedLoss(ev event.Event) float64 {
	r.ensemble.takeNumbers(&ev)
	r.ensemble.learner.Outputs(r.ensemble.outputs, &ev)
	r.ensemble.combine(&ev, r.ensemble.outputs)
	r.target.Encode(r.ensemble.targets, &ev)
	if r.target.IsNumeric() {
		return math.Abs(r.ensemble.mixture.Value() - ev.Label)
	}
	r.ensemble.mixture.Outputs(r.ensemble.outputs)
	o := evaluate.Outcome(r.target, &ev, r.ensemble.outputs, r.ensemble.targets)
	return o.Judged(false)
}

// losses returns those of the mixture, of what is live, of an update that is made now, and of what deltas make of the
// newest one.
func (r *correctedRun) losses(t *testing.T, ev event.Event) map[string]float64 {
	t.Helper()
	of := map[string]float64{"mixture": r.mixedLoss(ev)}
	of["live"], _, _ = liveLoss(t, r.Cycle, []event.Event{ev})
	forms := r.ensemble.candidates(false)
	u := r.update(&forms)
	of["update"], _ = r.lossOf(&fitted.FixedModel{Model: u.Model, Vocab: u.Vocabulary}, []event.Event{ev})
	r.TakeDelta(r.now())
	for r.publisher.Delta() != nil {
		r.publisher.PublishDelta()
	}
	of["delta"], _ = cleanLoss(r.Cycle, []event.Event{ev})
	return of
}

// TestCorrectedLabelIsSeenAtOnce: an event that comes again under its identity with another label moves what is live,
// the next update and the next delta towards that label, before any refit. The same label changes nothing.
func TestCorrectedLabelIsSeenAtOnce(t *testing.T) {
	tier.NotUnderRace(t)
	for name, test := range correctedCases() {
		t.Run(name, func(t *testing.T) {
			r := startCorrected(t, name, &test)
			right := test.again(test.right)
			before := r.losses(t, right)
			r.learn(test.again(test.wrong))
			wrong := r.losses(t, right)
			r.learn(test.again(test.wrong))
			if again := r.losses(t, right); again["mixture"] != wrong["mixture"] || again["delta"] != wrong["delta"] {
				t.Errorf("losses %v after the same label again, want %v", again, wrong)
			}
			if r.ensemble.Held(admission.HeldIdentity) != 1 {
				t.Errorf("%d events came again, want 1", r.ensemble.Held(admission.HeldIdentity))
			}
			r.learn(append(slices.Clone(test.events[2401:2440]), right)...) // the fold-in learns ahead
			for what, is := range r.losses(t, right) {
				t.Logf("%s: loss %.4f, with the wrong label %.4f, corrected %.4f", what, before[what], wrong[what], is)
				if !(is < wrong[what]) {
					t.Errorf("%s: loss %.4f with the wrong label, %.4f once it is corrected", what, wrong[what], is)
				}
			}
			if r.ensemble.Held(admission.HeldIdentity) != 1 {
				t.Errorf("a corrected label counts as one that came again")
			}
			r.Install(mustRefit(t, r.Cycle, sampleOf(test.events[:2000])))
			if is := r.losses(t, right); !(is["live"] < wrong["live"]) {
				t.Errorf("loss %.4f with the wrong label, %.4f after a refit with an earlier cut", wrong["live"], is["live"])
			}
		})
	}
}

// correctedBound is by how much what is predicted after 20,000 corrections of one event may differ from what is
// predicted after the last of them alone, in log odds or levels: rounding where nothing comes between, and where other
// events do, what the steps and scales of gradient experts have become since, and which label boosted trees were fitted
// to last, times what calibrates the mixture: 0.215 was measured.
const (
	correctedBound        = 1e-6
	correctedBoundBetween = 0.3
)

// TestManyCorrectionsAreTheLast: one identity that comes 20,000 times with labels in turn leaves what the last label
// alone leaves, to rounding where nothing comes between.
func TestManyCorrectionsAreTheLast(t *testing.T) {
	tier.NotUnderRace(t)
	for name, test := range correctedCases() {
		for _, between := range []int{0, 200} {
			times := 20_000
			if between == 0 {
				times = tier.Size(4000, 20_000)
			}
			t.Run(fmt.Sprint(name, "/", between), func(t *testing.T) {
				run := func(corrections int) (*correctedRun, []float64) {
					r := startCorrected(t, name, &test)
					r.learn(test.again(test.wrong))
					for i := range times {
						if label := []func(*event.Event){test.right, test.wrong}[i%2]; i >= times-corrections {
							r.learn(test.again(label))
						}
						if between > 0 && i%between == 0 {
							ev := test.events[i/between%2400]
							ev.Identity = ""
							r.learn(ev)
						}
					}
					r.learn(test.again(test.right))
					var said []float64
					for i := range test.events[2400:] {
						ev := test.events[2400+i]
						said = append(said, r.mixedLoss(ev))
					}
					return r, append(said, r.mixedLoss(test.again(test.right)))
				}
				_, want := run(0)
				r, got := run(times)
				most := 0.0
				for i := range want {
					most = max(most, math.Abs(got[i]-want[i]))
				}
				bound := correctedBound
				if between > 0 {
					bound = correctedBoundBetween
				}
				if t.Logf("at most %.2g", most); !(most <= bound) {
					t.Errorf("a loss differs by %g, want at most %g", most, bound)
				}
				if r.ensemble.Held(admission.HeldIdentity) != 0 {
					t.Errorf("%d corrections were not learned", r.ensemble.Held(admission.HeldIdentity))
				}
			})
		}
	}
}

// TestCorrectedLabelWithoutEntity: a label of an event that lacks the entity by which the mixture judges is corrected,
// and is nobody's last label.
func TestCorrectedLabelWithoutEntity(t *testing.T) {
	m := cycletest.ClassesModel(event.Multiclass, func(m *config.Model) {
		m.Schema.Identity, m.Train.FoldIn.By = "id", m.Schema.Categorical[1:]
		m.Schema.Optional = m.Train.FoldIn.By
	})
	r := &correctedRun{Cycle: newCycle(t, m)}
	events := cycletest.ClassStream(event.Multiclass, 400)
	for i := range events {
		if events[i].Identity = fmt.Sprint("e", i); i%2 == 0 {
			events[i].Categorical[1] = ""
		}
	}
	r.learn(events...) // panics where one is not learned
	again := events[398]
	again.Classes = []string{map[string]string{"a": "b", "b": "c", "c": "a"}[again.Classes[0]]}
	r.learn(again)
	entities := 0
	for _, expert := range r.ensemble.mixture.Baselines {
		if b, ok := expert.(*baselines.Conditional); ok && b.Last && b.Field >= 0 {
			if entities++; b.Before.Find(0, "") >= 0 {
				t.Error("events without an entity have a last label")
			}
		}
	}
	if entities == 0 || r.ensemble.mixture.Entities.Find(0, "") >= 0 {
		t.Errorf("%d baselines of last labels; or events without an entity are judged as those of one", entities)
	}
}
