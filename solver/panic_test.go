package solver

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
)

// brokenLoss panics at its n-th evaluation, wherever that is.
type brokenLoss struct {
	Loss
	left *atomic.Int64
}

func (l brokenLoss) Eval(grad, pred, target []float64) float64 {
	if l.left.Add(-1) == 0 {
		panic("broken loss")
	}
	return l.Loss.Eval(grad, pred, target)
}

// TestPanicIsTheCallers: a panic within a solve is one on the goroutine of the caller, who may recover it.
func TestPanicIsTheCallers(t *testing.T) {
	p := plantedRatings(41, 1200, 9, 11)
	s := smallSettings()
	s.MaxBasis, s.Workers = 3, 4
	recovered := func(what string, f func() error) {
		t.Helper()
		defer func() {
			v := recover()
			if text, ok := v.(interface{ String() string }); !ok || !strings.Contains(text.String(), "broken") {
				t.Errorf("%s: recovered %v", what, v)
			}
		}()
		t.Errorf("%s: returned %v", what, f())
	}
	broken := *p
	broken.Loss = brokenLoss{p.Loss, new(atomic.Int64)}
	broken.Loss.(brokenLoss).left.Store(2000)
	recovered("Solve", func() error { _, err := Solve(t.Context(), &broken, nil, s); return err })
	lambdas := []float64{30, 20, 10, 5}
	path := func(o PathOptions) func() error {
		return func() error { _, _, err := Path(context.Background(), p, lambdas, s, o); return err }
	}
	recovered("Path's judge", path(PathOptions{Judge: func(*Model) float64 { panic("broken judge") }}))
	recovered("Path's OnStep", path(PathOptions{OnStep: func(float64, Step, *Model, float64) { panic("broken step") }}))
}
