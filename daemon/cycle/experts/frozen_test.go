package experts

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/solver"
)

// TestFreezeKnowsCrosses: in a version with a cross that its refit found, names of lists have the weights that the
// learner has for them, and the cross has none. Its field is before that of the list.
func TestFreezeKnowsCrosses(t *testing.T) {
	target, schema := bayesTarget(t, "multiclass"), &event.Schema{Categorical: []string{"user"}, Multi: []string{"words"}}
	events, targets := drawTexts(rand.New(rand.NewPCG(6, 2)), "multiclass", 300), make([]float64, 3)
	bayes := NewNaiveBayes(schema, target, 1000)
	adagrad := NewAdaGrad(encode.NewNumberScale(0, target), schema, target, 1000, false)
	for i := range events {
		ev := &events[i]
		target.Encode(targets, ev)
		for _, l := range []Learner{bayes, adagrad} {
			l.Gather(ev)
			l.Learn(ev, targets, 1)
		}
	}
	crossed := &event.Schema{Categorical: []string{"user", "user×hour"}, Multi: schema.Multi}
	v := &encode.Vocabulary{Names: [][]string{{"u1"}, {"u1×h1"}, {"w2", "x1 4"}}, Schema: crossed, Own: 1,
		Field: []int32{0, 1, 2, 2}}
	for name, l := range map[string]Linear{"naive Bayes": bayes, "AdaGrad": adagrad} {
		model, _ := l.Freeze(v, solver.ANOVA)
		want := make([]float64, 3)
		for column, of := range []struct {
			field int
			name  string
		}{{0, "u1"}, {-1, ""}, {1, "w2"}, {1, "x1 4"}} {
			clear(want)
			if of.field >= 0 && !l.FreezeName(want, of.field, of.name) {
				t.Fatalf("%s has not learned %s", name, of.name)
			}
			if got := model.Linear[3*column : 3*column+3]; !slices.Equal(got, want) {
				t.Errorf("%s: column %d has weights %v, want %v", name, column, got, want)
			}
		}
	}
}
