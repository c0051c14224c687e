package refit_test

import (
	"context"
	"errors"
	"math"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/refit"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/refit/variational"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// stage is a way of a refit, with a stream for it.
type stage struct {
	name   string
	model  func() *config.Model
	events func(n int) []event.Event
}

var lineSearch = stage{"line search", func() *config.Model {
	return cycletest.RatingsModel(func(m *config.Model) { m.Train.Refit = "line_search" })
}, func(n int) []event.Event { return cycletest.Stream(8, n) }}

// stages are variational, output layer, full, each solver, λ fixed and chosen, names and numbers, one output and
// several.
var stages = []stage{
	{
		"variational",
		func() *config.Model { return cycletest.RatingsModel(nil) },
		func(n int) []event.Event { return cycletest.Stream(5, n) },
	},
	{
		"feature map",
		func() *config.Model { return chessModel("fourier:20") },
		func(n int) []event.Event { return chess(3, n, 1, false) },
	},
	{"number and names", cycletest.TripsModel, func(n int) []event.Event { return cycletest.Trips(9, n) }},
	{
		"groups",
		func() *config.Model { return sideModel(nil) },
		func(n int) []event.Event { return withSides(cycletest.Stream(5, n)) },
	},
	{"fields that carry nothing", taggedModel, func(n int) []event.Event { return withTags(cycletest.Stream(5, n)) }},
	{"output, stochastic", func() *config.Model {
		return cycletest.RatingsModel(func(m *config.Model) { m.Train.Refit, m.Train.Solver = "output", "stochastic" })
	}, func(n int) []event.Event { return cycletest.Stream(6, n) }},
	{"output, svrg, fixed lambda", func() *config.Model {
		return cycletest.RatingsModel(
			func(m *config.Model) { m.Train.Refit, m.Train.Solver, m.Train.Lambda = "output", "svrg", 3 })
	}, func(n int) []event.Event { return cycletest.Stream(7, n) }},
	{"full", func() *config.Model {
		return cycletest.RatingsModel(func(m *config.Model) { m.Train.Refit, m.Train.Solver = "full", "fista" })
	}, func(n int) []event.Event { return cycletest.Stream(8, n) }},
	lineSearch,
	{"numbers", switchModel, func(n int) []event.Event { return cycletest.Numbers(9, n) }},
	{
		"classes",
		func() *config.Model { return cycletest.ClassesModel(event.Multiclass, nil) },
		func(n int) []event.Event { return cycletest.ClassStream(event.Multiclass, n) },
	},
}

// Every refit, cold or warm, is repeated to the same payload from its record, with any number of workers.
func TestRefitIsRepeated(t *testing.T) {
	for _, s := range tier.Size(stages[:5], stages) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.isRepeated(t, func(*fitted.Fitted) {})
		})
	}
}

// TestLineSearchIsRepeated: refits by line search, cold and warm, with λ chosen, are repeated to the same payload;
// their gap is certified.
func TestLineSearchIsRepeated(t *testing.T) {
	t.Parallel()
	lineSearch.isRepeated(t, func(ch *fitted.Fitted) {
		v := &ch.Version
		if v.Solver != "algorithm1:line_search" || v.Form != format.FormConvex || v.FISTAIterations != 0 {
			t.Errorf("version by %s of form %s, %d iterations of refits", v.Solver, v.Form, v.FISTAIterations)
		}
		if v.GapKind != string(solver.Certified) || v.GapLimit == "" {
			t.Errorf("%s gap limited by %q", v.GapKind, v.GapLimit)
		}
	})
}

// isRepeated makes three refits, calls check with each and repeats it.
func (s *stage) isRepeated(t *testing.T, check func(*fitted.Fitted)) {
	m := s.model()
	m.Publish.KeepSample = true
	c := newCycle(t, m)
	some := tier.Size(200, 600)
	events := s.events(3 * some)
	for round := range 3 {
		observeAll(c, events[round*some:(round+1)*some])
		ch := mustRefit(t, c, sampleOf(events[:(round+1)*some]))
		if ch.Version.Warm != (round > 0) || ch.CutShort != nil {
			t.Fatalf("round %d: warm %t, cut short %+v", round, ch.Version.Warm, ch.CutShort)
		}
		check(ch)
		repeated(t, ch, m, 1+round)
		ch.Version.Version = int64(round + 1)
		c.Install(ch)
	}
}

// A refit that its time budget cut short, wherever that was, is repeated to the same payload without a clock.
func TestRefitCutShortIsRepeated(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	budgets := tier.Size(2, 12)
	for _, s := range tier.Size(stages[:3], stages) {
		t.Run(s.name, func(t *testing.T) {
			m := s.model()
			m.Publish.KeepSample = true
			events := s.events(tier.Size(1000, 3000))
			first := len(events) / 2
			short, kinds := 0, make(map[string]int)
			for _, warm := range []bool{false, true} {
				c := newCycle(t, m)
				observeAll(c, events[:first])
				rows := events[:first]
				if warm {
					ch := mustRefit(t, c, sampleOf(rows))
					ch.Version.Version = 1
					c.Install(ch)
					observeAll(c, events[first:])
					rows = events
				}
				start := time.Now()
				mustRefit(t, c, sampleOf(rows))
				whole := time.Since(start)
				for n := range budgets {
					ctx, cancel := context.WithTimeout(t.Context(), whole*time.Duration(n+1)/time.Duration(budgets+1))
					ch, err := c.Refit(ctx, sampleOf(rows))
					cancel()
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Fatal(err)
						}
						continue // there was no model yet
					}
					if ch.CutShort != nil {
						short++
						switch {
						case ch.CutShort.Sweeps != nil:
							kinds["sweeps"]++
						case ch.CutShort.Steps == nil:
							kinds["between"]++
						case len(ch.CutShort.Steps) > 1:
							kinds["path"]++
						default:
							kinds["solve"]++
						}
					}
					repeated(t, ch, m, 1+n%2)
				}
			}
			t.Logf("%d refits cut short: %v", short, kinds)
			if short == 0 && tier.Asked(tier.Long) {
				t.Error("no refit was cut short with a model")
			}
		})
	}
}

// TestRefitCutAtEachBlockIsRepeated: so is one whose context is done from some block on, whichever that is.
func TestRefitCutAtEachBlockIsRepeated(t *testing.T) {
	tier.Need(t, tier.Load) // some hundreds of refits, which take minutes
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := s.model()
			m.Publish.KeepSample, m.Train.TimeBudget = true, 0
			events := s.events(600)
			for _, warm := range []bool{false, true} {
				run := func(at int) (ch *fitted.Fitted, calls int) {
					synctest.Test(t, func(t *testing.T) {
						c, rows := newCycle(t, m), events[:400]
						c.Workers = 1
						observeAll(c, rows)
						if warm {
							ch := mustRefit(t, c, sampleOf(rows))
							ch.Version.Version = 1
							c.Install(ch)
							rows = events
							observeAll(c, rows[400:])
						}
						var err error
						if ch, calls, err = cutAt(t, c, rows, at); err != nil &&
							!errors.Is(err, context.DeadlineExceeded) {
							t.Fatal(err)
						}
					})
					return ch, calls
				}
				_, all := run(0)
				short := 0
				for at := 1; at <= all; at += max(1, all/40) {
					ch, _ := run(at)
					if ch == nil {
						continue // there was no model yet
					}
					if ch.CutShort != nil {
						short++
					}
					repeated(t, ch, m, 1+at%3)
				}
				t.Logf("warm %t: %d blocks, %d refits cut short with a model", warm, all, short)
			}
		})
	}
}

// TestRefitEndsWithItsBudget: a refit that is slow from some block on ends with its time budget, in the convex stage or
// in the sweeps, and is repeated from where that was. Sweeps of the Gaussian expert come after those: if they are cut
// short, the version was judged as a whole. Of the sweeps over all rows, which come last, those that ended count.
func TestRefitEndsWithItsBudget(t *testing.T) {
	const budget, wait = 10 * time.Second, time.Second
	m := cycletest.RatingsModel(
		func(m *config.Model) { m.Train.TimeBudget, m.Publish.KeepSample = config.Duration(budget), true })
	sample := func() *encode.Sample { return sampleOf(cycletest.Stream(1, 1500)) }
	run := func(from int) (ch *fitted.Fitted, calls int, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c, began := newCycle(t, m), time.Now()
			c.Workers = 1
			c.Throttle = func(context.Context, time.Duration) func() {
				return func() {
					if calls++; calls > from {
						time.Sleep(wait)
					}
				}
			}
			ch, took = mustRefit(t, c, sample()), time.Since(began)
		})
		return ch, calls, took
	}
	_, all, _ := run(math.MaxInt)
	kinds := make(map[string]bool)
	for from := all; from > all-500 && len(kinds) < 5; from -= 10 {
		ch, calls, took := run(from)
		v, kind := &ch.Version, "whole"
		switch cut := ch.CutShort; {
		case cut == nil && v.HeldOutSweeps == 0:
			kind = "without the held-out rows"
		case cut == nil && v.HeldOutSweeps < v.Sweeps:
			kind = "sweeps over all rows"
		case cut != nil && cut.Sweeps != nil:
			kind = "sweeps"
		case cut != nil:
			kind = "solve"
		}
		if took > budget+wait || kind != "whole" && took < budget ||
			(kind == "sweeps" || kind == "solve") && v.HeldOutSweeps > 0 {
			t.Errorf("slow from block %d of %d on: %s, ended at %d after %v, cut %+v", from, all, kind, calls, took,
				ch.CutShort)
		}
		if !kinds[kind] {
			repeated(t, ch, m, 2)
		}
		kinds[kind] = true
	}
	if len(kinds) < 5 {
		t.Errorf("refits that end with their budget: %v", kinds)
	}
}

// Without publish.keep_sample nothing is kept, and what is no record is an error.
func TestRecordIsOptional(t *testing.T) {
	m := cycletest.RatingsModel(nil)
	c := newCycle(t, m)
	ch := mustRefit(t, c, sampleOf(cycletest.Stream(1, 300)))
	if ch.Kept != nil {
		t.Errorf("%d bytes kept", len(ch.Kept))
	}
	for _, b := range [][]byte{nil, {1, 2, 3}, make([]byte, 1000)} {
		if _, err := task.ReadRecord(b); err == nil {
			t.Error("no error")
		}
	}
}

// Sweeps that the clock ended are counted whole, and a repeated stage makes as many.
func TestBudgetCountsSweeps(t *testing.T) {
	m := cycletest.RatingsModel(nil)
	schema := m.Schema.Event()
	j := &task.Task{
		Process: task.Process{Budget: new(task.Budget), Workers: 1},
		Model:   m,
		Schema:  &schema,
		Rows: task.Rows{
			Sample: sampleOf(cycletest.Stream(3, 600)),
		}}
	if err := refit.Prepare(j); err != nil {
		t.Fatal(err)
	}
	yields := 0
	j.Yield = func() { yields++ }
	run := func(ctx context.Context, after func(sweeps int)) *task.VariationalFit {
		prior := variational.PriorFor(j.Target.Likelihood, j.Rows.Problem)
		sweeps, loss := 0, 1.0
		j.Judge = func(*solver.Model) float64 {
			sweeps++
			after(sweeps)
			loss /= 2 // each is better
			return loss
		}
		fit, err := variational.Sweep(ctx, j, variational.NewPosterior(j, nil, prior, 3),
			&task.Sweeping{Problem: j.Rows.Problem, Prior: prior, Limit: 6, Judge: j.Judge, Budget: j.Budget})
		if err != nil {
			t.Fatal(err)
		}
		return fit
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := run(ctx, func(sweeps int) {
		if sweeps == 3 {
			cancel() // the fourth is cut short, or the third is not counted
		}
	})
	cut := j.Budget.Cut
	if cut == nil || cut.Sweeps == nil || *cut.Sweeps != 3 || first.Sweeps != 3 {
		t.Fatalf("cut %+v, the best is that of sweep %d", cut, first.Sweeps)
	}
	j.Budget = &task.Budget{Repeat: cut}
	again := run(t.Context(), func(int) {})
	if yields < 10 {
		t.Errorf("the sweeps yield %d times", yields)
	}
	if again.Sweeps != 3 || again.Evidence != first.Evidence {
		t.Errorf("sweep %d with evidence %g, was %d with %g", again.Sweeps, again.Evidence, first.Sweeps,
			first.Evidence)
	}
}

// cutAt refits, within a second of synctest's time, with a context that is done from block at on. It returns how many
// blocks there were.
func cutAt(t *testing.T, c *cycle.Cycle, events []event.Event, at int) (ch *fitted.Fitted, blocks int, err error) {
	t.Helper()
	c.Throttle = func(context.Context, time.Duration) func() {
		return func() {
			if blocks++; blocks == at {
				time.Sleep(2 * time.Second)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	ch, err = c.Refit(ctx, sampleOf(events))
	return ch, blocks, err
}

// TestRefitCutBeforeItLearned: a refit that is cut short before its first step has no model, rather than one of zeros
// that no version can hold. The plain form looks for the first block with a model by halves, and at its neighbours.
func TestRefitCutBeforeItLearned(t *testing.T) {
	tier.NotUnderRace(t)
	m := switchModel()
	events := cycletest.Numbers(1, 400)
	none := 0
	learned := func(at int) (has bool) {
		synctest.Test(t, func(t *testing.T) {
			c := newCycle(t, m)
			c.Workers = 1
			ch, _, err := cutAt(t, c, events, at)
			switch {
			case err == nil:
				payloadOf(t, ch, m) // which fails of zeros
				has = true
			case errors.Is(err, context.DeadlineExceeded):
				none++
			default:
				t.Fatal(err)
			}
		})
		return has
	}
	const most = 400 // Chosen by hand: of some hundreds of blocks
	first := 1 + sort.Search(most, func(i int) bool { return learned(i + 1) })
	for at := max(1, first-tier.Size(3, most)); at < first+tier.Size(1, 3); at++ {
		if has := learned(at); has != (at >= first) {
			t.Errorf("cut at block %d: a model %t, the first one is at block %d", at, has, first)
		}
	}
	if first > most || none == 0 {
		t.Errorf("cut at block after block: the first model at block %d, %d times none", first, none)
	}
}
