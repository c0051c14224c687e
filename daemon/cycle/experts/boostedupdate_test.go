package experts

import (
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// TestTreesThatHaveMoved: trees that consumers have are as good as the current ones until the rule changes, and much
// worse soon after. Those of another update, or none, begin anew.
func TestTreesThatHaveMoved(t *testing.T) {
	m := cycletest.NumericModel(3, 2)
	b, s := newBoostedTest(t, m)
	l, random := b.Learner.(*Boosted), rand.New(rand.NewPCG(5, 9))
	targets := make([]float64, 2)
	learn := func(n int, changed bool) {
		for range n {
			ev := ruled(random, m, changed)
			b.Predict(ev)
			s.Target.Encode(targets, ev)
			l.Learn(ev, targets, 1)
		}
	}
	v := encode.BuildVocabulary(s.Schema, []event.Event{*ruled(random, m, false)}, false, 10, nil, nil)
	if model, _ := l.Freeze(v, solver.ANOVA); model != nil {
		t.Error("a model before the first fit")
	}
	learn(1500, false)
	_, frozen := l.Freeze(v, solver.ANOVA)
	l.MarkPublished(frozen.Trees)
	for range 10 {
		if l.HasMoved(frozen.Trees) {
			t.Fatal("the trees have moved without a change")
		}
		learn(100, false)
	}
	learn(400, true)
	if !l.HasMoved(frozen.Trees) {
		t.Errorf("the trees have not moved after a change: %+v", l.marked.lag)
	}
	if l.HasMoved(new(format.Trees)) || l.HasMoved(nil) {
		t.Error("trees that nothing is known of have moved")
	}
}
