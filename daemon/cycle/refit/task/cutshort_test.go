package task

import (
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// TestCutBetweenTheSolvesOfAPath: the solves of the first λ of a path ended, and the clock kept the others from
// beginning. The path is cut short after the first ones.
func TestCutBetweenTheSolvesOfAPath(t *testing.T) {
	var b Budget
	b.Solved(4, false, &solver.Result{Status: solver.Stalled}, &solver.Result{Status: solver.BasisLimit})
	want := []int{stepsAll, stepsAll, stepsNone, stepsNone}
	if b.Cut == nil || b.Cut.Solves != 0 || !slices.Equal(b.Cut.Steps, want) {
		t.Fatalf("cut %+v, want after %v", b.Cut, want)
	}
	again := Budget{Repeat: b.Cut}
	if tried := again.Begun([]float64{4, 3, 2, 1}); !slices.Equal(tried, []float64{4, 3}) {
		t.Errorf("the repeated path tries %v", tried)
	}
	again.Solved(4, true, &solver.Result{}, &solver.Result{})
	if !again.Over(t.Context()) {
		t.Error("the repeated refit is not over")
	}
}

// A solve that is stopped after so many steps is that of a context done there; on a path each λ has its own number.
func TestBudgetOfEachLambda(t *testing.T) {
	b := Budget{Repeat: &format.CutShort{Solves: 0, Steps: []int{2, stepsAll, 0, stepsNone}}}
	lambdas := []float64{8, 4, 2, 1}
	begun := b.Begun(lambdas)
	if len(begun) != 3 {
		t.Fatalf("%v begun", begun)
	}
	steps := b.Next(begun).Steps
	for lambda, want := range map[float64]int{8: 2, 4: stepsAll, 2: 0} {
		if got := steps(lambda); got != want {
			t.Errorf("λ %g may make %d steps, want %d", lambda, got, want)
		}
	}
	if b.Over(t.Context()) {
		t.Error("over before the solve that was cut short")
	}
	b.Solved(4, true, &solver.Result{}, &solver.Result{}, &solver.Result{})
	if !b.Over(t.Context()) {
		t.Error("not over after it")
	}
}
