package cycle

import (
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestRefitsContinueFromTheCleanState: what a gate row says is in the version that is published and in what is live, and nowhere in what the next
// refit starts from; the select rows and labels of both streams are the same.
func TestRefitsContinueFromTheCleanState(t *testing.T) {
	tier.NotUnderRace(t)
	for _, m := range []*config.Model{ratingsModel(nil), ratingsModel(func(m *config.Model) { m.Schema.Task, m.Schema.Levels = "regression", 0 })} {
		run := func(gate float64) (ch *Champion, starts *warmStart) {
			events := stream(12, 3000)
			for i := range events {
				if i%100 == 1 { // a gate row
					events[i].Label = gate
				}
			}
			c := newCycle(t, m)
			observeAll(c, events[:1500])
			ch = refit(t, c, sampleOf(events[:1500]))
			if ch.Cause = "first_version"; ch.Version.HeldOutSweeps == 0 || ch.Version.HeldOutSweeps != ch.Version.Sweeps {
				t.Fatalf("%d sweeps, %d over all rows: %s", ch.Version.Sweeps, ch.Version.HeldOutSweeps, ch.Version.Reason)
			}
			c.Install(ch)
			observeAll(c, events[1500:])
			j := &refitJob{model: c.config, schema: &c.schema, champion: c.champion, target: c.target, sample: sampleOf(events)}
			if err := j.prepare(); err != nil {
				t.Fatal(err)
			}
			return ch, j.continuing(j.vocab)
		}
		ch, start := run(5)
		other, sameStart := run(4)
		if !reflect.DeepEqual(start, sameStart) {
			t.Errorf("%s: the next refit starts from what the gate rows said", m.Schema.Task)
		}
		if reflect.DeepEqual(ch.Model, other.Model) || reflect.DeepEqual(ch.posterior, other.posterior) {
			t.Errorf("%s: the version did not learn from the gate rows", m.Schema.Task)
		}
		if !reflect.DeepEqual(ch.cleanModel(), other.cleanModel()) {
			t.Errorf("%s: the model that the next challenger is compared with has learned from the gate rows", m.Schema.Task)
		}
	}
}

// TestSweepsOverAllRows: rows of a sample together are what encoding all its events gives, names that only held-out events have included, and the posterior
// of a stage over them is the one of a stage over a sample that trains on all.
func TestSweepsOverAllRows(t *testing.T) {
	m := ratingsModel(func(m *config.Model) { m.Schema.Numeric = []string{"x"} })
	events := stream(13, 1200)
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
	rows := slices.Concat(sample.Train, sample.Select, sample.Gate)
	j := &refitJob{model: c.config, schema: &schema, sample: sample}
	if err := j.prepare(); err != nil {
		t.Fatal(err)
	}
	if j.vocab.Column(0, "held out") >= 0 {
		t.Fatal("a name of held-out events is known to the training rows")
	}
	all := j.allRows()
	decoded, err := decodeRows(rows, make(interner))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := encode(all.vocab, j.target, decoded, nil)
	if !reflect.DeepEqual(all.x.Index, want.x.Index) || !reflect.DeepEqual(all.x.Value, want.x.Value) || !slices.Equal(all.targets, want.targets) {
		t.Error("the rows together are not those of all events")
	}
	if !slices.Equal(all.weights, weights) {
		t.Error("weights of other rows")
	}
	if all.vocab.Column(0, "held out") < 0 || !reflect.DeepEqual(all.vocab.Numeric, j.vocab.Numeric) {
		t.Error("the names of the held-out events are missing, or numbers are scaled otherwise")
	}
	j.horizon, j.sample.TrainAge, j.sample.SelectAge, j.sample.GateAge = 4, make([]float64, len(sample.Weights)), make([]float64, 120), make([]float64, 120)
	for i := range j.sample.GateAge {
		j.sample.GateAge[i] = horizons[4]
	}
	faded := j.allRows().weights
	if a, b := faded[len(faded)-1]/faded[0], weights[len(weights)-1]/weights[0]; !closeTo(2*a, b) {
		t.Errorf("a row as old as the half-life weighs %g of a new one, %g without fading", a, b)
	}
}

func TestVocabularyCovering(t *testing.T) {
	schema := event.Schema{Categorical: []string{"a"}, Multi: []string{"m"}, Numeric: []string{"x"}}
	of := func(a string, m ...string) event.Event {
		return event.Event{Categorical: []string{a}, Multi: [][]string{m}, Numeric: []float64{1}}
	}
	v := buildVocabulary(&schema, []event.Event{of("b", "y"), of("d")}, true, 10, nil, nil)
	more := []event.Event{of("a", "z"), of("a", "z"), of("e", "z"), of("", "y"), of("d")}
	for _, c := range []struct {
		limit int
		names [][]string
	}{{10, [][]string{{"a", "b", "d", "e"}, {"y", "z"}}}, {5, [][]string{{"a", "b", "d"}, {"y", "z"}}}, {4, [][]string{{"b", "d"}, {"y", "z"}}}, {2, v.Names}} {
		got := v.covering(more, c.limit)
		if !reflect.DeepEqual(got.Names, c.names) {
			t.Errorf("at most %d names: %v, want %v", c.limit, got.Names, c.names)
		}
		for column, to := range v.columnsIn(got) {
			if got.field[to] != v.field[column] {
				t.Errorf("column %d of field %d is %d of field %d", column, v.field[column], to, got.field[to])
			}
		}
	}
}
