package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/mixture"
)

// branched draws events whose label follows from rules of if and else on two numbers and a name, a class or, with
// numeric labels, a number far from 0.
func branched(seed uint64, n int, isNumber bool) []event.Event {
	r := rand.New(rand.NewPCG(seed, 21))
	list := make([]event.Event, n)
	for i := range list {
		z := []float64{10 * r.Float64(), r.Float64(), r.NormFloat64()}
		kind := r.IntN(6)
		is := z[0] > 3 && z[0] < 7
		if z[1] > 0.6 {
			is = kind%2 == 0
		} else if z[2] > 1 {
			is = !is
		}
		if r.IntN(20) == 0 {
			z[2] = math.NaN()
		}
		list[i] = event.Event{Weight: 1, Numeric: z, Categorical: []string{fmt.Sprint("k", kind), "all"}}
		if is {
			list[i].Label = 1
		}
		if isNumber {
			list[i].Label = 1000 + 50*list[i].Label + r.NormFloat64()
		}
	}
	return list
}

// branchedModel is of the events of branched.
func branchedModel(isNumber bool) *config.Model {
	m := config.DefaultModel()
	m.Name = "branched"
	m.Schema = config.Schema{Task: "binary", Label: "on", TimeUnit: "ms", Categorical: []string{"kind", "group"},
		Numeric: []string{"a", "b", "c"}, Optional: []string{"c"}}
	if isNumber {
		m.Schema.Task = "regression"
	}
	m.Train.MaxBasis, m.Evaluate.Window = 5, 500
	m.Publish.Deltas.Every = 1 // deltas follow updates
	m.Resolve()
	return &m
}

// TestUpdateFromTrees: where rules of if and else decide, updates are made of boosted trees, and consumers lose a
// fraction of what the refit does. A reader's outputs are those of the learner, from memory and from
// the store. The daemon scores a version with trees as readers do when it begins with it again.
func TestUpdateFromTrees(t *testing.T) {
	for _, isNumber := range []bool{false, true} {
		m := branchedModel(isNumber)
		m.Without = append(m.Without, pooledVariant.name)
		c := newCycle(t, m)
		list := branched(1, 4000, isNumber)
		observeAll(c, list[:1000])
		ch := mustRefit(t, c, sampleOf(list[:1000]))
		ch.Version.Version = 1
		c.Install(ch)
		observeWithUpdates(c, list[1000:], 200)
		if got := c.publisher.race.Chosen; got != mixture.FormTrees || !c.publisher.updates {
			t.Fatalf("updates are of form %d, want %d; consumers get them: %t", got, mixture.FormTrees, c.publisher.updates)
		}
		served := c.publisher.published.Load()
		if served.Vocab.Trees == nil || served.Vocab.Trees != served.Forms[mixture.FormTrees].Vocab.Trees {
			t.Error("consumers do not have the trees")
		}
		loss := c.publisher.race.Refits[mixture.FormTrees]
		if !(loss.Sum/loss.N < -0.3) {
			t.Errorf("trees lose %g less than the refit does, in its mean loss", -loss.Sum/loss.N)
		}
		if whole := c.TakeDelta(ch.GateEnded); whole != "" || c.Delta() == nil || c.Delta().Trees == nil {
			t.Errorf("deltas end: %q, or do not bring the trees: %v", whole, c.Delta())
		}
		forms := c.ensemble.candidates(false)
		u := c.update(&forms)
		contents := u.Contents(m)
		if contents.FoldIn != nil || !strings.Contains(contents.NoFoldIn, "trees") {
			t.Errorf("fold-in %v, none since %q", contents.FoldIn, contents.NoFoldIn)
		}
		version := opened(t, contents)
		again, err := fitted.FromSnapshot(m, version)
		if err != nil {
			t.Fatal(err)
		}
		scorers := []*fitted.Scorer{fitted.NewScorer(u.Model, u.Vocabulary), fitted.NewScorer(again.Model, again.Vocabulary),
			fitted.NewFrozenScorer(&fitted.FixedModel{Model: u.Model, Vocab: u.Vocabulary, After: version})}
		l := c.ensemble.expertOf(experts.PartBoosted).Learner
		got, want := []float64{0}, []float64{0}
		for i := range list[:500] {
			ev := &list[3500+i]
			l.Outputs(want, ev)
			for k, s := range scorers {
				s.Outputs(got, ev)
				limited := c.champion.OutputLimit() > 0 && math.Abs(want[0]) > c.champion.OutputLimit()
				if !limited && !(math.Abs(got[0]-want[0]) <= 1e-9*(1+math.Abs(want[0]))) {
					t.Fatalf("event %d: scorer %d says %g, the learner %g", i, k, got[0], want[0])
				}
			}
		}
	}
}
