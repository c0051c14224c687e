package cycle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// J18: where the champion cannot be read the gate stays on: another version, or the baselines, stand in its place until
// one is installed.
func TestGateWithoutTheChampion(t *testing.T) {
	tier.NotUnderRace(t)
	events := cycletest.Stream(6, 3000)
	noise := slices.Clone(events)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		if i%10 > 1 { // the training rows lie, the gate rows do not
			noise[i].Label = float64(1 + 4*r.IntN(2))
		}
	}
	m := cycletest.RatingsModel(func(m *config.Model) { m.Train.Lambda = 1e-3 })
	standIn := mustRefit(t, newCycle(t, m), sampleOf(events))
	standIn.Version.Version = 41
	for _, test := range []struct {
		name     string
		fallback *fitted.Fitted
		events   []event.Event
		cause    fitted.Cause
		says     string
	}{
		{"version, as good", standIn, events, "not_worse", "version 41, in place of the champion, which cannot be read,"},
		{"version, worse", standIn, noise, "worse", "version 41, in place of the champion"},
		{"baselines, better", nil, events, "not_worse", "the mean by item, in place of the champion"},
		{"baselines, worse", nil, noise, "worse", "in place of the champion"},
	} {
		c := newCycle(t, m)
		c.lineage.CompareWith(test.fallback)
		ch := mustRefit(t, c, sampleOf(test.events))
		if ch.Cause != test.cause || !strings.Contains(ch.Version.Reason, test.says) ||
			(ch.Version.ChampionGate != nil) != (test.fallback != nil) {
			t.Errorf("%s: %s: %s %+v", test.name, ch.Cause, ch.Version.Reason, ch.Version.GateSlices)
		}
		if ch.Version.Warm {
			t.Errorf("%s: it continued from the fallback", test.name)
		}
		if c.Install(ch); mustRefit(t, c, sampleOf(events)).Version.ChampionGate == nil {
			t.Errorf("%s: the next one is not compared with the champion", test.name)
		}
	}
}

// J18: of classes, the baseline is a model that says nothing.
func TestGateOfClassesWithoutTheChampion(t *testing.T) {
	m := switchModel()
	m.Publish.Gate.MinRows = 20
	c, err := New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c.lineage.CompareWith(nil)
	ch := mustRefit(t, c, sampleOf(cycletest.Numbers(1, 2000)))
	if ch.Cause != "not_worse" ||
		!strings.Contains(ch.Version.Reason, "outputs that are all 0, in place of the champion") {
		t.Errorf("%s: %s", ch.Cause, ch.Version.Reason)
	}
}

// TestGateOfNewEntities: a challenger that is better than the champion for users it knows, and bad for others, is
// refused by its slice of new users; the gate rows all together do not show it, because few are of such users.
func TestGateOfNewEntities(t *testing.T) {
	events := cycletest.Stream(15, 6000)
	for i := range events {
		if i%10 == 1 && i%130 < 10 {
			events[i].Categorical = []string{fmt.Sprint("new", i), events[i].Categorical[1]}
		}
	}
	m := cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.LabelMin, m.Schema.LabelMax = "regression", 0, 1, 5
	})
	c := newCycle(t, m)
	good := mustRefit(t, c, sampleOf(events))
	c.Install(good)
	off := *good
	off.Model, off.WithoutHoldout = good.ModelWithoutHoldout().Clone(), nil
	off.Model.Bias[0] += 0.5 // for all users
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Model:   m,
		Schema:  &c.schema,
		Start:   task.Start{Champion: &off},
		Choices: task.Choices{
			Given: -1,
		},
		Rows: task.Rows{
			Sample: sampleOf(events),
		}}
	if err := refit.Prepare(j); err != nil {
		t.Fatal(err)
	}
	bad := convex.MapModel(good.ModelWithoutHoldout(), good.Vocabulary, j.Vocab)
	const away = 1.2
	bad.Bias[0] += away
	for _, name := range j.Vocab.Names[0] {
		bad.Linear[j.Vocab.Column(0, name)] -= away
	}
	judge := func(model *solver.Model) *fitted.Fitted {
		ch := &fitted.Fitted{Model: model, Vocabulary: j.Vocab, Target: j.Target}
		gate.Decide(j, ch)
		return ch
	}
	if ch := judge(convex.MapModel(good.ModelWithoutHoldout(), good.Vocabulary, j.Vocab)); ch.Cause != "not_worse" {
		t.Errorf("the model that the champion was: %s: %s", ch.Cause, ch.Version.Reason)
	}
	ch := judge(bad)
	if ch.Cause != "worse_than_baseline" || ch.Version.Decision != "kept" ||
		!strings.Contains(ch.Version.Reason, "gate rows of a new user its loss") {
		t.Errorf("%s: %s", ch.Cause, ch.Version.Reason)
	}
	rows := int64(0)
	for i, s := range ch.Version.GateSlices {
		if s.Field != []string{"user", "user", "item", "item"}[i] || s.Known != (i%2 == 1) ||
			(s.Loss == nil) != (s.N == 0) {
			t.Errorf("slice %d: %+v", i, s)
		}
		rows += s.N
	}
	if fresh := ch.Version.GateSlices[0]; rows != 2*600 || *fresh.Loss < *fresh.Baseline || fresh.N > 60 {
		t.Errorf("slices %+v", ch.Version.GateSlices)
	}
	j.Champion = nil
	if ch := judge(bad); ch.Cause != "worse_than_baseline" {
		t.Errorf("as the first version: %s: %s", ch.Cause, ch.Version.Reason)
	}
}

// TestGateOfClassBaselines: a version that is worse than the frequencies of the classes, or than the most frequent one,
// is no version for consumers.
func TestGateOfClassBaselines(t *testing.T) {
	tier.NotUnderRace(t)
	for name, m := range map[string]*config.Model{"binary": switchModel(), "classes": cycletest.ClassesModel(
		event.Multiclass, nil),
		"hinge":  cycletest.ClassesModel(event.Multiclass, func(m *config.Model) { m.Train.Loss = "squared_hinge" }),
		"labels": cycletest.ClassesModel(event.Multilabel, nil)} {
		events := cycletest.Numbers(16, 3000)
		if name != "binary" {
			events = cycletest.ClassStream(event.Task(m.Schema.Task), 3000)
		}
		c := newCycle(t, m)
		good := mustRefit(t, c, sampleOf(events))
		if good.Version.Decision != "promoted" {
			t.Errorf("%s: %s", name, good.Version.Reason)
		}
		j := &task.Task{
			Process: task.Process{Budget: new(task.Budget)},
			Model:   m,
			Schema:  &c.schema,
			Choices: task.Choices{
				Given: -1,
			},
			Rows: task.Rows{
				Sample: sampleOf(events),
			}}
		if err := refit.Prepare(j); err != nil {
			t.Fatal(err)
		}
		bad := *convex.MapModel(good.ModelWithoutHoldout(), good.Vocabulary, j.Vocab)
		for i := range bad.Weights {
			bad.Weights[i] = -bad.Weights[i]
		}
		for i := range bad.Linear {
			bad.Linear[i] = -bad.Linear[i]
		}
		ch := &fitted.Fitted{Model: &bad, Vocabulary: j.Vocab, Target: j.Target}
		if gate.Decide(j, ch); ch.Cause != "worse_than_baseline" ||
			!strings.Contains(ch.Version.Reason, "the frequencies of the classes") && name != "hinge" {
			t.Errorf("%s, outputs turned round: %s: %s", name, ch.Cause, ch.Version.Reason)
		}
	}
}

// TestColdAfterRejections: while the training rows lie and the gate rows do not, refits are rejected; the fourth starts
// from nothing and says so, no later one does, and a promotion begins the count anew.
func TestColdAfterRejections(t *testing.T) {
	tier.NotUnderRace(t)
	m := cycletest.RatingsModel(func(m *config.Model) { m.Train.Lambda = 1e-3 })
	events := cycletest.Stream(17, 3000)
	lies := slices.Clone(events)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range lies {
		if i%10 > 1 {
			lies[i].Label = float64(1 + 4*r.IntN(2))
		}
	}
	c := newCycle(t, m)
	c.Install(mustRefit(t, c, sampleOf(events)))
	for n := 1; n <= 6; n++ {
		ch := mustRefit(t, c, sampleOf(lies))
		if ch.Version.Decision != "kept" || c.lineage.Rejections() != n {
			t.Fatalf("%d: %s, %d rejections: %s", n, ch.Version.Decision, c.lineage.Rejections(), ch.Version.Reason)
		}
		if cold := n == 4; ch.Version.Warm == cold ||
			strings.Contains(ch.Version.Reason, "trained from nothing after 3 rejections in a row") != cold {
			t.Errorf("%d: warm %t: %s", n, ch.Version.Warm, ch.Version.Reason)
		}
	}
	good := mustRefit(t, c, sampleOf(events))
	if c.Install(good); good.Version.Decision != "promoted" || c.lineage.Rejections() != 0 {
		t.Errorf("%s, %d rejections after it: %s", good.Version.Decision, c.lineage.Rejections(), good.Version.Reason)
	}
}

// TestGateOfFewRows: below min_rows the select rows judge with the gate rows, however few there are, and below
// leastRows the progressive losses. A version is kept back where it is shown to be worse, and never because there is
// too little to judge it.
func TestGateOfFewRows(t *testing.T) {
	tier.NotUnderRace(t)
	events := cycletest.Stream(18, 3000)
	c := newCycle(t, cycletest.RatingsModel(func(m *config.Model) { m.Publish.Gate.MinRows = 100 }))
	observeAll(c, events[:2000])
	c.Install(mustRefit(t, c, sampleOf(events[:2000])))
	applied := int64(0)
	less := func(events []event.Event, selected, gate int) *encode.Sample {
		s := sampleOf(events)
		s.Events.Applied = applied
		s.Select, s.Gate = s.Select[:selected], s.Gate[:gate]
		return s
	}
	judge := func(s *encode.Sample, cause fitted.Cause, says string) {
		t.Helper()
		if ch := mustRefit(t, c, s); ch.Cause != cause || !strings.Contains(ch.Version.Reason, says) {
			t.Errorf("%d select and %d gate rows: %s: %s", len(s.Select), len(s.Gate), ch.Cause, ch.Version.Reason)
		}
	}
	lies := slices.Clone(events)
	for i := range lies {
		if i%10 > 1 {
			lies[i].Label = 6 - lies[i].Label
		}
	}
	judge(less(events, 300, 300), "not_worse", "gate loss")
	judge(less(events, 300, 60), "not_worse", "select and gate loss")
	judge(less(events, 30, 20), "not_worse",
		"on 50 rows: not shown to be worse by more than publish.gate.tolerance 0.002 (evidence ")
	judge(less(lies, 30, 20), "worse",
		"on 50 rows: shown to be worse by more than publish.gate.tolerance 0.002 (evidence ")
	judge(less(events, 3, 2), "not_worse", "on 5 rows: not shown")
	judge(less(events, 0, 0), "not_worse", "no held-out row and no event since the version before can judge it")
	observeAll(c, events[2000:])
	applied = 1500
	judge(less(events, 3, 2), "not_worse_in_window", "progressive loss")
	for i := range 500 {
		var o [evaluate.NumRoles]evaluate.EventOutcome
		o[evaluate.Published].Number(0.5)
		o[evaluate.FoldIn].Number(0.7 + float64(i%2))
		c.progress.progressive.Add(&o, evaluate.Compared{})
	}
	judge(less(events, 3, 2), "worse_in_window", ", what consumers have ")
}

// TestGateAgainstAnUpdate: where consumers have an update, the challenger is compared with the champion and the
// training rows since its cut; the held-out ones, which the update has learned from, are not in what it is compared
// with.
func TestGateAgainstAnUpdate(t *testing.T) {
	tier.NotUnderRace(t)
	events := cycletest.Stream(19, 3000)
	run := func(label float64, update bool) *fitted.Fitted {
		events := slices.Clone(events)
		c := newCycle(t, cycletest.RatingsModel(nil))
		sample := func(n int) *encode.Sample {
			s := sampleOf(events[:n])
			s.Events.Applied, s.TrainAge = int64(n), make([]float64, len(s.Train))
			for i := range s.TrainAge {
				s.TrainAge[i] = float64(n) * (1 - float64(i)/float64(len(s.Train)))
			}
			return s
		}
		observeAll(c, events[:1000])
		c.Install(mustRefit(t, c, sample(1000)))
		for i := range events[1000:] {
			if ev := &events[1000+i]; i%10 == 1 {
				ev.Label = label
			}
		}
		observeAll(c, events[1000:])
		if update {
			c.publisher.PublishUpdate(c.Update())
		}
		s := sample(3000)
		s.Gate = sampleOf(cycletest.Stream(19, 3000)).Gate
		return mustRefit(t, c, s)
	}
	plain, update, other := run(1, false), run(1, true), run(5, true)
	a, b := *plain.Version.ChampionGate.RMSE, *update.Version.ChampionGate.RMSE
	if b >= a || !strings.Contains(update.Version.Reason, "champion with what was folded in since") {
		t.Errorf("RMSE of the champion %v, of an update %v: %s", a, b, update.Version.Reason)
	}
	if *other.Version.ChampionGate.RMSE != b {
		t.Errorf("what the gate compares with has learned from held-out rows: RMSE %v, of other labels %v", b,
			*other.Version.ChampionGate.RMSE)
	}
}
