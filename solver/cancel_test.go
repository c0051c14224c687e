package solver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/solvertest"
)

// cancelAt returns a context, the Settings.Yield that cancels it at its n-th call, and the number of calls so far. 0
// cancels at once.
func cancelAt(t testing.TB, n int64) (ctx context.Context, yield func(), calls *atomic.Int64) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if calls = new(atomic.Int64); n == 0 {
		cancel()
	}
	return ctx, func() {
		if calls.Add(1) == n {
			cancel()
		}
	}, calls
}

// TestCutShort cancels solves after every number of blocks: the result is the model of the last step, with its
// objective and gap.
func TestCutShort(t *testing.T) {
	p := plantedRatings(41, 1200, 9, 11)
	for name, change := range map[string]func(*Settings){
		"penalised":   func(*Settings) {},
		"constrained": func(s *Settings) { s.Lambda, s.Tau = 0, 20 },
		"warm, full":  func(s *Settings) { s.MaxBasis = 3 },
		"stochastic":  func(s *Settings) { s.Solver = Stochastic },
		"one output":  func(s *Settings) { s.Penalty = L1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := smallSettings()
			s.MaxBasis, s.Workers, s.Tolerance = 4, 2, 1e-3
			change(&s)
			var warm *Model
			if name == "warm, full" {
				first := s
				first.Rough = true
				res, err := Solve(t.Context(), p, nil, first)
				if err != nil {
					t.Fatal(err)
				}
				warm = res.Model
			}
			points := map[int]*Model{}
			steps := s
			_, yield, calls := cancelAt(t, -1)
			steps.Yield = yield
			steps.OnStep = func(step Step, model *Model) bool { points[len(points)] = model; return false }
			if _, err := Solve(t.Context(), p, warm, steps); err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(3, 4))
			ends := map[int]bool{}
			cuts := tier.Size(int64(10), 25)
			for i := range cuts {
				ctx, yield, _ := cancelAt(t, (i*calls.Load()+rng.Int64N(calls.Load()))/cuts)
				cut := s
				cut.Yield = yield
				res, err := Solve(ctx, p, warm, cut)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
					continue
				}
				checkFinite(t, res)
				if objective := modelObjective(p, res.Model, s); !solvertest.Near(res.Objective, objective, 1e-9, 0) {
					t.Fatalf("objective %v of a model of objective %v after %d steps", res.Objective, objective,
						len(res.Steps))
				}
				ends[len(res.Steps)] = true
				if res.Status != Interrupted {
					continue // the count fell behind: with two workers it varies a little
				}
				if n := len(res.Steps); n > 0 {
					if !reflect.DeepEqual(res.Model, points[n-1]) && warm == nil {
						t.Fatalf("cut short after %d steps: not the model of the last step", n)
					}
					// The number of steps repeats it, bytes and all.
					again := s
					again.Budget.Steps = func(float64) int { return n }
					same, err := Solve(t.Context(), p, warm, again)
					if err != nil || !reflect.DeepEqual(same.Model, res.Model) || same.Objective != res.Objective ||
						same.Gap != res.Gap {
						t.Fatalf("%d steps repeated: objective %v and gap %v, was %v and %v (%v)", n-1, same.Objective,
							same.Gap, res.Objective, res.Gap, err)
					}
				}
			}
			if len(ends) < 3 {
				t.Errorf("solves were cut short at steps %v only", ends)
			}
		})
	}
}

// TestBudgets: a solve that waits in Yield past its deadline ends with what it has, and a budget of as many steps
// repeats it without a clock, bytes and all.
func TestBudgets(t *testing.T) {
	p, s := plantedRatings(41, 1200, 9, 11), smallSettings()
	s.MaxBasis, s.Tolerance, s.Workers = 4, 1e-3, 2
	s.Now = func() time.Time { return time.Time{} }
	_, counting, calls := cancelAt(t, -1)
	whole := s
	whole.Yield = counting
	if _, err := Solve(t.Context(), p, nil, whole); err != nil {
		t.Fatal(err)
	}
	cut := map[int]bool{}
	for i := range int64(12) {
		synctest.Test(t, func(t *testing.T) {
			waits := s
			waits.Budget.Deadline = time.Now().Add(time.Duration((i+1)*calls.Load()/24) * time.Millisecond)
			waits.Yield = func() { time.Sleep(time.Millisecond) }
			res, err := Solve(t.Context(), p, nil, waits)
			if err != nil || res.Status != TimeBudget {
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				return
			}
			cut[len(res.Steps)] = true
			again := s
			again.Budget.Steps = func(lambda float64) int {
				if lambda != s.Lambda {
					t.Errorf("asked for λ %g", lambda)
				}
				return len(res.Steps)
			}
			same, err := Solve(t.Context(), p, nil, again)
			if err != nil {
				t.Fatal(err)
			}
			same.NewtonIterations = res.NewtonIterations // those that the deadline cut short count
			if !reflect.DeepEqual(same, res) {
				t.Errorf("a budget of %d steps: %+v, at the deadline %+v", len(res.Steps), same, res)
			}
		})
	}
	if len(cut) < 3 {
		t.Errorf("solves were cut short after %v steps only", cut)
	}
	again := s
	again.Budget.Steps = func(float64) int { return -1 }
	if res, err := Solve(t.Context(), p, nil, again); err != nil || res.CutShort || res.Status == TimeBudget {
		t.Errorf("without a limit: %+v (%v)", res, err)
	}
}

// TestBlocksAreCancelled: once the context is done no goroutine begins another block.
func TestBlocksAreCancelled(t *testing.T) {
	for _, size := range []int{1, 3} {
		ctx, yield, _ := cancelAt(t, 5)
		var begun atomic.Int64
		parallel.Workers{
			Size:  size,
			Pause: yield,
			Done:  ctx.Done(),
		}.Blocks(1000, 1, func(int, int, int, int) { begun.Add(1) })
		if n := begun.Load(); n < 4 || size == 1 && n > 4 || n > 500 {
			t.Errorf("%d goroutines: %d blocks were begun, cancelled at the fifth", size, n)
		}
	}
}

// modelObjective evaluates a model from scratch.
func modelObjective(p *Problem, model *Model, s Settings) float64 {
	out, work := make([]float64, p.Outputs), make([]float64, 2*model.NumBasis)
	sum := s.form().
		Term(model.Weights, model.NumBasis, p.Outputs) +
		0.5*s.LinearRidge*square(model.Linear) + 0.5*s.BiasRidge*square(model.Bias)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		model.Predict(out, work, index, value)
		sum += p.Weight(i) * p.Loss.Eval(nil, out, p.Target(i))
	}
	return sum
}

// TestWorkersAndKinds compares whole results for 1, 2 and 8 workers.
func TestWorkersAndKinds(t *testing.T) {
	tier.Need(t, tier.Long) // some dozens of problems, three times
	ratings := plantedRatings(42, output.StochasticRows, 30, 40)
	rng := rand.New(rand.NewPCG(43, 44))
	const n, d, m = 4200, 5, 3
	numeric := &Problem{X: NewRows(d, n, n*d), Outputs: m, Loss: MultinomialLogistic{}}
	classes := make([]int, n)
	index := []int32{0, 1, 2, 3, 4}
	for i := range classes {
		row := make([]float64, d)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		numeric.X.Append(index, row)
		if row[0]*row[1] > 0.5 {
			classes[i] = 1
		} else if row[2]*row[3] > 0.5 {
			classes[i] = 2
		}
	}
	numeric.Targets = oneHot(classes, m)
	base := DefaultSettings()
	base.Lambda, base.MaxBasis, base.MaxIterations, base.Tolerance = 5, 1, 5, 1e-2
	clock := time.Unix(0, 0)
	base.Now = func() time.Time { return clock }
	check := func(p *Problem, s Settings) {
		t.Run(
			fmt.Sprintf("%d rows/%v/%v/%v/%v/%g", p.X.NumRows(), s.Kernel, s.Penalty, s.Solver, s.Refit, s.Tau),
			func(t *testing.T) {
				t.Parallel()
				var first *Result
				for _, workers := range []int{1, 2, 8} {
					s.Workers = workers
					res, err := Solve(t.Context(), p, nil, s)
					if err != nil {
						t.Fatal(err)
					}
					if first == nil {
						if first = res; res.Model.NumBasis == 0 {
							t.Fatal("no basis vectors")
						}
					} else if !reflect.DeepEqual(first, res) {
						t.Errorf("%d workers: objective %v, gap %v; one worker %v and %v", workers, res.Objective, res.Gap,
							first.Objective, first.Gap)
					}
				}
			},
		)
	}
	for i, pen := range allPenalties {
		s := base
		s.Penalty = pen // sorted pairs, and the epochs of the hybrid method
		check(ratings, s)
		s.LinearRidge, s.Lambda, s.Tau = 0, 0, 30
		check(ratings, s)
		for j, method := range []Method{FISTA, Stochastic, SVRG, Newton} {
			for l, kernel := range []Kernel{ANOVA, Homogeneous} {
				s := base
				s.Kernel, s.Penalty, s.Solver, s.FullIterations = kernel, pen, method, 5
				if (i+j+l)%2 == 1 {
					s.Lambda, s.Tau, s.LinearRidge, s.BiasRidge = 0, 30, 0, 0
				}
				if (j+l)%2 == 1 {
					s.Refit = Full
				}
				s.Rough = (i+j)%2 == 1
				check(numeric, s)
			}
		}
	}
}

// TestCancelLatency measures how long a solve of many rows runs on after it was cancelled: 13 ms at most where a solver
// has a processor to itself. What is asserted leaves room for one that it shares.
func TestCancelLatency(t *testing.T) {
	tier.Need(t, tier.Load) // a million rows, a minute or more
	p := plantedRatings(45, 1_000_000, 6000, 4000)
	s := DefaultSettings()
	s.Lambda, s.MaxBasis, s.Workers, s.Tolerance = 10, 2, 1, 1e-2
	rng := rand.New(rand.NewPCG(5, 6))
	began := time.Now()
	if _, err := Solve(t.Context(), p, nil, s); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(began)
	var worst time.Duration
	for range 15 {
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled time.Time
		wait := time.Duration(rng.Float64() * float64(whole))
		timer := time.AfterFunc(wait, func() { cancelled = time.Now(); cancel() })
		res, err := Solve(ctx, p, nil, s)
		end := time.Now()
		if ctx.Err() == nil {
			timer.Stop()
			cancel()
			continue
		}
		late := end.Sub(cancelled)
		steps := -1
		if err == nil {
			steps = len(res.Steps)
		}
		t.Logf("after %v: %v, %d steps", wait.Round(time.Millisecond), late, steps)
		worst = max(worst, late)
	}
	t.Logf("whole solve %v, worst latency %v", whole, worst)
	if worst == 0 || worst > time.Second {
		t.Errorf("a solve ran on for %v after it was cancelled, want 1s at most", worst)
	}
}
