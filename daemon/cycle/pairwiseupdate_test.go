package cycle

import (
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/solver"
)

// observeWithUpdates observes events and publishes the update that is due each so many of them.
func observeWithUpdates(c *Cycle, events []event.Event, every int) {
	for i := 0; i < len(events); i += every {
		if u, _ := c.NextUpdate(); u != nil {
			c.publisher.PublishUpdate(u)
		}
		observeAll(c, events[i:min(i+every, len(events))])
	}
}

// TestUpdateFromNames: where the learner on names predicts better at the lag of consumers than the fold-in updates are
// made of it. They score as it does, in the trainer, as published and as read again: with the pairs of names that it
// found as separate crosses where the schema has no cross.
func TestUpdateFromNames(t *testing.T) {
	tier.NotUnderRace(t)
	for _, crossed := range []bool{true, false} {
		m := clicksModel(0)
		own := 2
		if crossed {
			m.Schema.Cross = [][]string{{"user", "item"}, {"item", "hour"}}
			m.Train.Loss = config.Auto
			m.Resolve()
			own = 0
		}
		m.Train.MaxFeatures = 40_000
		schema := m.Schema.Event()
		events := clicked(20_000, 0, 1, 4)
		for i := range events {
			schema.Complete(&events[i])
		}
		c := newCycle(t, m)
		observeAll(c, events[:10_000])
		ch := mustRefit(t, c, sampleOf(events[:10_000]))
		ch.Version.Version = 1
		c.Install(ch)
		observeWithUpdates(c, events[10_000:], 500)
		u := c.Update()
		if c.publisher.race.Chosen != mixture.FormNames || u.Model.NumBasis != 0 || u.Vocabulary.Own != own {
			t.Fatalf("crosses %t: of %s, %d basis vectors, %d own crosses", crossed,
				variants[c.publisher.race.Chosen].name, u.Model.NumBasis, u.Vocabulary.Own)
		}
		l := c.ensemble.onNamesLearner(t)
		published, err := scorer.NewModel(u.Contents(m))
		if err != nil {
			t.Fatal(err)
		}
		again, err := fitted.FromSnapshot(m, published)
		if err != nil || again.Vocabulary.Own != own || len(again.Golden) != len(u.Golden) {
			t.Fatalf("read again: %+v, %v", again, err)
		}
		scorer, second := fitted.NewScorer(u.Model, u.Vocabulary), fitted.NewScorer(again.Model, again.Vocabulary)
		plain := again.Plain(&c.schema)
		if crossed != (plain == again) || plain.Vocabulary.Own != 0 ||
			plain.Model.NumFeatures != len(plain.Model.Linear) {
			t.Errorf("%d features, %d own crosses without these", plain.Model.NumFeatures, plain.Vocabulary.Own)
		}
		without := fitted.NewScorer(plain.Model, plain.Vocabulary)
		var s snapshot.Scratch
		got, read, kept, rest := make([]float64, 1), make([]float64, 1), make([]float64, 1), make([]float64, 1)
		for i := range events[19_000:] {
			ev := &events[19_000+i]
			scorer.Outputs(got, ev)
			second.Outputs(kept, ev)
			in := fitted.InputOf(&schema, ev)
			published.Score(read, &in, &s)
			l.Gather(ev)
			if want := l.Output; math.Abs(got[0]-want) > 1e-9*(1+math.Abs(want)) ||
				math.Abs(read[0]-want) > 1e-6*(1+math.Abs(want)) ||
				kept[0] != got[0] {
				t.Fatalf("event %d: the update says %g, published %g, read again %g, the learner %g", i, got, read,
					kept, want)
			}
			pairs := 0.0
			for _, a := range l.Active {
				if x := &l.Terms[a.Term]; x.With >= 0 && x.In {
					pairs += x.Weight(a.Cell)
				}
			}
			if without.Outputs(rest, ev); math.Abs(rest[0]-got[0]+pairs) > 1e-9*(1+math.Abs(got[0])) {
				t.Fatalf("event %d: %g with pairs, of which they are %g, %g without", i, got, pairs, rest)
			}
		}
		if f := published.Manifest().FoldIn; f == nil || f.Fields[0].Name != "user" ||
			!(f.Fields[0].Precision[0] > l.Terms[0].Precision) {
			t.Fatalf("fold-in %+v, of users of precision %g", f, l.Terms[0].Precision)
		}
		ev := snapshot.LabelledEvent{Input: fitted.InputOf(&schema, &events[19_000]), Label: 1}
		over, err := published.Fold([]snapshot.LabelledEvent{ev, ev, ev})
		if err != nil {
			t.Fatal(err)
		}
		published.Score(read, &ev.Input, &s)
		if over.Score(got, &ev.Input, &s); !(got[0] > read[0]) {
			t.Errorf("%g with three clicks of the user, %g without", got, read)
		}
		c.Adopt(again) // what an operator chose is gone on from, and scored as it is
		if c.publisher.published.Load().Vocab != again.Vocabulary || c.champion.Vocabulary.Own != 0 {
			t.Error("consumers have another model than the one that was adopted")
		}
		observeWithUpdates(c, events[:600], 500)
	}
}

// TestPairsOfAnUpdate: an update has as many pairs as there is room for, those that came most often, also where names
// are joined to the same.
func TestPairsOfAnUpdate(t *testing.T) {
	schema := event.Schema{Categorical: []string{"a", "b"}, Multi: []string{"tags"}}
	l := experts.NewPairwise(&schema, targetOf(t, "binary"), 100)
	events := []event.Event{
		{
			Categorical: []string{"x", "y"},
			Multi:       [][]string{{"t"}},
			Label:       1,
		}, {Categorical: []string{"x×y", "z"}, Multi: [][]string{nil}},
		{
			Categorical: []string{"x", "y×z"},
			Multi:       [][]string{nil},
		}, {Categorical: []string{"gone", "z"}, Multi: [][]string{{"t"}}},
	}
	target := make([]float64, 1)
	for i, n := range []int{5, 4, 3, 2} {
		for range n {
			l.Outputs(target, &events[i])
			l.Learn(&events[i], []float64{2*events[i].Label - 1}, 1)
		}
	}
	for i := range l.Terms {
		l.Terms[i].In = true
	}
	v := &encode.Vocabulary{Names: [][]string{{"x", "x×y"}, {"y", "y×z", "z"}, {"t"}}, Schema: &schema}
	v.Number()
	for _, c := range []struct {
		limit int
		pairs []string
	}{{100, []string{"x×y", "x×y×z"}}, {7, []string{"x×y"}}, {6, nil}} {
		model, wide := l.Freeze(v, solver.ANOVA, c.limit)
		if got := wide.Names[2]; !slices.Equal(got, c.pairs) || wide.Own != 1 || wide.NumColumns() != 6+len(c.pairs) {
			t.Fatalf("limit %d: pairs %q, %d columns", c.limit, got, wide.NumColumns())
		}
		if w := model.Linear[5+len(c.pairs)]; w != l.WeightOf(2, "t") || w == 0 {
			t.Errorf("limit %d: weight of a tag %g", c.limit, w)
		}
		index, value := wide.Encode(nil, nil, &events[0])
		if want := 3 + min(len(c.pairs), 1); len(index) != want || len(value) != want || !slices.IsSorted(index) {
			t.Errorf("limit %d: columns %v", c.limit, index)
		}
	}
}

// TestRecall: after a restart, what is carried from refit to refit is as it was when it is given the events again: the
// learner on names all of them, others the recent ones.
func TestRecall(t *testing.T) {
	tier.NotUnderRace(t)
	m := clicksModel(0)
	m.Schema.Numeric = []string{"x"}
	m.Resolve()
	events := clicked(3000, 0, 1, 6)
	for i := range events {
		events[i].Numeric = []float64{float64(i % 7)}
	}
	running := newCycle(t, m)
	observeAll(running, events)
	again := func(recent bool) *Cycle {
		c := newCycle(t, m)
		for i := range events {
			payload := rows.AppendEvent(nil, &events[i])
			var err error
			if i < 2000 {
				err = c.ensemble.Recall(payload, false, recent)
			} else {
				err = c.Relearn(rows.Position{Topic: "t", Offset: int64(i)}, payload, false)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	all, names := again(true), again(false)
	for at, b := range running.ensemble.experts {
		want, got, part := make([]float64, 1), make([]float64, 1), make([]float64, 1)
		b.Learner.Outputs(want, &events[0])
		all.ensemble.experts[at].Learner.Outputs(got, &events[0])
		names.ensemble.experts[at].Learner.Outputs(part, &events[0])
		if math.Abs(got[0]-want[0]) > 1e-9 || (math.Abs(part[0]-want[0]) > 1e-9) == (b.Name == experts.PartNames) {
			t.Errorf("%s: %g, after all events again %g, after the recent ones %g", b.Name, want, got, part)
		}
	}
	if all.backlog.Length != 1000 {
		t.Errorf("%d events since the cut", all.backlog.Length)
	}
}

// onNamesLearner returns the learner on names.
func (e *ensemble) onNamesLearner(t *testing.T) *experts.Pairwise {
	t.Helper()
	for _, expert := range e.experts {
		if l, ok := expert.Learner.(*experts.Pairwise); ok {
			return l
		}
	}
	t.Fatal("no learner on names")
	return nil
}
