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
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// moods draws short texts of three classes, each with some words among many that all classes have, by a user.
func moods(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 11))
	list := make([]event.Event, n)
	for i := range list {
		class := min(r.IntN(4), 2)
		words := make(map[string]bool)
		ev := event.Event{Weight: 1, Categorical: []string{fmt.Sprint("u", r.IntN(200)), "all"}, Multi: [][]string{nil},
			Classes: []string{fmt.Sprint("mood", class)}}
		for range 4 + r.IntN(8) {
			word := fmt.Sprint("w", int(1500*r.Float64()*r.Float64()))
			if r.IntN(3) == 0 {
				word = fmt.Sprint("m", class, "-", r.IntN(60))
			}
			if !words[word] {
				words[word] = true
				ev.Multi[0] = append(ev.Multi[0], word)
			}
		}
		list[i] = ev
	}
	return list
}

// moodsModel is of the events of moods.
func moodsModel() *config.Model {
	m := config.DefaultModel()
	m.Name = "moods"
	m.Schema = config.Schema{Task: "multiclass", Label: "mood", TimeUnit: "ms",
		Classes:     []string{"mood0", "mood1", "mood2"},
		Categorical: []string{"user", "group"}, Multi: []string{"words"}, ListWeights: map[string]string{"words": "sqrt"}}
	m.Train.MaxBasis, m.Evaluate.Window = 5, 500
	m.Resolve()
	return &m
}

// TestUpdateFromNaiveBayes: where each word says a little, updates are made of naive Bayes, whatever the fold-in lost
// to the refit before. A reader's outputs are the learner's, and versions say why they have no fold-in.
func TestUpdateFromNaiveBayes(t *testing.T) {
	m := moodsModel()
	m.Without = append(m.Without, pooledVariant.name)
	c := newCycle(t, m)
	list := moods(1, 4000)
	observeAll(c, list[:800])
	ch := mustRefit(t, c, sampleOf(list[:800]))
	ch.Version.Version = 1
	c.Install(ch)
	c.publisher.comparison.N, c.publisher.comparison.Sum = 400, 1e5 // the fold-in erred without bounds
	observeWithUpdates(c, list[800:], 300)
	if got := c.publisher.race.Chosen; got != mixture.FormBayes || !c.publisher.updates {
		t.Fatalf("updates are of form %d, want %d; consumers get them: %t", got, mixture.FormBayes, c.publisher.updates)
	}
	forms := c.ensemble.candidates(false)
	contents := c.update(&forms).Contents(m)
	if contents.FoldIn != nil || !strings.Contains(contents.NoFoldIn, "naive Bayes") {
		t.Errorf("fold-in %v, none since %q", contents.FoldIn, contents.NoFoldIn)
	}
	published, err := scorer.NewModel(contents)
	if err != nil {
		t.Fatal(err)
	}
	l := c.ensemble.expertOf(experts.PartBayes).Learner
	var s snapshot.Scratch
	limit := c.champion.OutputLimit()
	read, want := make([]float64, 3), make([]float64, 3)
	for i := range list[:500] {
		ev := &list[3500+i]
		in := fitted.InputOf(&c.schema, ev)
		published.Score(read, &in, &s)
		l.Outputs(want, ev)
		for k := range read {
			want[k] = min(max(want[k], -limit), limit)
			if math.Abs(read[k]-want[k]) > 1e-9*(1+math.Abs(want[k])) {
				t.Fatalf("event %d, output %d: published %g, the learner %g", i, k, read[k], want[k])
			}
		}
	}
}
