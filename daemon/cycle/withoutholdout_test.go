package cycle

import (
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestRefitsContinueFromTheCleanState: what a gate row says is in the version that is published and in what is live,
// and nowhere in what the next refit starts from; the select rows and labels of both streams are the same.
func TestRefitsContinueFromTheCleanState(t *testing.T) {
	tier.NotUnderRace(t)
	for _, m := range []*config.Model{cycletest.RatingsModel(nil), cycletest.RatingsModel(func(
		m *config.Model) {
		m.Schema.Task, m.Schema.Levels = "regression", 0
	})} {
		run := func(gate float64) (ch *fitted.Fitted, starts *task.WarmStart) {
			events := cycletest.Stream(12, 3000)
			for i := range events {
				if i%100 == 1 { // a gate row
					events[i].Label = gate
				}
			}
			c := newCycle(t, m)
			observeAll(c, events[:1500])
			ch = mustRefit(t, c, sampleOf(events[:1500]))
			if ch.Cause = "first_version"; ch.Version.HeldOutSweeps == 0 ||
				ch.Version.HeldOutSweeps != ch.Version.Sweeps {
				t.Fatalf("%d sweeps, %d over all rows: %s", ch.Version.Sweeps, ch.Version.HeldOutSweeps,
					ch.Version.Reason)
			}
			c.Install(ch)
			observeAll(c, events[1500:])
			j := &task.Task{
				Process: task.Process{Budget: new(task.Budget)},
				Model:   c.config,
				Schema:  &c.schema,
				Start:   task.Start{Champion: c.champion},
				Target:  c.target,
				Rows: task.Rows{
					Sample: sampleOf(events),
				},
			}
			if err := refit.Prepare(j); err != nil {
				t.Fatal(err)
			}
			warm, _ := variational.Continuing(j, j.Vocab)
			return ch, warm
		}
		ch, start := run(5)
		other, sameStart := run(4)
		if !reflect.DeepEqual(start, sameStart) {
			t.Errorf("%s: the next refit starts from what the gate rows said", m.Schema.Task)
		}
		if reflect.DeepEqual(ch.Model, other.Model) || reflect.DeepEqual(ch.Posterior, other.Posterior) {
			t.Errorf("%s: the version did not learn from the gate rows", m.Schema.Task)
		}
		if !reflect.DeepEqual(ch.ModelWithoutHoldout(), other.ModelWithoutHoldout()) {
			t.Errorf("%s: the model that the next challenger is compared with has learned from the gate rows",
				m.Schema.Task)
		}
	}
}

// TestSweepsOverAllRows: rows of a sample together are what encoding all its events gives, names that only held-out
// events have included, and the posterior of a stage over them is the one of a stage over a sample that trains on all.
func TestSweepsOverAllRows(t *testing.T) {
	m := cycletest.RatingsModel(func(m *config.Model) { m.Schema.Numeric = []string{"x"} })
	events := cycletest.Stream(13, 1200)
	for i := range events {
		events[i].Numeric = []float64{float64(i % 7)}
		if i%30 == 1 {
			events[i].Categorical = []string{"held out", events[i].Categorical[1]}
		}
	}
	c := newCycle(t, m)
	schema, sample := m.Schema.Event(), sampleOf(events)
	sample.Weights = make([]float64, len(sample.Train))
	for i := range sample.Weights {
		sample.Weights[i] = 0.5 + float64(i%3)/2
	}
	sample.HeldOutWeights = make([]float64, len(sample.Select)+len(sample.Gate))
	for i := range sample.HeldOutWeights {
		sample.HeldOutWeights[i] = float64(i)
	}
	weights := slices.Concat(sample.Weights, sample.HeldOutWeights)
	rowList := slices.Concat(sample.Train, sample.Select, sample.Gate)
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget)},
		Model:   c.config,
		Schema:  &schema,
		Rows: task.Rows{
			Sample: sample,
		}}
	if err := refit.Prepare(j); err != nil {
		t.Fatal(err)
	}
	if j.Vocab.Column(0, "held out") >= 0 {
		t.Fatal("a name of held-out events is known to the training rows")
	}
	all := variational.AllRows(j)
	decoded, err := encode.DecodeRows(rowList, make(rows.Interner))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := encode.Encode(all.Vocab, j.Target, decoded, nil)
	if !reflect.DeepEqual(all.X.Index, want.X.Index) || !reflect.DeepEqual(all.X.Value, want.X.Value) ||
		!slices.Equal(all.Targets, want.Targets) {
		t.Error("the rows together are not those of all events")
	}
	if !slices.Equal(all.Weights, weights) {
		t.Error("weights of other rows")
	}
	if all.Vocab.Column(0, "held out") < 0 || !reflect.DeepEqual(all.Vocab.Numeric, j.Vocab.Numeric) {
		t.Error("the names of the held-out events are missing, or numbers are scaled otherwise")
	}
	j.Choices.HalfLife, j.Rows.Sample.TrainAge, j.Rows.Sample.SelectAge, j.Rows.Sample.GateAge = 4, make([]float64,
		len(sample.Weights)), make([]float64, 120), make([]float64, 120)
	for i := range j.Rows.Sample.GateAge {
		j.Rows.Sample.GateAge[i] = fitted.HalfLives[4]
	}
	faded := variational.AllRows(j).Weights
	if a, b := faded[len(faded)-1]/faded[0], weights[len(weights)-1]/weights[0]; !closeTo(2*a, b) {
		t.Errorf("a row as old as the half-life weighs %g of a new one, %g without fading", a, b)
	}
}
