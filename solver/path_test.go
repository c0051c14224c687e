package solver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestPath checks that a path is what separate solves would give, scored at every step, for any number of workers.
func TestPath(t *testing.T) {
	train, held := plantedRatings(51, 700, 8, 9), plantedRatings(51, 900, 8, 9)
	s := smallSettings()
	s.MaxBasis, s.Tolerance = 3, 1e-2
	clock := time.Unix(0, 0)
	s.Now = func() time.Time { return clock }
	top, err := LambdaMax(t.Context(), train, s)
	if err != nil {
		t.Fatal(err)
	}
	lambdas := []float64{1.5 * top, 0.5 * top, 0.1 * top, 0.03 * top}
	judge := func(model *Model) float64 {
		return modelObjective(held, model, Settings{Penalty: L1, Lambda: 1e-12}) // the loss
	}
	type call struct {
		lambda float64
		k      int
	}
	var first []*PathPoint
	for _, workers := range []int{1, 2, 8} {
		s.Workers = workers
		running := false
		var calls []call
		points, best, err := Path(t.Context(), train, lambdas, s, PathOptions{Judge: judge,
			OnStep: func(lambda float64, step Step, model *Model, score float64) {
				if running {
					t.Error("OnStep was called while it ran")
				}
				running = true
				defer func() { running = false }()
				if step.K != model.NumBasis || score != judge(model) {
					t.Errorf("step of %d, model of %d, score %v", step.K, model.NumBasis, score)
				}
				calls = append(calls, call{lambda, step.K})
			}})
		if err != nil {
			t.Fatal(err)
		}
		if len(points) != len(lambdas) {
			t.Fatalf("%d points", len(points))
		}
		at := 0
		for i, point := range points {
			one := s
			one.Lambda = lambdas[i]
			alone, err := Solve(t.Context(), train, nil, one)
			if err != nil {
				t.Fatal(err)
			}
			if point.Lambda != lambdas[i] || !reflect.DeepEqual(alone, point.Result) {
				t.Errorf("%d workers, λ %g: objective %v, alone %v", workers, point.Lambda, point.Result.Objective,
					alone.Objective)
			}
			if point.Score > judge(alone.Model) || point.Score != judge(point.Best) ||
				point.Score < points[best].Score {
				t.Errorf("λ %g: score %v, of the last model %v, best of all %v", point.Lambda, point.Score,
					judge(alone.Model), points[best].Score)
			}
			steps := 0
			for _, c := range calls {
				if c.lambda == point.Lambda {
					if c.k != alone.Steps[steps].K {
						t.Errorf("λ %g: step %d has %d basis vectors", c.lambda, steps, c.k)
					}
					steps++
				}
			}
			if at += steps; steps != len(alone.Steps) {
				t.Errorf("λ %g: %d calls for %d steps", point.Lambda, steps, len(alone.Steps))
			}
		}
		if at != len(calls) {
			t.Errorf("%d calls, %d steps", len(calls), at)
		}
		if first == nil {
			if first = points; first[0].Best.NumBasis != 0 || first[3].Result.Model.NumBasis == 0 || best == 0 {
				t.Errorf("best λ is number %d", best)
			}
		} else if !reflect.DeepEqual(first, points) {
			t.Errorf("%d workers give another path", workers)
		}
	}
}

// TestPathCarries checks that λ which start from each other end where cold solves do, in fewer steps, for any number
// of workers.
func TestPathCarries(t *testing.T) {
	train := plantedRatings(51, 700, 8, 9)
	s := smallSettings()
	s.MaxBasis, s.Tolerance, s.Rough = 6, 1e-3, true
	s.Now = func() time.Time { return time.Time{} }
	top, err := LambdaMax(t.Context(), train, s)
	if err != nil {
		t.Fatal(err)
	}
	lambdas := []float64{0.5 * top, 0.3 * top, 0.2 * top, 0.1 * top}
	cold, _, err := Path(t.Context(), train, lambdas, s, PathOptions{})
	if err != nil {
		t.Fatal(err)
	}
	judge := func(model *Model) float64 {
		return modelObjective(train, model, Settings{Penalty: L1, Lambda: 1e-12})
	}
	var first []*PathPoint
	for _, workers := range []int{1, 2, 8} {
		s.Workers = workers
		points, _, err := Path(t.Context(), train, lambdas, s, PathOptions{Carry: true, Judge: judge})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = points
		} else if !reflect.DeepEqual(first, points) {
			t.Errorf("%d workers give another path", workers)
		}
	}
	steps, coldSteps := 0, 0
	for i, point := range first {
		steps, coldSteps = steps+len(point.Result.Steps), coldSteps+len(cold[i].Result.Steps)
		if got, want := point.Result.Objective, cold[i].Result.Objective; !(got <= 1.005*want) {
			t.Errorf("λ %g: objective %v, from nothing %v", point.Lambda, got, want)
		}
		if n := point.Result.Model.NumBasis; n > s.MaxBasis {
			t.Errorf("λ %g: %d basis vectors", point.Lambda, n)
		}
	}
	if steps >= coldSteps {
		t.Errorf("%d steps, %d from nothing", steps, coldSteps)
	}
	warm := PathOptions{Carry: true, Warm: &Warm{Model: first[2].Result.Model}}
	again, _, err := Path(t.Context(), train, lambdas[3:], s, warm)
	if err != nil || !reflect.DeepEqual(again[0].Result, first[3].Result) {
		t.Errorf("the last λ from the model of the one before: %v", err)
	}
}

// TestPathStepPatience checks that a λ is left when its steps are no better than one before them, and keeps that one
// as its best.
func TestPathStepPatience(t *testing.T) {
	p := plantedRatings(52, 800, 9, 10)
	s := smallSettings()
	s.MaxBasis, s.Tolerance, s.Rough = 9, 1e-4, true
	best := func(model *Model) float64 { return math.Abs(float64(model.NumBasis) - 1) }
	for _, carry := range []bool{false, true} {
		points, _, err := Path(t.Context(), p, []float64{2, 1}, s,
			PathOptions{Judge: best, StepPatience: 3, Carry: carry})
		if err != nil {
			t.Fatal(err)
		}
		first := points[0]
		if !first.Left || first.Result.Status != Stalled || len(first.Result.Steps) != 5 || first.Best.NumBasis != 1 ||
			first.Final {
			t.Errorf("carry %v: left %v, %v after %d steps, best k %d", carry, first.Left, first.Result.Status,
				len(first.Result.Steps), first.Best.NumBasis)
		}
		points, _, err = Path(t.Context(), p, []float64{2}, s, PathOptions{Judge: best, Carry: carry})
		if err != nil || points[0].Left || len(points[0].Result.Steps) <= 5 {
			t.Errorf("carry %v, without: left %v after %d steps (%v)", carry, points[0].Left,
				len(points[0].Result.Steps), err)
		}
	}
}

// TestPathPatience checks that the end of a path goes by the order of its λ.
func TestPathPatience(t *testing.T) {
	p := plantedRatings(52, 800, 9, 10)
	s := smallSettings()
	s.MaxBasis, s.Tolerance = 1, 1e-2
	lambdas := []float64{100, 50, 25, 12, 6, 3}
	for _, workers := range []int{1, 8} {
		s.Workers = workers
		points, best, err := Path(t.Context(), p, lambdas, s,
			PathOptions{Patience: 2, Judge: func(model *Model) float64 { return 1 + square(model.Weights) }})
		if err != nil || len(points) != 3 || best != 0 || points[2].Lambda != 25 {
			t.Errorf("%d workers: %d points, best %d (%v)", workers, len(points), best, err)
		}
		points, best, err = Path(t.Context(), p, lambdas, s, PathOptions{})
		if err != nil || len(points) != 6 || best != 5 || !points[5].Final || !math.IsNaN(points[5].Score) {
			t.Errorf("%d workers, no judge: %d points, best %d (%v)", workers, len(points), best, err)
		}
	}
}

// TestPathPatienceWaits checks that a λ that ended early does not count before those ahead of it.
func TestPathPatienceWaits(t *testing.T) {
	points := make([]*PathPoint, 5)
	called := 0
	run := &pathRun{points: points, cut: 5, options: PathOptions{Patience: 1}}
	for range points {
		run.cancel = append(run.cancel, func() { called++ })
	}
	for _, ended := range []struct {
		i     int
		score float64
		cut   int
	}{{1, 3, 5}, {2, 4, 5}, {3, 9, 5}, {0, 5, 3}} {
		points[ended.i] = &PathPoint{Score: ended.score}
		run.judgeOrder()
		if run.cut != ended.cut {
			t.Errorf("after number %d: the path ends at %d, want %d", ended.i, run.cut, ended.cut)
		}
	}
	if called != 2 {
		t.Errorf("%d solves were called off", called)
	}
}

func TestPathStops(t *testing.T) {
	p := plantedRatings(53, 1500, 9, 10)
	s := smallSettings()
	s.MaxBasis, s.Workers = 50, 2
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	points, _, err := Path(
		ctx,
		p,
		[]float64{3, 2, 1, 0.5},
		s,
		PathOptions{OnStep: func(_ float64, _ Step, model *Model, _ float64) {
			if calls++; calls == 2 { // before either solve of two can have ended
				cancel()
			}
		}},
	)
	if err != nil || len(points) == 0 || len(points) > 2 {
		t.Fatalf("%d points (%v)", len(points), err)
	}
	for _, point := range points {
		checkFinite(t, point.Result)
		if point.Result.Status != Interrupted {
			t.Errorf("λ %g: %v", point.Lambda, point.Result.Status)
		}
	}
	if _, _, err := Path(ctx, p, []float64{3}, s, PathOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if _, _, err := Path(t.Context(), p, []float64{3, -1}, s, PathOptions{}); !errors.Is(err, ErrSettings) {
		t.Errorf("negative λ: %v", err)
	}
}

// lateContext is a context that its children hear from one by one, as those of any context do: once it is done, from
// the one at first on, at each call of pass the next.
type lateContext struct {
	context.Context
	done     chan struct{}
	first    int
	over     bool
	children []func()
	heard    int
}

func (c *lateContext) Done() <-chan struct{} { return c.done }

func (c *lateContext) Err() error {
	if c.over {
		return context.DeadlineExceeded
	}
	return nil
}

func (c *lateContext) AfterFunc(f func()) (stop func() bool) {
	c.children = append(c.children, f)
	return func() bool { return true }
}

func (c *lateContext) pass() {
	if !c.over {
		c.over = true
		close(c.done)
	}
	if n := len(c.children); c.heard < n {
		c.children[(c.first+c.heard)%n]()
		c.heard++
	}
}

// TestPathCutShortIsRepeated: wherever the clock cuts a path short, and whichever solve hears of that first, the points
// are those of the first λ, and as many steps of each give them again, without a clock and with any number of workers.
func TestPathCutShortIsRepeated(t *testing.T) {
	p := plantedRatings(54, 300, 8, 9)
	base := smallSettings()
	base.MaxBasis, base.Tolerance, base.Workers = 3, 1e-2, 1
	base.Now = func() time.Time { return time.Time{} }
	lambdas := []float64{12, 6, 3, 1.5}
	judge := func(model *Model) float64 {
		return modelObjective(p, model, Settings{Penalty: L1, Lambda: 1e-12})
	}
	change := []func(*Settings, *PathOptions){
		func(s *Settings, _ *PathOptions) { s.Refit, s.Solver, s.FullEvery = Full, FISTA, 2 },
		func(s *Settings, o *PathOptions) { s.Rough, o.Carry, o.StepPatience = true, true, 2 },
		func(s *Settings, _ *PathOptions) { s.Solver = Stochastic },
		func(s *Settings, _ *PathOptions) { s.Solver = SVRG },
		func(s *Settings, _ *PathOptions) { s.Rough = true },
	}
	for i, change := range tier.Size(change[:2], change) {
		base, options := base, PathOptions{Patience: 2, Judge: judge}
		change(&base, &options)
		calls := 0
		whole := base
		whole.Yield = func() { calls++ }
		if _, _, err := Path(t.Context(), p, lambdas, whole, options); err != nil {
			t.Fatal(err)
		}
		cuts := map[string]bool{}
		cutAt := func(n, first, every int) {
			ctx := &lateContext{Context: t.Context(), done: make(chan struct{}), first: first}
			cut, now := base, 0
			cut.Yield = func() {
				if now++; now >= n && (now-n)%every == 0 {
					ctx.pass()
				}
			}
			points, best, err := Path(ctx, p, lambdas, cut, options)
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				return
			}
			steps := map[float64]int{}
			for i, point := range points {
				if point.Lambda != lambdas[i] {
					t.Fatalf("cut at block %d of %d: the point at %d is of λ %g", n, calls, i, point.Lambda)
				}
				if steps[point.Lambda] = -1; point.Result.Status == TimeBudget || point.Result.CutShort {
					steps[point.Lambda] = len(point.Result.Steps)
				}
			}
			again := base
			again.Workers = 1 + n%4
			again.Budget.Steps = func(lambda float64) int { return steps[lambda] }
			same, at, err := Path(t.Context(), p, lambdas[:len(points)], again, options)
			if err != nil || len(same) != len(points) || at != best {
				t.Fatalf("cut at block %d of %d: %d points, best %d, repeated %d and %d (%v)", n, calls, len(points),
					best, len(same), at, err)
			}
			for i, point := range points {
				if !reflect.DeepEqual(same[i].Best, point.Best) || !reflect.DeepEqual(same[i].Result.Model, point.Result.Model) ||
					same[i].Step != point.Step || same[i].Final != point.Final ||
					same[i].Result.Status != point.Result.Status {
					t.Errorf("cut at block %d of %d, λ %g after %d steps: objective %v, repeated %v", n, calls,
						point.Lambda, steps[point.Lambda], point.Result.Objective, same[i].Result.Objective)
				}
			}
			cuts[fmt.Sprint(steps)] = true
		}
		for n := 1; n <= calls; n += max(1, calls/tier.Size(12, 30)) {
			for first := 0; first < len(lambdas); first += 2 {
				for _, every := range tier.Size([]int{30}, []int{1, 300}) {
					cutAt(n, first, every)
				}
			}
		}
		t.Logf("settings %d: %d blocks, cut short in %d ways", i, calls, len(cuts))
		if len(cuts) < 5 {
			t.Errorf("settings %d: cut short in %d ways only", i, len(cuts))
		}
	}
}

// TestPathYields: the solves of a path yield between their blocks, as a single solve does.
func TestPathYields(t *testing.T) {
	p, s := plantedRatings(51, 700, 8, 9), smallSettings()
	s.MaxBasis, s.Tolerance, s.Lambda = 3, 1e-2, 2
	yields := func(solve func() error) int64 {
		var calls atomic.Int64
		s.Yield = func() { calls.Add(1) }
		if err := solve(); err != nil {
			t.Fatal(err)
		}
		return calls.Load()
	}
	one := yields(func() error { _, err := Solve(t.Context(), p, nil, s); return err })
	path := yields(func() error {
		_, _, err := Path(t.Context(), p, []float64{2, 2}, s, PathOptions{Judge: func(*Model) float64 { return 0 }})
		return err
	})
	if path < 3*one/2 {
		t.Errorf("two solves of a path yielded %d times, one alone %d times", path, one)
	}
}
