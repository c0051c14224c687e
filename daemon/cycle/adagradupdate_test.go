package cycle

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/experts"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
)

// ruled draws events whose binary label follows from two numbers and a name by rules that products can say.
func ruled(seed uint64, n int) []event.Event {
	r := rand.New(rand.NewPCG(seed, 7))
	names := []string{"red", "green", "blue"}
	list := make([]event.Event, n)
	for i := range list {
		a, b, name := r.NormFloat64(), r.NormFloat64(), r.IntN(len(names))
		list[i] = event.Event{
			Weight: 1, Numeric: []float64{10 + 2*a, b}, Categorical: []string{names[name], "all"},
		}
		if a*b+float64(name-1) > 0 {
			list[i].Label = 1
		}
	}
	return list
}

// TestUpdateFromAdaGrad: where products of numbers and names decide, updates are made of AdaGrad's learner. A reader's
// outputs are the learner's.
func TestUpdateFromAdaGrad(t *testing.T) {
	m := config.DefaultModel()
	m.Name = "rules"
	m.Schema = config.Schema{Task: "binary", Label: "on", TimeUnit: "ms", Categorical: []string{"colour", "group"},
		Numeric: []string{"x", "y"}}
	m.Train.MaxBasis, m.Evaluate.Window = 10, 500
	m.Resolve()
	c := newCycle(t, &m)
	list := ruled(1, 4000)
	observeAll(c, list[:1500])
	ch := mustRefit(t, c, sampleOf(list[:1500]))
	ch.Version.Version = 1
	c.Install(ch)
	observeWithUpdates(c, list[1500:], 200)
	if got := c.publisher.race.Chosen; got != mixture.FormAdaGrad {
		t.Errorf("updates are of form %d, want %d", got, mixture.FormAdaGrad)
	}
	frozen := c.ensemble.candidates(false)[mixture.FormAdaGrad]
	if frozen.Model == nil || frozen.Vocab.Map == nil {
		t.Fatal("no candidate with a map of products")
	}
	c.publisher.race.Chosen = mixture.FormAdaGrad
	forms := c.ensemble.candidates(false)
	u := c.update(&forms)
	published, err := scorer.NewModel(u.Contents(&m))
	if err != nil {
		t.Fatal(err)
	}
	l := c.ensemble.expertOf(experts.PartAdagrad).Learner
	var s snapshot.Scratch
	read, want := []float64{0}, []float64{0}
	for i := range list[:200] {
		ev := &list[i]
		if math.Abs(ev.Numeric[0]-10) > 4 || math.Abs(ev.Numeric[1]) > 2 {
			continue // beyond the range of the sample, or the clip of products
		}
		published.Score(read, &snapshot.Input{Categorical: ev.Categorical, Numeric: ev.Numeric}, &s)
		c.ensemble.numbers.Take(ev)
		l.Outputs(want, ev)
		if math.Abs(read[0]-want[0]) > 1e-9*(1+math.Abs(want[0])) {
			t.Fatalf("event %d: published %g, the learner %g", i, read[0], want[0])
		}
	}
}
