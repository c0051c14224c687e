package convex

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// TestColdRefitOfManyRowsCutShort: a cold refit whose time ends before it has learned anything of all rows has the
// model of the rows that it began with.
func TestColdRefitOfManyRowsCutShort(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	const n = PathRows + 5000
	r := rand.New(rand.NewPCG(9, 9))
	p := &solver.Problem{X: solver.NewRows(2, n, 2*n), Outputs: 1, Loss: solver.Squared{}}
	for range n {
		a, b := r.NormFloat64(), r.NormFloat64()
		p.X.Append([]int32{0, 1}, []float64{a, b})
		p.Targets = append(p.Targets, a*b)
	}
	for _, algorithm := range []string{config.ConditionalGradient, "convex_fm"} {
		t.Run(algorithm, func(t *testing.T) { coldCutShort(t, algorithm, p) })
	}
}

func coldCutShort(t *testing.T, algorithm string, p *solver.Problem) {
	m := cycletest.RatingsModel(nil)
	m.Train.Lambda, m.Train.Algorithm = 1, algorithm
	run := func(cutAt int) (found *task.Candidate, calls int, b task.Budget, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		j := &task.Task{
			Process: task.Process{Budget: new(task.Budget), Workers: 1},
			Model:   m,
			Rough:   true,
			Judge:   func(*solver.Model) float64 { return math.NaN() },
			Rows: task.Rows{
				Problem: p,
			},
		}
		s := solver.DefaultSettings()
		s.MaxBasis, s.Workers = 1, 1
		s.Yield = func() {
			if calls++; calls == cutAt {
				cancel()
			}
		}
		if a := FitAlgorithm(j); a != nil {
			j.Target = &encode.Target{}
			found, err = FitBy(ctx, j, a, nil, s, j.Judge)
		} else {
			found, err = ColdPath(ctx, j, s)
		}
		return found, calls, *j.Budget, err
	}
	whole, calls, _, err := run(0)
	if err != nil || whole.Final && whole.Result == nil {
		t.Fatal(err)
	}
	kept := 0
	for at := 1; at <= calls; at += max(1, calls/100) {
		found, _, b, err := run(at)
		switch {
		case err != nil && !task.IsInterrupted(err):
			t.Fatal(err)
		case err != nil && kept > 0:
			t.Errorf("cut at block %d of %d: %v, although a cut before it left a model", at, calls, err)
		case err == nil && (found == nil || b.Cut == nil):
			t.Errorf("cut at block %d of %d: %v, cut %v", at, calls, found, b.Cut)
		case err == nil:
			kept++
		}
	}
	if kept == 0 {
		t.Error("no cut left a model: the test shows nothing")
	}
}
