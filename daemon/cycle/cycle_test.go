package cycle

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/cycletest/refits"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// What tests of the cycle and of its refits have in common.
var (
	amounts         = cycletest.Amounts
	amountsModel    = cycletest.AmountsModel
	chess           = cycletest.Chess
	chessModel      = cycletest.ChessModel
	regressionModel = cycletest.RegressionModel
	repeated        = refits.Repeated
	sampleOf        = refits.SampleOf
	setAges         = refits.SetAges
	switchModel     = cycletest.SwitchModel
	targetOf        = refits.TargetOf
)

func newCycle(t testing.TB, m *config.Model) *Cycle {
	t.Helper()
	c, err := New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func observeAll(c *Cycle, events []event.Event) {
	for i := range events {
		c.Observe(&events[i], true, rows.Position{Topic: "t", Offset: int64(i)}, rows.AppendEvent(nil, &events[i]), nil)
	}
}

func mustRefit(t testing.TB, c *Cycle, s *encode.Sample) *fitted.Fitted {
	t.Helper()
	ch, err := c.Refit(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// fitOnce has the refits that several tests install, by the name of what was fitted.
var fitOnce sync.Map

// refitOnce is mustRefit for a sample that several tests have: the first of them fits it, and all install the result,
// which nothing changes. The name says the model and the events.
func refitOnce(t testing.TB, name string, c *Cycle, s *encode.Sample) *fitted.Fitted {
	t.Helper()
	made, _ := fitOnce.LoadOrStore(name, sync.OnceValue(func() *fitted.Fitted { return mustRefit(t, c, s) }))
	return made.(func() *fitted.Fitted)()
}

func TestCycleLearnsAndPromotes(t *testing.T) {
	for _, test := range []struct {
		model  *config.Model
		events []event.Event
	}{{cycletest.RatingsModel(nil), cycletest.Stream(1, 4000)}, {switchModel(), cycletest.Numbers(1, 3000)}} {
		test.model.Train.FeatureMap = "" // basis vectors are looked for
		c := newCycle(t, test.model)
		half := len(test.events) / 2
		observeAll(c, test.events[:half])
		ch := mustRefit(t, c, sampleOf(test.events[:half]))
		if ch.Version.Decision != "promoted" || ch.Version.K == 0 {
			t.Fatalf("%s: first version %s with %d basis vectors: %s", test.model.Name, ch.Version.Decision,
				ch.Version.K, ch.Version.Reason)
		}
		c.Install(ch)
		observeAll(c, test.events[half:])
		p := c.Progressive()
		if p.N != int64(len(test.events)) || p.NoModel != int64(half) {
			t.Errorf("%s: %d events, %d without a model", test.model.Name, p.N, p.NoModel)
		}
		if test.model.Name == "ratings" {
			if pub, item, sgd := *p.Window.Published.RMSE, *p.Baselines.ItemMean.RMSE,
				*p.Baselines.SGDBias.RMSE; pub > 0.8*item ||
				*p.Window.Live.RMSE > 0.8*sgd {
				t.Errorf("ratings: published %.3f, live %.3f, item mean %.3f, sgd bias %.3f", pub, *p.Window.Live.RMSE,
					item, sgd)
			}
		} else if w, major := p.Window, *p.Baselines.Majority.Accuracy; *w.Published.Accuracy < 0.85 ||
			*w.Live.Accuracy < 0.85 || major > 0.6 {
			pub, live := *w.Published.Accuracy, *w.Live.Accuracy
			t.Errorf("switch: published %.3f, live %.3f, majority %.3f", pub, live, major)
		}
		// A second refit is warm, and better or kept.
		second := mustRefit(t, c, sampleOf(test.events))
		if !second.Version.Warm {
			t.Errorf("%s: the second refit is cold", test.model.Name)
		}
	}
}

// TestUnlearnedEventsTeachNothing: scoring an event that is not to be learned leaves every later prediction as it was.
func TestUnlearnedEventsTeachNothing(t *testing.T) {
	events := cycletest.Stream(2, 300)
	run := func(scored bool) report.Progressive {
		c := newCycle(t, cycletest.RatingsModel(nil))
		observeAll(c, events[:200])
		before := c.Progressive()
		if scored {
			for i := range events[200:250] {
				c.Observe(&events[200+i], false, rows.Position{}, nil, nil)
			}
		}
		c.progress.progressive = evaluate.NewProgressive(c.target, 500, true)
		observeAll(c, events[250:])
		if before.N != 200 {
			t.Fatal("events not counted")
		}
		return c.Progressive()
	}
	if with, without := run(true), run(false); !reflect.DeepEqual(with.All, without.All) {
		t.Errorf("events that were scored alone changed later predictions: %v, without them %v", *with.All.Live.RMSE,
			*without.All.Live.RMSE)
	}
}

// TestUpdateIsTheLiveModel: a published update predicts what the live model predicts.
func TestUpdateIsTheLiveModel(t *testing.T) {
	for _, test := range []struct {
		model  *config.Model
		events []event.Event
	}{{cycletest.RatingsModel(nil), cycletest.Stream(3, 3000)}, {switchModel(), cycletest.Numbers(3, 2000)}} {
		c := newCycle(t, test.model)
		half := len(test.events) / 2
		observeAll(c, test.events[:half])
		c.Install(mustRefit(t, c, sampleOf(test.events[:half])))
		observeAll(c, test.events[half:])
		c.ensemble.experts = nil // an update may be made of one
		u := c.Update()
		s := fitted.NewScorer(u.Model, u.Vocabulary)
		got, want := make([]float64, c.target.Outputs()), make([]float64, c.target.Outputs())
		for i := range test.events[:200] {
			ev := &test.events[i]
			s.Outputs(got, ev)
			c.ensemble.learner.Outputs(want, ev)
			for o := range want {
				if math.Abs(got[o]-want[o]) > 1e-8*(1+math.Abs(want[o])) {
					t.Fatalf("%s: event %d output %d: update %g, live %g", test.model.Name, i, o, got[o], want[o])
				}
			}
		}
		if u.Version.Kind != "update" {
			t.Errorf("kind %s", u.Version.Kind)
		}
	}
}

// TestInstallKeepsWhatWasLearnedMeanwhile: events between a refit's cut and its installation are in the new live model.
func TestInstallKeepsWhatWasLearnedMeanwhile(t *testing.T) {
	events := cycletest.Stream(4, 2000)
	for i := 1000; i < 2000; i++ { // a new user whom the refit has not seen
		events[i].Categorical[0], events[i].Label = "new", 5
	}
	c := newCycle(t, cycletest.RatingsModel(nil))
	observeAll(c, events[:1000])
	ch := mustRefit(t, c, sampleOf(events[:1000]))
	for i := 1000; i < 2000; i++ {
		c.Observe(&events[i], true, rows.Position{Topic: "t", Offset: int64(i)}, rows.AppendEvent(nil, &events[i]), nil)
	}
	c.Install(ch)
	out := make([]float64, 4)
	ev := event.Event{Weight: 1, Categorical: []string{"new", "i1"}}
	c.ensemble.learner.Outputs(out, &ev)
	if level := c.target.Value(out); level < 4.3 {
		t.Errorf("the live model expects %.2f from a user who always gives 5", level)
	}
}

func TestGateKeepsWhatIsWorse(t *testing.T) {
	tier.NotUnderRace(t)
	m := cycletest.RatingsModel(nil)
	c := newCycle(t, m)
	events := cycletest.Stream(6, 3000)
	c.Install(mustRefit(t, c, sampleOf(events)))
	noise := slices.Clone(events)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		if i%10 > 1 { // the training rows lie, the gate rows do not
			noise[i].Label = float64(1 + r.IntN(5))
		}
	}
	c.champion.Lambda = 1e-3
	worse := mustRefit(t, c, sampleOf(noise))
	if worse.Version.Decision != "kept" || worse.Version.ChampionGate == nil {
		t.Errorf("a model of random labels is %s: %s", worse.Version.Decision, worse.Version.Reason)
	}
	constant := slices.Clone(events)
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Model:   m,
		Schema:  &c.schema,
		Rows: task.Rows{
			Sample: sampleOf(constant),
		}}
	if err := refit.Prepare(j); err != nil {
		t.Fatal(err)
	}
	model := c.Champion().Model.Clone()
	clear(model.Weights)
	clear(model.Linear)
	if !gate.Degenerate(j, model) {
		t.Error("a constant model is not degenerate")
	}
	model.Bias[0] = math.NaN()
	broken := &fitted.Fitted{Model: model, Vocabulary: j.Vocab, Target: j.Target}
	if gate.Decide(j, broken); broken.Version.Decision != "kept" {
		t.Error("a model that is not finite is promoted")
	}
}

func TestRefitWithoutRows(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	if _, err := c.Refit(context.Background(), &encode.Sample{}); !errors.Is(err, encode.ErrNoRows) {
		t.Errorf("error %v", err)
	}
	one := cycletest.Stream(7, 1)
	if _, err := c.Refit(context.Background(), &encode.Sample{Train: [][]byte{rows.AppendEvent(nil,
		&one[0])}}); err != nil {
		t.Errorf("one row: %v", err)
	}
	same := make([]event.Event, 50) // one user, one item, one label
	for i := range same {
		same[i] = one[0]
	}
	ch, err := c.Refit(context.Background(), sampleOf(same))
	if err != nil {
		t.Fatal(err)
	}
	if !ch.Model.IsFinite() {
		t.Error("constant labels give a model that is not finite")
	}
}

// A version that somebody else promoted is what the next challenger is compared with; an operator's choice is not
// replaced on too few rows.
func TestAdoptedChampionIsCompared(t *testing.T) {
	tier.NotUnderRace(t)
	m := cycletest.RatingsModel(nil)
	c := newCycle(t, m)
	events := cycletest.Stream(8, 3000)
	first := mustRefit(t, c, sampleOf(events))
	c.Install(first)
	poor := first.Contents(m) // the same, but for what it learned of the users and items
	for i := range poor.Weights {
		poor.Weights[i] = 0
	}
	for i := range poor.Linear {
		poor.Linear[i] = 0
	}
	for i := range poor.Golden {
		poor.Golden[i].Outputs = nil
	}
	version := opened(t, poor)
	adopted, err := fitted.FromSnapshot(m, version)
	if err != nil {
		t.Fatal(err)
	}
	adopted.Chosen = true
	c.Adopt(adopted)
	if c.Champion() != adopted || adopted.Lambda <= 0 {
		t.Fatalf("champion %v with λ %g, want the adopted one", c.Champion().Version.Version, adopted.Lambda)
	}
	observeAll(c, events[:200]) // its baselines and its fold-in work
	next := mustRefit(t, c, sampleOf(events))
	if g := next.Version.ChampionGate; next.Version.Decision != "promoted" || g == nil ||
		float64(*g.RMSE) < 1.2*float64(*next.Version.Gate.RMSE) {
		t.Errorf("%s: %s; gate %+v, champion %+v: the poor version would lose clearly", next.Version.Decision,
			next.Version.Reason, next.Version.Gate, g)
	}
	few := sampleOf(events)
	few.Gate = few.Gate[:min(len(few.Gate), m.Publish.Gate.MinRows-1)]
	if next := mustRefit(t, c, few); next.Version.Decision != "kept" ||
		!strings.Contains(next.Version.Reason, "an operator chose") {
		t.Errorf("on too few rows: %s, %s", next.Version.Decision, next.Version.Reason)
	}
	adopted.Chosen = false
	few = sampleOf(events)
	few.Gate = few.Gate[:min(len(few.Gate), m.Publish.Gate.MinRows-1)]
	if next := mustRefit(t, c, few); next.Version.Decision != "promoted" {
		t.Errorf("on too few rows, nobody's choice: %s, %s", next.Version.Decision, next.Version.Reason)
	}
}

// TestRefitIsThrottled: a refit yields between its blocks, the throttle has the time budget, and the model is the same.
func TestRefitIsThrottled(t *testing.T) {
	m, events := cycletest.RatingsModel(nil), cycletest.Stream(1, 1500)
	want := mustRefit(t, newCycle(t, m), sampleOf(events))
	var calls atomic.Int64
	c := newCycle(t, m)
	c.Throttle = func(_ context.Context, budget time.Duration) func() {
		if budget != time.Duration(m.Train.TimeBudget) {
			t.Errorf("its time budget is %v", budget)
		}
		return func() { calls.Add(1) }
	}
	got := mustRefit(t, c, sampleOf(events))
	if n := calls.Load(); n < 1000 {
		t.Errorf("it yields %d times", n)
	}
	if !reflect.DeepEqual(got.Model, want.Model) {
		t.Error("it is another model")
	}
}

// TestRefitIsCalledOffWhileItWaits: a throttle that waits until the refit is called off does not hold it up.
func TestRefitIsCalledOffWhileItWaits(t *testing.T) {
	c := newCycle(t, cycletest.RatingsModel(nil))
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	c.Throttle = func(ctx context.Context, _ time.Duration) func() {
		return func() {
			if calls.Add(1) == 20 {
				cancel()
			}
			if calls.Load() >= 20 {
				<-ctx.Done()
			}
		}
	}
	if _, err := c.Refit(ctx, sampleOf(cycletest.Stream(1, 1500))); !errors.Is(err, context.Canceled) ||
		calls.Load() > 100 {
		t.Errorf("called off at the 20th block: error %v after %d", err, calls.Load())
	}
}

// opened publishes contents as the first version of a model, and opens it as consumers do.
func opened(t *testing.T, contents *format.Contents) *snapshot.Model {
	t.Helper()
	const name = "m"
	dir := t.TempDir()
	contents.Meta.Created = time.Unix(1, 0)
	manifest, err := publish.NewStore(dir).Publish(t.Context(), name, contents)
	if err != nil {
		t.Fatal(err)
	}
	version, err := snapshot.Open(dir, name, snapshot.Selector{Version: manifest.Version})
	if err != nil {
		t.Fatal(err)
	}
	return version
}
