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
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// J18: where the champion cannot be read the gate stays on: another version, or the baselines, stand in its place until one is installed.
func TestGateWithoutTheChampion(t *testing.T) {
	tier.NotUnderRace(t)
	events := stream(6, 3000)
	noise := slices.Clone(events)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		if i%10 > 1 { // the training rows lie, the gate rows do not
			noise[i].Label = float64(1 + 4*r.IntN(2))
		}
	}
	m := ratingsModel(func(m *config.Model) { m.Train.Lambda = 1e-3 })
	standIn := refit(t, newCycle(t, m), sampleOf(events))
	standIn.Version.Version = 41
	for _, test := range []struct {
		name   string
		stands *Champion
		events []event.Event
		cause  Cause
		says   string
	}{
		{"version, as good", standIn, events, "not_worse", "version 41, in place of the champion, which cannot be read,"},
		{"version, worse", standIn, noise, "worse", "version 41, in place of the champion"},
		{"baselines, better", nil, events, "not_worse", "the mean by item, in place of the champion"},
		{"baselines, worse", nil, noise, "worse", "in place of the champion"},
	} {
		c := newCycle(t, m)
		c.CompareWith(test.stands)
		ch := refit(t, c, sampleOf(test.events))
		if ch.Cause != test.cause || !strings.Contains(ch.Version.Reason, test.says) || (ch.Version.ChampionGate != nil) != (test.stands != nil) {
			t.Errorf("%s: %s: %s %+v", test.name, ch.Cause, ch.Version.Reason, ch.Version.GateSlices)
		}
		if ch.Version.Warm {
			t.Errorf("%s: it went on from what stands in", test.name)
		}
		if c.Install(ch); refit(t, c, sampleOf(events)).Version.ChampionGate == nil {
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
	c.CompareWith(nil)
	ch := refit(t, c, sampleOf(numbers(1, 2000)))
	if ch.Cause != "not_worse" || !strings.Contains(ch.Version.Reason, "outputs that are all 0, in place of the champion") {
		t.Errorf("%s: %s", ch.Cause, ch.Version.Reason)
	}
}

// TestGateOfNewEntities: a challenger that is better than the champion for users it knows, and bad for others, is refused by its slice of new users; the
// gate rows all together do not show it, because few are of such users.
func TestGateOfNewEntities(t *testing.T) {
	events := stream(15, 6000)
	for i := range events {
		if i%10 == 1 && i%130 < 10 {
			events[i].Categorical = []string{fmt.Sprint("new", i), events[i].Categorical[1]}
		}
	}
	m := ratingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.LabelMin, m.Schema.LabelMax = "regression", 0, 1, 5
	})
	c := newCycle(t, m)
	good := refit(t, c, sampleOf(events))
	c.Install(good)
	off := *good
	off.Model, off.clean = good.cleanModel().Clone(), nil
	off.Model.Bias[0] += 0.5 // for all users
	j := &refitJob{given: -1, model: m, schema: &c.schema, champion: &off, sample: sampleOf(events)}
	if err := j.prepare(); err != nil {
		t.Fatal(err)
	}
	bad := mapModel(good.cleanModel(), good.Vocabulary, j.vocab)
	const away = 1.2
	bad.Bias[0] += away
	for _, name := range j.vocab.Names[0] {
		bad.Linear[j.vocab.Column(0, name)] -= away
	}
	judge := func(model *solver.Model) *Champion {
		ch := &Champion{Model: model, Vocabulary: j.vocab, Target: j.target}
		j.decide(ch)
		return ch
	}
	if ch := judge(mapModel(good.cleanModel(), good.Vocabulary, j.vocab)); ch.Cause != "not_worse" {
		t.Errorf("the model that the champion was: %s: %s", ch.Cause, ch.Version.Reason)
	}
	ch := judge(bad)
	if ch.Cause != "worse_than_baseline" || ch.Version.Decision != "kept" || !strings.Contains(ch.Version.Reason, "gate rows of a new user its loss") {
		t.Errorf("%s: %s", ch.Cause, ch.Version.Reason)
	}
	rows := int64(0)
	for i, s := range ch.Version.GateSlices {
		if s.Field != []string{"user", "user", "item", "item"}[i] || s.Known != (i%2 == 1) || (s.Loss == nil) != (s.N == 0) {
			t.Errorf("slice %d: %+v", i, s)
		}
		rows += s.N
	}
	if fresh := ch.Version.GateSlices[0]; rows != 2*600 || *fresh.Loss < *fresh.Baseline || fresh.N > 60 {
		t.Errorf("slices %+v", ch.Version.GateSlices)
	}
	j.champion = nil
	if ch := judge(bad); ch.Cause != "worse_than_baseline" {
		t.Errorf("as the first version: %s: %s", ch.Cause, ch.Version.Reason)
	}
}

// TestGateOfClassBaselines: a version that is worse than the frequencies of the classes, or than the most frequent one, is no version for consumers.
func TestGateOfClassBaselines(t *testing.T) {
	tier.NotUnderRace(t)
	for name, m := range map[string]*config.Model{"binary": switchModel(), "classes": classesModel(event.Multiclass, nil),
		"hinge": classesModel(event.Multiclass, func(m *config.Model) { m.Train.Loss = "squared_hinge" }), "labels": classesModel(event.Multilabel, nil)} {
		events := numbers(16, 3000)
		if name != "binary" {
			events = classStream(event.Task(m.Schema.Task), 3000)
		}
		c := newCycle(t, m)
		good := refit(t, c, sampleOf(events))
		if good.Version.Decision != "promoted" {
			t.Errorf("%s: %s", name, good.Version.Reason)
		}
		j := &refitJob{given: -1, model: m, schema: &c.schema, sample: sampleOf(events)}
		if err := j.prepare(); err != nil {
			t.Fatal(err)
		}
		bad := *mapModel(good.cleanModel(), good.Vocabulary, j.vocab)
		for i := range bad.Weights {
			bad.Weights[i] = -bad.Weights[i]
		}
		for i := range bad.Linear {
			bad.Linear[i] = -bad.Linear[i]
		}
		ch := &Champion{Model: &bad, Vocabulary: j.vocab, Target: j.target}
		if j.decide(ch); ch.Cause != "worse_than_baseline" || !strings.Contains(ch.Version.Reason, "the frequencies of the classes") && name != "hinge" {
			t.Errorf("%s, outputs turned round: %s: %s", name, ch.Cause, ch.Version.Reason)
		}
	}
}

// TestColdAfterRejections: while the training rows lie and the gate rows do not, refits are rejected; the fourth starts from nothing and says so, no
// later one does, and a promotion begins the count anew.
func TestColdAfterRejections(t *testing.T) {
	tier.NotUnderRace(t)
	m := ratingsModel(func(m *config.Model) { m.Train.Lambda = 1e-3 })
	events := stream(17, 3000)
	lies := slices.Clone(events)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range lies {
		if i%10 > 1 {
			lies[i].Label = float64(1 + 4*r.IntN(2))
		}
	}
	c := newCycle(t, m)
	c.Install(refit(t, c, sampleOf(events)))
	for n := 1; n <= 6; n++ {
		ch := refit(t, c, sampleOf(lies))
		if ch.Version.Decision != "kept" || c.Rejections() != n {
			t.Fatalf("%d: %s, %d rejections: %s", n, ch.Version.Decision, c.Rejections(), ch.Version.Reason)
		}
		if cold := n == 4; ch.Version.Warm == cold || strings.Contains(ch.Version.Reason, "trained from nothing after 3 rejections in a row") != cold {
			t.Errorf("%d: warm %t: %s", n, ch.Version.Warm, ch.Version.Reason)
		}
	}
	good := refit(t, c, sampleOf(events))
	if c.Install(good); good.Version.Decision != "promoted" || c.Rejections() != 0 {
		t.Errorf("%s, %d rejections after it: %s", good.Version.Decision, c.Rejections(), good.Version.Reason)
	}
}

// TestGateOfFewRows: below min_rows the select rows judge with the gate rows, however few there are, and below leastRows the progressive losses. A version
// is kept back where it is shown to be worse, and never because there is too little to judge it.
func TestGateOfFewRows(t *testing.T) {
	tier.NotUnderRace(t)
	events := stream(18, 3000)
	c := newCycle(t, ratingsModel(func(m *config.Model) { m.Publish.Gate.MinRows = 100 }))
	observeAll(c, events[:2000])
	c.Install(refit(t, c, sampleOf(events[:2000])))
	applied := int64(0)
	less := func(events []event.Event, selected, gate int) *Sample {
		s := sampleOf(events)
		s.Events.Applied = applied
		s.Select, s.Gate = s.Select[:selected], s.Gate[:gate]
		return s
	}
	judge := func(s *Sample, cause Cause, says string) {
		t.Helper()
		if ch := refit(t, c, s); ch.Cause != cause || !strings.Contains(ch.Version.Reason, says) {
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
	judge(less(events, 30, 20), "not_worse", "on 50 rows: not shown to be worse by more than publish.gate.tolerance 0.002 (evidence ")
	judge(less(lies, 30, 20), "worse", "on 50 rows: shown to be worse by more than publish.gate.tolerance 0.002 (evidence ")
	judge(less(events, 3, 2), "not_worse", "on 5 rows: not shown")
	judge(less(events, 0, 0), "not_worse", "no held-out row and no event since the version before can judge it")
	observeAll(c, events[2000:])
	applied = 1500
	judge(less(events, 3, 2), "not_worse_in_window", "progressive loss")
	for i := range 500 {
		var o [numRoles]outcome
		o[published].number(0.5)
		o[foldIn].number(0.7 + float64(i%2))
		c.progressive.add(&o, compared{})
	}
	judge(less(events, 3, 2), "worse_in_window", ", what consumers have ")
}

// TestGateAgainstAnUpdate: where consumers have an update, the challenger is compared with the champion and the training rows since its cut; the
// held-out ones, which the update has learned from, are not in what it is compared with.
func TestGateAgainstAnUpdate(t *testing.T) {
	tier.NotUnderRace(t)
	events := stream(19, 3000)
	run := func(label float64, update bool) *Champion {
		events := slices.Clone(events)
		c := newCycle(t, ratingsModel(nil))
		sample := func(n int) *Sample {
			s := sampleOf(events[:n])
			s.Events.Applied, s.TrainAge = int64(n), make([]float64, len(s.Train))
			for i := range s.TrainAge {
				s.TrainAge[i] = float64(n) * (1 - float64(i)/float64(len(s.Train)))
			}
			return s
		}
		observeAll(c, events[:1000])
		c.Install(refit(t, c, sample(1000)))
		for i := range events[1000:] {
			if ev := &events[1000+i]; i%10 == 1 {
				ev.Label = label
			}
		}
		observeAll(c, events[1000:])
		if update {
			c.PublishUpdate(c.Update())
		}
		s := sample(3000)
		s.Gate = sampleOf(stream(19, 3000)).Gate
		return refit(t, c, s)
	}
	plain, update, other := run(1, false), run(1, true), run(5, true)
	a, b := *plain.Version.ChampionGate.RMSE, *update.Version.ChampionGate.RMSE
	if b >= a || !strings.Contains(update.Version.Reason, "champion with what was folded in since") {
		t.Errorf("RMSE of the champion %v, of an update %v: %s", a, b, update.Version.Reason)
	}
	if *other.Version.ChampionGate.RMSE != b {
		t.Errorf("what the gate compares with has learned from held-out rows: RMSE %v, of other labels %v", b, *other.Version.ChampionGate.RMSE)
	}
}

// TestGateAgainstWhatHasSeenTheRows: a version that learned from held-out rows, of which the clean state is not known, is compared on those alone that
// came after its cut.
func TestGateAgainstWhatHasSeenTheRows(t *testing.T) {
	m, two := ratingsModel(nil), []string{"u1", "i1"}
	schema := m.Schema.Event()
	j := &refitJob{model: m, schema: &schema,
		sample: &Sample{GateAge: []float64{50, 5, 20}, SelectAge: []float64{30, 1}, Events: snapshot.Counts{Applied: 100}, Lineage: "l"},
		target: new(Target), gate: &encoded{events: []event.Event{{Label: 1, Categorical: two}, {Categorical: two}, {Label: 1, Categorical: two}}},
		select_: &encoded{events: []event.Event{{Categorical: two}, {Label: 1, Categorical: two}}}}
	j.target.Task, j.target.Loss, j.train = event.Binary, solver.BinaryLogistic{}, &encoded{x: solver.NewRows(1, 0, 0)}
	r := &rival{losses: heldLosses{gate: []float64{1, 2, 3}, chosen: []float64{4, 5}}, job: j}
	since, ok := j.eventsSince(&Champion{Lineage: "l", Events: &snapshot.Counts{Applied: 75}})
	if r.unseen = since; !ok || since != 25 {
		t.Fatalf("%g events since the cut", since)
	}
	gate, chosen := r.scores(heldLosses{gate: []float64{10, 20, 30}, chosen: []float64{40, 50}})
	if !slices.Equal(gate.loss, []float64{20, 30}) || !slices.Equal(gate.against, []float64{2, 3}) || !slices.Equal(chosen.loss, []float64{50}) {
		t.Errorf("gate %+v, select %+v", gate, chosen)
	}
	if _, ok := j.eventsSince(&Champion{Lineage: "other", Events: &snapshot.Counts{Applied: 75}}); ok {
		t.Error("offsets of another lineage are compared")
	}
}
