package cycle

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// stage is a way of a refit, with a stream for it.
type stage struct {
	name   string
	model  func() *config.Model
	events func(n int) []event.Event
}

var lineSearch = stage{"line search", func() *config.Model {
	return ratingsModel(func(m *config.Model) { m.Train.Refit = "line_search" })
}, func(n int) []event.Event { return stream(8, n) }}

// stages are variational, output layer, full, each solver, λ fixed and chosen, names and numbers, one output and several.
var stages = []stage{
	{"variational", func() *config.Model { return ratingsModel(nil) }, func(n int) []event.Event { return stream(5, n) }},
	{"feature map", func() *config.Model { return chessModel("fourier:20") }, func(n int) []event.Event { return chess(3, n, 1, false) }},
	{"number beside names", tripsModel, func(n int) []event.Event { return trips(9, n) }},
	{"groups", func() *config.Model { return sideModel(nil) }, func(n int) []event.Event { return withSides(stream(5, n)) }},
	{"fields that carry nothing", taggedModel, func(n int) []event.Event { return withTags(stream(5, n)) }},
	{"output, stochastic", func() *config.Model {
		return ratingsModel(func(m *config.Model) { m.Train.Refit, m.Train.Solver = "output", "stochastic" })
	}, func(n int) []event.Event { return stream(6, n) }},
	{"output, svrg, fixed lambda", func() *config.Model {
		return ratingsModel(func(m *config.Model) { m.Train.Refit, m.Train.Solver, m.Train.Lambda = "output", "svrg", 3 })
	}, func(n int) []event.Event { return stream(7, n) }},
	{"full", func() *config.Model {
		return ratingsModel(func(m *config.Model) { m.Train.Refit, m.Train.Solver = "full", "fista" })
	}, func(n int) []event.Event { return stream(8, n) }},
	lineSearch,
	{"numbers", switchModel, func(n int) []event.Event { return numbers(9, n) }},
	{"classes", func() *config.Model { return classesModel(event.Multiclass, nil) }, func(n int) []event.Event { return classStream(event.Multiclass, n) }},
}

func payloadOf(t *testing.T, ch *Champion, m *config.Model) string {
	t.Helper()
	digest, err := snapshot.PayloadDigest(ch.Contents(m))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// chosen returns what the manifest of a version says that its refit found out.
func chosen(ch *Champion) Chosen {
	v := &ch.Version
	return Chosen{HalfLife: v.HorizonEvents, HeldOutSweeps: v.HeldOutSweeps, Precisions: v.Precisions}
}

// repeated makes a refit again from its record alone and compares the payloads.
func repeated(t *testing.T, ch *Champion, m *config.Model, workers int) {
	t.Helper()
	record, err := ReadRecord(ch.Kept)
	if err != nil {
		t.Fatal(err)
	}
	if record.Model.Hash() != m.Hash() {
		t.Fatal("the kept settings are others")
	}
	if held, err := record.HeldOut(); err != nil || len(held) == 0 {
		t.Fatalf("%d held-out events, error %v", len(held), err)
	}
	again, err := record.Repeat(t.Context(), ch.CutShort, chosen(ch), workers)
	if err != nil {
		t.Fatalf("cut %+v: %v", ch.CutShort, err)
	}
	if got, want := payloadOf(t, again, m), payloadOf(t, ch, m); got != want || again.Version.Status != ch.Version.Status {
		t.Errorf("cut %+v, warm %t: %s with status %s, was %s with %s", ch.CutShort, ch.Version.Warm, got, again.Version.Status, want, ch.Version.Status)
	}
}

// Every refit, cold or warm, is repeated to the same payload from its record, with any number of workers.
func TestRefitIsRepeated(t *testing.T) {
	for _, s := range tier.Size(stages[:5], stages) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.isRepeated(t, func(*Champion) {})
		})
	}
}

// TestLineSearchIsRepeated: refits by line search, cold and warm, with λ chosen, are repeated to the same payload;
// their gap is certified.
func TestLineSearchIsRepeated(t *testing.T) {
	t.Parallel()
	lineSearch.isRepeated(t, func(ch *Champion) {
		v := &ch.Version
		if v.Solver != "algorithm1:line_search" || v.Form != snapshot.FormConvex || v.FISTAIterations != 0 {
			t.Errorf("version by %s of form %s, %d iterations of refits", v.Solver, v.Form, v.FISTAIterations)
		}
		if v.GapKind != string(solver.Certified) || v.GapLimit == "" {
			t.Errorf("%s gap limited by %q", v.GapKind, v.GapLimit)
		}
	})
}

// isRepeated makes three refits, calls check with each and repeats it.
func (s *stage) isRepeated(t *testing.T, check func(*Champion)) {
	m := s.model()
	m.Publish.KeepSample = true
	c := newCycle(t, m)
	events := s.events(1800)
	for round := range 3 {
		observeAll(c, events[round*600:round*600+600])
		ch := refit(t, c, sampleOf(events[:round*600+600]))
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
	for _, s := range tier.Size(stages[:5], stages) {
		t.Run(s.name, func(t *testing.T) {
			m := s.model()
			m.Publish.KeepSample = true
			events := s.events(3000)
			short, kinds := 0, make(map[string]int)
			for _, warm := range []bool{false, true} {
				c := newCycle(t, m)
				observeAll(c, events[:1500])
				rows := events[:1500]
				if warm {
					ch := refit(t, c, sampleOf(rows))
					ch.Version.Version = 1
					c.Install(ch)
					observeAll(c, events[1500:])
					rows = events
				}
				start := time.Now()
				refit(t, c, sampleOf(rows))
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
				run := func(at int) (ch *Champion, calls int) {
					synctest.Test(t, func(t *testing.T) {
						c, rows := newCycle(t, m), events[:400]
						c.Workers = 1
						observeAll(c, rows)
						if warm {
							ch := refit(t, c, sampleOf(rows))
							ch.Version.Version = 1
							c.Install(ch)
							rows = events
							observeAll(c, rows[400:])
						}
						var err error
						if ch, calls, err = cutAt(t, c, rows, at); err != nil && !errors.Is(err, context.DeadlineExceeded) {
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

// TestRefitEndsWithItsBudget: a refit that is slow from some block on ends with its time budget, in the convex stage or in the sweeps, and is
// repeated from where that was. Where the companion is cut short, whose
// sweeps come after those, the version was judged as a whole; of the sweeps over all rows, which come last, those that ended count.
func TestRefitEndsWithItsBudget(t *testing.T) {
	const budget, wait = 10 * time.Second, time.Second
	m := ratingsModel(func(m *config.Model) { m.Train.TimeBudget, m.Publish.KeepSample = config.Duration(budget), true })
	sample := func() *Sample { return sampleOf(stream(1, 1500)) }
	run := func(from int) (ch *Champion, calls int, took time.Duration) {
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
			ch, took = refit(t, c, sample()), time.Since(began)
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
		if took > budget+wait || kind != "whole" && took < budget || (kind == "sweeps" || kind == "solve") && v.HeldOutSweeps > 0 {
			t.Errorf("slow from block %d of %d on: %s, ended at %d after %v, cut %+v", from, all, kind, calls, took, ch.CutShort)
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

// TestCutBetweenTheSolvesOfAPath: a path whose first λ ended by themselves before the clock kept the others from beginning is cut short behind those.
func TestCutBetweenTheSolvesOfAPath(t *testing.T) {
	var b budget
	b.solved(4, false, &solver.Result{Status: solver.Stalled}, &solver.Result{Status: solver.BasisLimit})
	want := []int{stepsAll, stepsAll, stepsNone, stepsNone}
	if b.cut == nil || b.cut.Solves != 0 || !slices.Equal(b.cut.Steps, want) {
		t.Fatalf("cut %+v, want after %v", b.cut, want)
	}
	again := budget{repeat: b.cut}
	if tried := again.begun([]float64{4, 3, 2, 1}); !slices.Equal(tried, []float64{4, 3}) {
		t.Errorf("the repeated path tries %v", tried)
	}
	again.solved(4, true, &solver.Result{}, &solver.Result{})
	if !again.over(t.Context()) {
		t.Error("the repeated refit goes on")
	}
}

// A solve that is stopped after so many steps is that of a context done there; on a path each λ has its own number.
func TestBudgetOfEachLambda(t *testing.T) {
	b := budget{repeat: &snapshot.CutShort{Solves: 0, Steps: []int{2, stepsAll, 0, stepsNone}}}
	lambdas := []float64{8, 4, 2, 1}
	begun := b.begun(lambdas)
	if len(begun) != 3 {
		t.Fatalf("%v begun", begun)
	}
	steps := b.next(begun).Steps
	for lambda, want := range map[float64]int{8: 2, 4: stepsAll, 2: 0} {
		if got := steps(lambda); got != want {
			t.Errorf("λ %g may make %d steps, want %d", lambda, got, want)
		}
	}
	if b.over(t.Context()) {
		t.Error("over before the solve that was cut short")
	}
	b.solved(4, true, &solver.Result{}, &solver.Result{}, &solver.Result{})
	if !b.over(t.Context()) {
		t.Error("not over after it")
	}
}

// Without publish.keep_sample nothing is kept, and what is no record is an error.
func TestRecordIsOptional(t *testing.T) {
	m := ratingsModel(nil)
	c := newCycle(t, m)
	ch := refit(t, c, sampleOf(stream(1, 300)))
	if ch.Kept != nil {
		t.Errorf("%d bytes kept", len(ch.Kept))
	}
	for _, b := range [][]byte{nil, {1, 2, 3}, make([]byte, 1000)} {
		if _, err := ReadRecord(b); err == nil {
			t.Error("no error")
		}
	}
}

// Sweeps that the clock ended are counted whole, and a repeated stage makes as many.
func TestBudgetCountsSweeps(t *testing.T) {
	m := ratingsModel(nil)
	schema := m.Schema.Event()
	j := &refitJob{model: m, schema: &schema, workers: 1, sample: sampleOf(stream(3, 600))}
	if err := j.prepare(); err != nil {
		t.Fatal(err)
	}
	yields := 0
	j.yield = func() { yields++ }
	run := func(ctx context.Context, after func(sweeps int)) *variationalFit {
		prior := priorFor(j.target.Likelihood, j.problem)
		sweeps, loss := 0, 1.0
		j.judge = func(*solver.Model) float64 {
			sweeps++
			after(sweeps)
			loss /= 2 // each is better
			return loss
		}
		fit, err := j.sweep(ctx, j.newPosterior(nil, prior, 3), &sweeping{problem: j.problem, prior: prior, limit: 6, judge: j.judge, budget: &j.budget})
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
	cut := j.budget.cut
	if cut == nil || cut.Sweeps == nil || *cut.Sweeps != 3 || first.sweeps != 3 {
		t.Fatalf("cut %+v, the best is that of sweep %d", cut, first.sweeps)
	}
	j.budget = budget{repeat: cut}
	again := run(t.Context(), func(int) {})
	if yields < 10 {
		t.Errorf("the sweeps yield %d times", yields)
	}
	if again.sweeps != 3 || again.evidence != first.evidence {
		t.Errorf("sweep %d with evidence %g, was %d with %g", again.sweeps, again.evidence, first.sweeps, first.evidence)
	}
}

// cutAt refits, within a second of synctest's time, with a context that is done from block at on. It returns how many blocks there were.
func cutAt(t *testing.T, c *Cycle, events []event.Event, at int) (ch *Champion, blocks int, err error) {
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

// TestRefitCutBeforeItLearned: a refit that is cut short before its first step has no model, rather than one of zeros that no version can hold.
func TestRefitCutBeforeItLearned(t *testing.T) {
	tier.NotUnderRace(t)
	m := switchModel()
	events := numbers(1, 400)
	models, none := 0, 0
	for at := 1; models < tier.Size(1, 3) && at < 400; at++ {
		synctest.Test(t, func(t *testing.T) {
			c := newCycle(t, m)
			c.Workers = 1
			ch, _, err := cutAt(t, c, events, at)
			switch {
			case err == nil:
				payloadOf(t, ch, m) // which fails of zeros
				models++
			case errors.Is(err, context.DeadlineExceeded):
				none++
			default:
				t.Fatal(err)
			}
		})
	}
	if models == 0 || none == 0 {
		t.Errorf("cut at block after block: %d models, %d times none", models, none)
	}
}

// TestColdRefitOfManyRowsCutShort: a cold refit whose time ends before it has learned anything of all rows has the model of the rows that it began with.
func TestColdRefitOfManyRowsCutShort(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	const n = pathRows + 5000
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
	m := ratingsModel(nil)
	m.Train.Lambda, m.Train.Algorithm = 1, algorithm
	run := func(cutAt int) (found *candidate, calls int, b budget, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		j := &refitJob{model: m, problem: p, workers: 1, rough: true, judge: func(*solver.Model) float64 { return math.NaN() }}
		s := solver.DefaultSettings()
		s.MaxBasis, s.Workers = 1, 1
		s.Yield = func() {
			if calls++; calls == cutAt {
				cancel()
			}
		}
		if a := j.another(); a != nil {
			j.target = &Target{}
			found, err = j.fitBy(ctx, a, nil, s, j.judge)
		} else {
			found, err = j.coldStart(ctx, s)
		}
		return found, calls, j.budget, err
	}
	whole, calls, _, err := run(0)
	if err != nil || whole.final && whole.result == nil {
		t.Fatal(err)
	}
	kept := 0
	for at := 1; at <= calls; at += max(1, calls/100) {
		found, _, b, err := run(at)
		switch {
		case err != nil && !IsInterrupted(err):
			t.Fatal(err)
		case err != nil && kept > 0:
			t.Errorf("cut at block %d of %d: %v, although a cut before it left a model", at, calls, err)
		case err == nil && (found == nil || b.cut == nil):
			t.Errorf("cut at block %d of %d: %v, cut %v", at, calls, found, b.cut)
		case err == nil:
			kept++
		}
	}
	if kept == 0 {
		t.Error("no cut left a model: the test shows nothing")
	}
}
