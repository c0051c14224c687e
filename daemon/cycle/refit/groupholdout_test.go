package refit_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/gate"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/convex"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// crowd is stream with three users in the place of each.
func crowd(seed uint64, n int) []event.Event {
	events := cycletest.Stream(seed, n)
	for i := range events {
		events[i].Categorical[0] = fmt.Sprintf("%s.%d", events[i].Categorical[0], i%3)
	}
	return events
}

// crowdModel holds out many entities, so that a few thousand rows have some.
func crowdModel(change func(*config.Model)) *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) {
		m.Sample.Holdout.Entities = 0.1
		if change != nil {
			change(m)
		}
	})
}

// withAges is sampleOf with weights and ages that identify each row.
func withAges(events []event.Event) *encode.Sample {
	s := sampleOf(events)
	for i := range events {
		switch age := float64(len(events) - i); i % 10 {
		case 0:
			s.SelectAge = append(s.SelectAge, age)
		case 1:
			s.GateAge = append(s.GateAge, age)
		default:
			s.TrainAge, s.Weights = append(s.TrainAge, age), append(s.Weights, age)
		}
	}
	s.HeldOutWeights = slices.Concat(s.SelectAge, s.GateAge)
	s.Events.Applied, s.Lineage = int64(len(events)), "l"
	return s
}

func prepared(t *testing.T, j *task.Task) *task.Task {
	t.Helper()
	if err := refit.Prepare(j); err != nil {
		t.Fatal(err)
	}
	return j
}

// TestEntitiesAreHeldOutWhole: no training row is of an entity that is held out, all its rows are the gate's, with
// their weights and ages; they are no more than the share of the rows.
func TestEntitiesAreHeldOutWhole(t *testing.T) {
	m := crowdModel(nil)
	schema, events := m.Schema.Event(), crowd(23, 4000)
	j := prepared(t, &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Model:   m,
		Schema:  &schema,
		Choices: task.Choices{
			Given: -1,
		},
		Rows: task.Rows{
			Sample: withAges(events),
		}})
	if len(j.Rows.HeldOut) != 2 || len(j.Rows.HeldOut[0]) < 8 || len(j.Rows.HeldOut[1]) == 0 {
		t.Fatalf("held out %v", j.Rows.HeldOut)
	}
	train, held, byField := 0, 0, [2]int{}
	for i := range events {
		ev := &events[i]
		user, item := gate.Has(j.Rows.HeldOut, 0, ev.Categorical[0]), gate.Has(j.Rows.HeldOut, 1, ev.Categorical[1])
		switch {
		case i%10 == 0:
		case i%10 == 1:
			held++
		case user || item:
			held++
			for f, held := range []bool{user, item} {
				if held {
					byField[f]++
				}
			}
		default:
			train++
		}
	}
	if j.Rows.Problem.X.NumRows() != train || len(j.Rows.Gate.Events) != held || train+held+len(
		j.Rows.Select_.Events) != len(events) {
		t.Errorf("%d training rows and %d gate rows, want %d and %d", j.Rows.Problem.X.NumRows(),
			len(j.Rows.Gate.Events), train, held)
	}
	for f, n := range byField {
		if n == 0 || n > 320 {
			t.Errorf("%d rows are held out for field %d, at most a tenth of 3200 may be", n, f)
		}
		for _, name := range j.Rows.HeldOut[f] {
			if j.Vocab.Column(f, name) >= 0 {
				t.Errorf("%s is in the vocabulary of the training rows", name)
			}
		}
	}
	for i := range j.Rows.Gate.Events { // stream numbers its events by their time
		if age := float64(int64(len(events)) - j.Rows.Gate.Events[i].Time); j.Rows.Sample.GateAge[i] != age ||
			j.Rows.Sample.HeldOutWeights[len(j.Rows.Select_.Events)+i] != age {
			t.Fatalf("gate row %d: age %g, weight %g, want %g", i, j.Rows.Sample.GateAge[i],
				j.Rows.Sample.HeldOutWeights[len(j.Rows.Select_.Events)+i], age)
		}
	}
	if len(j.Rows.Weights) != train || len(j.Rows.Sample.TrainAge) != train || !slices.Equal(j.Rows.Weights,
		j.Rows.Sample.TrainAge) {
		t.Error("training rows have weights or ages of others")
	}
	for i := range j.Rows.Golden {
		if gate.Any(j.Rows.HeldOut, &j.Rows.Golden[i]) {
			t.Error("a golden event is held out")
		}
	}
	if j.Criteria.Means.ByName[j.Rows.HeldOut[1][0]] != 0 || j.Criteria.MeansOfAll.ByName[j.Rows.HeldOut[1][0]] == 0 {
		t.Error("the means that the gate compares with know a held-out item, or those that consumers are shown do not")
	}
}

// TestEntitiesThatAreLeft: nothing is held out whole without a share, without other held-out rows, without a
// variational stage, of a field of few names, or of one that is held out whole by the sample. Names that the incumbent
// has learned from are not held out either.
func TestEntitiesThatAreLeft(t *testing.T) {
	events := crowd(23, 4000)
	drawn := func(j *task.Task) fitted.HeldOutNames {
		j.Choices.Given, j.Rows.Sample = -1, withAges(events)
		if j.Model == nil {
			j.Model = crowdModel(nil)
		}
		schema := j.Model.Schema.Event()
		j.Schema = &schema
		return prepared(t, j).Rows.HeldOut
	}
	for name, m := range map[string]*config.Model{
		"share 0":        crowdModel(func(m *config.Model) { m.Sample.Holdout.Entities = 0 }),
		"fraction 0":     crowdModel(func(m *config.Model) { m.Sample.Holdout.Fraction = 0 }),
		"output weights": crowdModel(func(m *config.Model) { m.Train.Refit = "output" }),
	} {
		if held := drawn(&task.Task{Process: task.Process{Budget: new(task.Budget)}, Model: m}); held != nil {
			t.Errorf("%s: %v", name, held)
		}
	}
	if held := drawn(&task.Task{Process: task.Process{Budget: new(task.Budget)},
		Model: crowdModel(func(m *config.Model) { m.Sample.Holdout.By = "user" })}); len(
		held[0]) != 0 ||
		len(held[1]) == 0 {
		t.Errorf("held out by user: %v", held)
	}
	first := drawn(&task.Task{Process: task.Process{Budget: new(task.Budget)}})
	c := newCycle(t, crowdModel(nil))
	ch := mustRefit(t, c, withAges(events))
	if ch.Version.Decision != "promoted" || !reflect.DeepEqual(ch.HeldOut, first) {
		t.Fatalf("%s; drawn %v, then %v", ch.Version.Reason, first, ch.HeldOut)
	}
	again := drawn(&task.Task{Process: task.Process{Budget: new(task.Budget)}, Start: task.Start{Champion: ch}})
	if !reflect.DeepEqual(again, first) {
		t.Errorf("names that are still unseen: %v, then %v", first, again)
	}
	learned := *ch
	learned.HeldOut = nil // an operator's, of which nothing is known
	for name, j := range map[string]*task.Task{
		"champion": {Process: task.Process{Budget: new(task.Budget)}, Start: task.Start{Champion: &learned}},
		"in its place": {Process: task.Process{Budget: new(task.Budget)},
			Start: task.Start{Fallback: &task.Fallback{Version: &learned}}},
	} {
		if held := drawn(j); held != nil {
			t.Errorf("%s: held out though it may have learned from them: %v", name, held)
		}
	}
	for i := range events {
		events[i].Categorical[0] = fmt.Sprint("sex", i%2)
	}
	if held := drawn(&task.Task{Process: task.Process{Budget: new(task.Budget)}}); len(held[0]) != 0 {
		t.Errorf("half of the rows are held out: %v", held)
	}
}

// TestGateSeesNewEntities: a challenger that is bad for users it does not know alone is kept back, though no user of
// the hold-out by events is new.
func TestGateSeesNewEntities(t *testing.T) {
	for entities, cause := range map[float64]fitted.Cause{0: "first_version", 0.1: "worse_than_baseline"} {
		m := crowdModel(func(m *config.Model) {
			m.Sample.Holdout.Entities = entities
			m.Schema.Task, m.Schema.Levels, m.Schema.LabelMin, m.Schema.LabelMax = "regression", 0, 1, 5
		})
		events := crowd(22, 8000)
		c := newCycle(t, m)
		good := mustRefit(t, c, sampleOf(events))
		j := prepared(t, &task.Task{
			Process: task.Process{Budget: new(task.Budget)},
			Model:   m,
			Schema:  new(m.Schema.Event()),
			Start:   task.Start{Champion: good},
			Choices: task.Choices{
				Given: -1,
			},
			Rows: task.Rows{
				Sample: sampleOf(events),
			}})
		bad := convex.MapModel(good.ModelWithoutHoldout(), good.Vocabulary, j.Vocab)
		const away = 1.2
		bad.Bias[0] += away
		for _, name := range j.Vocab.Names[0] {
			bad.Linear[j.Vocab.Column(0, name)] -= away
		}
		ch := &fitted.Fitted{Model: bad, Vocabulary: j.Vocab, Target: j.Target}
		j.Champion = nil // than which it is worse on all rows
		if gate.Decide(j, ch); ch.Cause != cause ||
			entities > 0 && !strings.Contains(ch.Version.Reason, "gate rows of a new user its loss") {
			t.Errorf("entities %g: %s: %s, slices %+v", entities, ch.Cause, ch.Version.Reason, ch.Version.GateSlices)
		}
	}
}

// TestHeldOutEntitiesAreLearnedAfterTheGate: the version that consumers get knows the entities that were held out, what
// refits continue from does not; a repetition has the same.
func TestHeldOutEntitiesAreLearnedAfterTheGate(t *testing.T) {
	tier.NotUnderRace(t)
	m := crowdModel(func(m *config.Model) { m.Publish.KeepSample = true })
	events := crowd(23, 4000)
	c := newCycle(t, m)
	for round := range 2 {
		ch := mustRefit(t, c, withAges(events[:2000+2000*round]))
		if len(ch.HeldOut) == 0 || ch.Version.Decision != "promoted" {
			t.Fatalf("round %d: held out %v, %s", round, ch.HeldOut, ch.Version.Reason)
		}
		repeated(t, ch, m, 1)
		kept := false
		for _, name := range ch.HeldOut[0] {
			at := ch.Vocabulary.Column(0, name)
			if at < 0 {
				t.Fatalf("%s is not in the version", name)
			}
			clean, _ := ch.WithoutHoldout.Posterior.Row(int(at))
			published, _ := ch.Posterior.Row(int(at))
			if slices.ContainsFunc(clean, func(v float64) bool { return v != 0 }) {
				t.Errorf("what refits continue from has learned %s", name)
			}
			kept = kept || published[0] != 0
		}
		if !kept {
			t.Error("the version has learned from no held-out user")
		}
		ch.Version.Version = int64(round + 1)
		c.Install(ch)
	}
}
