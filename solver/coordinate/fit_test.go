package coordinate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// form is one way to descend.
type form struct {
	name    string
	kernel  solver.Kernel
	d       Descent
	loss    solver.Loss
	outputs int
}

// forms are all that differ in what moves.
func forms() []form {
	var all []form
	losses := map[string]struct {
		loss    solver.Loss
		outputs int
	}{
		"squared": {solver.Squared{}, 1}, "squared2": {solver.Squared{}, 2}, "logistic": {solver.BinaryLogistic{}, 1},
		"logistic3": {
			solver.BinaryLogistic{},
			3,
		}, "multinomial": {solver.MultinomialLogistic{}, 3}, "hinge": {solver.SquaredHinge{}, 3},
		"smoothed": {solver.SmoothedHinge{}, 3},
	}
	for _, name := range []string{"squared", "squared2", "logistic", "logistic3", "multinomial", "hinge", "smoothed"} {
		l := losses[name]
		for _, shared := range []bool{false, true} {
			if shared && l.outputs == 1 {
				continue
			}
			for _, of := range []struct {
				kernel solver.Kernel
				d      Descent
			}{
				{solver.ANOVA, Descent{}}, {solver.ANOVA, Descent{Weights: Ones}}, {solver.ANOVA, Descent{Weights: Fitted}},
				{solver.ANOVA, Descent{Objective: Lifted}}, {solver.ANOVA3, Descent{}},
				{solver.Homogeneous, Descent{}}, {solver.Homogeneous3, Descent{}},
			} {
				of.d.Shared = shared
				all = append(
					all,
					form{
						fmt.Sprintf("%s/%v%d/%+v", name, of.kernel, of.kernel.Degree(), of.d),
						of.kernel,
						of.d,
						l.loss,
						l.outputs,
					},
				)
			}
		}
	}
	return all
}

// problem returns rows of at most entries features with interactions in the targets, and row weights.
func (f form) problem(seed uint64, n, d, entries int) *solver.Problem {
	rng := rand.New(rand.NewPCG(seed, 7))
	p := &solver.Problem{X: solver.NewRows(d, n, n*entries), Outputs: f.outputs, Loss: f.loss}
	for range n {
		taken := rng.Perm(d)[:entries]
		index, value := []int32{}, []float64{}
		row := make([]float64, d)
		for _, j := range taken {
			row[j] = rng.NormFloat64()
		}
		for j, x := range row {
			if x != 0 {
				index, value = append(index, int32(j)), append(value, x)
			}
		}
		p.X.Append(index, value)
		p.Weights = append(p.Weights, rng.Float64()*2)
		scores := make([]float64, f.outputs)
		for c := range scores {
			scores[c] = row[0]*row[1] - row[c%d]*row[(c+2)%d]*(1+row[3]) + 0.3*row[2] + 0.1*rng.NormFloat64()
		}
		switch f.loss.(type) {
		case solver.Squared:
		case solver.BinaryLogistic:
			for c, x := range scores {
				scores[c] = math.Copysign(1, x)
			}
		default:
			best := 0
			for c, x := range scores {
				if x > scores[best] {
					best = c
				}
			}
			clear(scores)
			scores[best] = 1
		}
		p.Targets = append(p.Targets, scores...)
	}
	return p
}

func (f form) settings() solver.Settings {
	s := solver.DefaultSettings()
	s.Kernel, s.Lambda, s.MaxBasis, s.Penalty, s.LinearRidge, s.BiasRidge, s.MaxIterations, s.Tolerance = f.kernel, 0.3, 4,
		solver.L1L2, 0.1, 0.01, 25, 1e-9
	return s
}

// slowKernel sums over all pairs or triples of features.
func slowKernel(kernel solver.Kernel, h, x []float64) float64 {
	total, d := 0.0, len(x)
	for i := range d {
		for j := range d {
			if kernel.Degree() == 2 {
				if kernel == solver.Homogeneous || i < j {
					total += h[i] * x[i] * h[j] * x[j]
				}
				continue
			}
			for l := range d {
				if kernel == solver.Homogeneous3 || i < j && j < l {
					total += h[i] * x[i] * h[j] * x[j] * h[l] * x[l]
				}
			}
		}
	}
	return total
}

// slowPredict returns the outputs of a row.
func slowPredict(m *solver.Model, x *solver.Rows, i int) []float64 {
	row := make([]float64, m.NumFeatures)
	index, value := x.Row(i)
	for e, j := range index {
		row[j] = value[e]
	}
	out := append([]float64(nil), m.Bias...)
	h := make([]float64, m.NumFeatures)
	for s := range m.NumBasis {
		for j := range h {
			h[j] = m.Basis[j*m.NumBasis+s]
		}
		k := slowKernel(m.Kernel, h, row)
		for c := range out {
			out[c] += m.Weights[s*m.NumOutputs+c] * k
		}
	}
	if m.Linear != nil {
		for j, y := range row {
			for c := range out {
				out[c] += m.Linear[j*m.NumOutputs+c] * y
			}
		}
	}
	return out
}

func slowLoss(p *solver.Problem, m *solver.Model) float64 {
	total := 0.0
	for i := range p.X.NumRows() {
		total += p.Weight(i) * p.Loss.Eval(nil, slowPredict(m, p.X, i), p.Target(i))
	}
	return total
}

// slowPenalty is what the package's comment says about a point.
func slowPenalty(g *group) float64 {
	total := 0.5 * (g.ridges[0]*sumSquares(g.w) + g.ridges[1]*sumSquares(g.b))
	for s := range g.k {
		row := g.v[s*g.m : (s+1)*g.m]
		if g.lifted {
			for t := range g.degree {
				total += 0.5 * g.beta * sumSquares(g.p[t*g.k+s])
			}
		} else {
			square := 0.0
			for j := range g.d {
				square += g.h[j*g.k+s] * g.h[j*g.k+s]
			}
			switch {
			case g.rule == ridged:
				total += g.beta * square
			case g.rule == normed:
				total += g.beta * square * g.norm.Norm(row, 1, g.m)
			default:
				size := 0.0
				for _, v := range row {
					size += math.Abs(v)
				}
				total += g.beta * square * size
			}
		}
		if g.rule == ridged {
			total += 0.5 * g.beta * sumSquares(row)
		}
	}
	return total
}

// newTestRun returns a run at a random point.
func newTestRun(t *testing.T, f form, p *solver.Problem, s solver.Settings) *run {
	t.Helper()
	if err := f.d.Check(p, s); err != nil {
		t.Fatal(err)
	}
	r := newRun(t.Context(), f.d, p, s)
	r.begin()
	for _, g := range r.groups {
		r.start(g)
		g.score()
	}
	return r
}

// TestSweeps checks each form and both orders of a sweep against the slow twins: the objective never rises, and is that
// of the model.
func TestSweeps(t *testing.T) {
	tier.NotUnderRace(t)
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			for _, byFeature := range []bool{false, true} {
				p, s := f.problem(11, 50, 5, 3), f.settings()
				r := newTestRun(t, f, p, s)
				for _, g := range r.groups {
					g.byFeature = byFeature && !g.lifted
					g.block.load(g.group, nil)
				}
				last := math.Inf(1)
				for sweep := range 15 {
					for _, g := range r.groups {
						before := g.objective
						g.sweep()
						if !(g.objective <= before*(1+1e-12)) {
							t.Fatalf("sweep %d: from %v to %v", sweep, before, g.objective)
						}
					}
					last = r.objective()
				}
				model := r.model()
				want := slowLoss(p, model)
				for _, g := range r.groups {
					want += slowPenalty(g.group)
				}
				if !near(last, want, 1e-10, 0) {
					t.Errorf("objective %v of a model of %v", last, want)
				}
			}
		})
	}
}

// TestGradients compares the slope that each step goes by with a difference of objectives, at a random point and for
// each kind of coordinate.
func TestGradients(t *testing.T) {
	tier.NotUnderRace(t)
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			s := f.settings()
			s.Lambda, s.LinearRidge, s.BiasRidge = 1, 0.5, 0.25
			f.d.Variance = 0.5
			groups := newTestRun(t, f, f.problem(12, 40, 5, 3), s).groups
			groups = append(
				groups,
				newTestRun(t, f, f.problem(12, 40, 5, 2), s).groups...) // pairs take another code path
			for _, g := range groups {
				g.moveBias()
				g.moveLinear()
				for s := range g.k {
					for j := range g.d {
						if g.lifted {
							continue
						}
						rows, values := g.x.Column(j)
						slot := make([]float64, len(rows))
						g.forms(g.unit(s))
						g.derivatives(slot, rows, values, g.h[j*g.k+s])
						feature := make([]float64, len(rows))
						g.restTo(feature, j, s, s+1)
						for e, x := range slot {
							if !near(feature[e], x, 1e-9, 1e-12) {
								t.Fatalf("derivative %v in one order, %v in the other", feature[e], x)
							}
						}
						ridge := g.basisRidge(s) * g.h[j*g.k+s]
						g.checkSlope(t, &g.h[j*g.k+s], rows, slot, g.v[s*g.m:(s+1)*g.m], ridge)
					}
				}
				for t0, u := range g.p {
					s, factor := t0%g.k, t0/g.k
					for j := range u {
						rows, values := g.x.Column(j)
						g.factorForms(s, factor)
						slot := make([]float64, len(rows))
						g.factorDerivatives(slot, rows, values, g.products(g.a, factor), factor, s, j)
						g.checkSlope(t, &u[j], rows, slot, g.v[s*g.m:(s+1)*g.m], g.beta*u[j])
					}
				}
				for c := range g.m {
					one := make([]float64, g.m)
					one[c] = 1
					g.checkSlope(t, &g.b[c], nil, g.ones, one, g.ridges[1]*g.b[c])
					rows, values := g.x.Column(c)
					g.checkSlope(t, &g.w[c*g.m+c], rows, values, one, g.ridges[0]*g.w[c*g.m+c])
					if g.rule == ridged {
						g.checkSlope(t, &g.v[c], nil, append([]float64(nil), g.activations(0)...), one, g.beta*g.v[c])
					}
				}
			}
		})
	}
}

// checkSlope compares the derivative in x with a difference.
func (g *descent) checkSlope(t *testing.T, x *float64, rows []int32, slot, v []float64, ridge float64) {
	t.Helper()
	g.predict()
	g.block.load(g.group, rows)
	want := g.block.slope(slot, v) + ridge
	const step = 1e-5
	at, values := *x, [2]float64{}
	for side, by := range []float64{-step, step} {
		*x = at + by
		g.predict()
		g.score()
		values[side] = g.objective
	}
	*x = at
	g.predict()
	if got := (values[1] - values[0]) / (2 * step); !near(got, want, 1e-5, 1e-5*(1+g.objective)) {
		t.Fatalf("slope %v, by a difference %v", want, got)
	}
}

// TestFit fits each form: the result is finite and no worse than the linear term alone, its objective that of its
// model, and the descent from the result begins there.
func TestFit(t *testing.T) {
	tier.NotUnderRace(t)
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			p, s := f.problem(13, 150, 6, 4), f.settings()
			s.Lambda, s.MaxIterations = 0.02, 60
			var objectives []float64
			s.OnStep = func(step solver.Step, m *solver.Model) bool {
				objectives = append(objectives, step.Objective)
				return false
			}
			res, err := f.d.Fit(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			n := len(objectives)
			if n < 10 || n != len(res.Steps) || res.Objective != objectives[n-1] || !res.Model.IsFinite() ||
				res.GapKind != "" ||
				res.Gap != res.Objective {
				t.Fatalf("%d steps of %d, objective %v of %v, gap %v %q", n, len(res.Steps), res.Objective,
					objectives[n-1], res.Gap, res.GapKind)
			}
			if !(res.Objective < 0.97*objectives[0]) {
				t.Errorf("objective %v, %v without interactions", res.Objective, objectives[0])
			}
			again := s
			again.OnStep, again.MaxIterations = nil, 1
			next, err := f.d.Fit(t.Context(), p, &solver.Warm{Model: res.Model}, again)
			if err != nil {
				t.Fatal(err)
			}
			if first := next.Steps[0].Objective; !(first <= res.Objective*(1+1e-9)) {
				t.Errorf("objective %v at the start from a model of %v", first, res.Objective)
			}
			if a, b := slowLoss(p, res.Model), slowLoss(p, f.again(t, p, s, res.Model)); !near(a, b, 1e-9, 0) {
				t.Errorf("losses %v of the model, %v once taken over", a, b)
			}
		})
	}
}

// again returns a model taken over by a run.
func (f form) again(t *testing.T, p *solver.Problem, s solver.Settings, m *solver.Model) *solver.Model {
	t.Helper()
	r := newRun(t.Context(), f.d, p, s)
	if err := r.load(m); err != nil {
		t.Fatal(err)
	}
	return r.model()
}

// TestSameForAnyWorkers checks that results depend on nothing but the arguments.
func TestSameForAnyWorkers(t *testing.T) {
	f := form{"", solver.ANOVA, Descent{Starts: 3}, solver.BinaryLogistic{}, 3}
	p, s := f.problem(14, 300, 8, 2), f.settings()
	s.Now = func() time.Time { return time.Time{} }
	var first *solver.Result
	for _, workers := range []int{1, 4} {
		s.Workers = workers
		old := runtime.GOMAXPROCS(workers)
		res, err := f.d.Fit(t.Context(), p, nil, s)
		runtime.GOMAXPROCS(old)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = res
		} else if !reflect.DeepEqual(first, res) {
			t.Error("another result with 4 workers")
		}
	}
}

// TestCutShort cuts fits at every block of work: the result is the model of the last step, and as many steps without a
// clock repeat it.
func TestCutShort(t *testing.T) {
	tier.NotUnderRace(t)
	f := form{"", solver.ANOVA, Descent{}, solver.Squared{}, 1}
	for _, starts := range []int{1, 2} {
		f.d.Starts = starts
		p, s := f.problem(15, 4000, 8, 5), f.settings()
		s.Now, s.MaxIterations = func() time.Time { return time.Time{} }, 6
		calls := 0
		s.Yield = func() { calls++ }
		if _, err := f.d.Fit(t.Context(), p, nil, s); err != nil {
			t.Fatal(err)
		}
		all, ends := calls, map[int]bool{}
		for stop := 1; stop <= all; stop++ {
			ctx, cancel := context.WithCancel(t.Context())
			calls = 0
			s.Yield = func() {
				if calls++; calls == stop {
					cancel()
				}
			}
			res, err := f.d.Fit(ctx, p, nil, s)
			cancel()
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				continue
			}
			if calls > stop+1 || res.Status != solver.Interrupted || !res.CutShort {
				t.Fatalf("cut at %d: continued to %d, status %v", stop, calls, res.Status)
			}
			ends[len(res.Steps)] = true
			again := s
			again.Yield, again.Budget.Steps = nil, func(float64) int { return len(res.Steps) }
			same, err := f.d.Fit(t.Context(), p, nil, again)
			if err != nil || !reflect.DeepEqual(same.Model, res.Model) || same.Objective != res.Objective {
				t.Fatalf("%d steps again: objective %v, not %v: %v", len(res.Steps), same.Objective, res.Objective, err)
			}
		}
		if len(ends) < 3 {
			t.Errorf("cut after %v steps only", ends)
		}
	}
}

// looks is a context that counts how often it was looked at after it ended.
type looks struct {
	context.Context
	after *int
}

// Err counts.
func (l looks) Err() error {
	err := l.Context.Err()
	if err != nil {
		*l.after++
	}
	return err
}

// TestCalledOffWithinASweep: a fit that is called off ends with the quantum of work that it is in, whatever its sweep
// still has to do.
func TestCalledOffWithinASweep(t *testing.T) {
	tier.NotUnderRace(t)
	f := form{"", solver.ANOVA, Descent{}, solver.Squared{}, 1}
	p, s := f.problem(15, 40_000, 8, 5), f.settings()
	s.MaxBasis = 60
	for _, stop := range []int{1, 5, 20} {
		ctx, cancel := context.WithCancel(t.Context())
		calls, after := 0, 0
		s.Yield = func() {
			if calls++; calls == stop {
				cancel()
			}
		}
		if _, err := f.d.Fit(looks{ctx, &after}, p, nil, s); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if cancel(); calls != stop || after > 12 {
			t.Errorf("called off at quantum %d: %d quanta, then looked at the context %d times", stop, calls, after)
		}
	}
}

// TestDiverging starts far off on features that are not scaled: what comes back is no worse than no interactions.
func TestDiverging(t *testing.T) {
	for _, kernel := range []solver.Kernel{solver.ANOVA, solver.ANOVA3, solver.Homogeneous, solver.Homogeneous3} {
		f := form{"", kernel, Descent{Variance: 1}, solver.Squared{}, 1}
		p, s := f.problem(16, 100, 5, 5), f.settings()
		for i := range p.X.Value {
			p.X.Value[i] *= 1000
		}
		s.MaxBasis, s.MaxIterations = 9, 40
		for seed := range uint64(4) {
			s.Seed = seed
			res, err := f.d.Fit(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			for at, step := range res.Steps {
				if at > 0 && !(step.Objective <= res.Steps[0].Objective) {
					t.Errorf("step %d: %v, %v without interactions", at, step.Objective, res.Steps[0].Objective)
				}
			}
		}
		small := f
		small.d.Variance = 0.01
		if g := newTestRun(t, small, p, s).groups[0]; !(g.objective <= 3*g.bar) {
			t.Errorf("a start of %v on columns that are not scaled, %v without interactions", g.objective, g.bar)
		}
		r := newTestRun(t, f, p, s)
		g := r.groups[0]
		g.sweeps, g.objective = startSweeps, 2*g.bar
		if r.check(g); g.attempt != 1 || !near(g.variance, 0.1, 1e-12, 0) {
			t.Errorf("attempt %d of variance %g after a start that diverged", g.attempt, g.variance)
		}
		for range maxAttempts {
			g.sweeps, g.objective = startSweeps, math.NaN()
			r.check(g)
		}
		if model := r.model(); model.NumBasis != 0 || !model.IsFinite() {
			t.Errorf("%d basis vectors after %d starts that diverged", model.NumBasis, maxAttempts)
		}
	}
}

// TestPathFromNothing: where a strong λ has driven all vectors to almost nothing, a weaker one that starts from there
// finds about what it finds from a random start.
func TestPathFromNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 3))
	taste := make([]float64, 15)
	for j := range taste {
		taste[j] = rng.NormFloat64()
	}
	p := &solver.Problem{X: solver.NewRows(15, 600, 1800), Outputs: 1, Loss: solver.Squared{}}
	for range 600 {
		a, b, c := rng.IntN(5), 5+rng.IntN(5), 10+rng.IntN(5)
		p.X.Append([]int32{int32(a), int32(b), int32(c)}, []float64{1, 1, 1})
		p.Targets = append(p.Targets, taste[a]*taste[b]*(1+taste[c]))
	}
	for _, kernel := range []solver.Kernel{solver.ANOVA, solver.ANOVA3} {
		s := solver.DefaultSettings()
		s.Kernel, s.MaxBasis, s.LinearRidge, s.BiasRidge, s.Workers = kernel, 4, 1, 1e-6, 1
		s.Lambda = 3
		fit := func(warm *solver.Warm) *solver.Result {
			r, err := Descent{}.Fit(t.Context(), p, warm, s)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		cold := fit(nil)
		lost := cold.Model.Clone()
		for i := range lost.Weights {
			lost.Weights[i] *= 1e-9
		}
		if warm := fit(&solver.Warm{Model: lost}); warm.Objective > 1.2*cold.Objective {
			t.Errorf("%v %d: from nothing objective %g, from a random start %g", kernel, kernel.Degree(),
				warm.Objective, cold.Objective)
		}
	}
}
