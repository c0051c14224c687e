package cycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// ruled draws events whose binary label follows from a name and the first two of some numbers, by a rule that products
// can say. The product counts with the other sign from event 1,500 on.
func ruled(seed uint64, n, numbers int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 7))
	names := []string{"red", "green", "blue"}
	list := make([]event.Event, n)
	for i := range list {
		z, name := make([]float64, numbers), r.IntN(len(names))
		for f := range z {
			z[f] = r.NormFloat64()
		}
		list[i] = event.Event{Weight: 1, Numeric: z, Categorical: []string{names[name], "all"}}
		product := z[0] * z[1]
		if i >= 1500 {
			product = -product
		}
		if product+float64(name-1) > 0 {
			list[i].Label = 1
		}
		z[0] = 10 + 2*z[0]
	}
	return list
}

// ruledModel is of the events of ruled.
func ruledModel(numbers int) *config.Model {
	m := config.DefaultModel()
	m.Name = "rules"
	m.Schema = config.Schema{Task: "binary", Label: "on", TimeUnit: "ms", Categorical: []string{"colour", "group"}}
	for f := range numbers {
		m.Schema.Numeric = append(m.Schema.Numeric, fmt.Sprint("x", f))
	}
	m.Train.MaxBasis, m.Evaluate.Window = 10, 500
	m.Resolve()
	return &m
}

// TestUpdateFromAdaGrad: where products of numbers decide, and otherwise than at the last refit, updates are made of
// AdaGrad's learner. A reader's outputs are the learner's, also of so many numbers that it has no products.
// Versions say why they have no fold-in.
func TestUpdateFromAdaGrad(t *testing.T) {
	for _, numbers := range []int{2, 25} {
		t.Run(fmt.Sprint(numbers), func(t *testing.T) {
			m := ruledModel(numbers)
			m.Without = append(m.Without, pooledVariant.name)
			c := newCycle(t, m)
			list := ruled(1, 4000, numbers)
			observeAll(c, list[:1500])
			ch := mustRefit(t, c, sampleOf(list[:1500]))
			ch.Version.Version = 1
			c.Install(ch)
			observeWithUpdates(c, list[1500:], 200)
			if got := c.publisher.race.Chosen; numbers == 2 && got != mixture.FormAdaGrad {
				t.Errorf("updates are of form %d, want %d", got, mixture.FormAdaGrad)
			}
			c.publisher.race.Chosen = mixture.FormAdaGrad
			forms := c.ensemble.candidates(false)
			u := c.update(&forms)
			if (u.Vocabulary.Map != nil) != (numbers == 2) || u.Model != forms[mixture.FormAdaGrad].Model {
				t.Fatal("not the learner's model, or not its feature map")
			}
			contents := u.Contents(m)
			if contents.FoldIn != nil || !strings.Contains(contents.NoFoldIn, "AdaGrad") {
				t.Errorf("fold-in %v, none since %q", contents.FoldIn, contents.NoFoldIn)
			}
			published, err := scorer.NewModel(contents)
			if err != nil {
				t.Fatal(err)
			}
			l := c.ensemble.expertOf(experts.PartAdagrad).Learner
			var s snapshot.Scratch
			read, want, compared := []float64{0}, []float64{0}, 0
			for i := range list {
				ev := &list[i]
				if math.Abs(ev.Numeric[0]-10) > 4 || slices.ContainsFunc(ev.Numeric[1:],
					func(v float64) bool { return math.Abs(v) > 2 }) {
					continue // beyond the range of the sample, or the clip of products
				}
				compared++
				published.Score(read, &snapshot.Input{Categorical: ev.Categorical, Numeric: ev.Numeric}, &s)
				c.ensemble.takeNumbers(ev)
				l.Outputs(want, ev)
				if math.Abs(read[0]-want[0]) > 1e-9*(1+math.Abs(want[0])) {
					t.Fatalf("event %d: published %g, the learner %g", i, read[0], want[0])
				}
			}
			if compared < 100 {
				t.Errorf("%d events are compared", compared)
			}
		})
	}
}
