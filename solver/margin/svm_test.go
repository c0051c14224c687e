package margin

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver"
)

// planted returns n rows of d features, some of them absent, whose classes are by the largest of m linear scores, a
// tenth of them by chance.
func planted(seed uint64, n, d, m int, loss Loss) *solver.Problem {
	random := rand.New(rand.NewPCG(7, 7))
	w := make([]float64, d*m)
	for i := range w {
		w[i] = random.NormFloat64()
	}
	random = rand.New(rand.NewPCG(seed, 1))
	p := &solver.Problem{X: solver.NewRows(d, n, n*d), Outputs: m, Loss: loss, Targets: make([]float64, n*m)}
	for i := range n {
		var index []int32
		var value []float64
		scores := make([]float64, m)
		for j := range d {
			if random.Float64() < 0.2 {
				continue
			}
			x := random.NormFloat64() / math.Sqrt(float64(d))
			index, value = append(index, int32(j)), append(value, x)
			for c := range scores {
				scores[c] += x * w[j*m+c]
			}
		}
		y := slices.Index(scores, slices.Max(scores))
		if random.Float64() < 0.1 {
			y = random.IntN(m)
		}
		p.X.Append(index, value)
		p.Targets[i*m+y] = 1
	}
	return p
}

func settings(lambda float64) solver.Settings {
	s := solver.DefaultSettings()
	s.Lambda, s.Tolerance, s.Workers = lambda, 1e-3, 1
	return s
}

// newFit is SVM.newFit of a problem that was looked at.
func newFit(t *testing.T, a SVM, p *solver.Problem, s solver.Settings) *fit {
	t.Helper()
	class, err := a.check(p, s)
	if err != nil {
		t.Fatal(err)
	}
	f := a.newFit(t.Context(), p, class, s)
	if err := f.load(nil); err != nil {
		t.Fatal(err)
	}
	return f
}

func fitted(t *testing.T, a SVM, p *solver.Problem, warm *solver.Warm, s solver.Settings) *solver.Result {
	t.Helper()
	r, err := a.Fit(t.Context(), p, warm, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// objectiveOf is P at a model, from its predictions.
func objectiveOf(p *solver.Problem, m *solver.Model, lambda float64) float64 {
	out, work := make([]float64, m.NumOutputs), make([]float64, 2*m.NumBasis)
	sum := 0.0
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		m.Predict(out, work, index, value)
		sum += p.Weight(i) * p.Loss.Eval(nil, out, p.Target(i))
	}
	for _, part := range [][]float64{m.Linear, m.Weights, m.Bias} {
		sum += 0.5 * lambda * dot(part, part)
	}
	return sum
}

var everyLoss = []Loss{{Kind: MaxHinge}, {Kind: MaxHinge, Moreau: 0.1},
	{Kind: Structured, Cost: [][]float64{{0, 1, 2, 3}, {1, 0, 1, 2}, {2, 1, 0, 1}, {3, 2, 1, 0}}},
	{
		Kind: TopK,
		K:    2,
	}, {Kind: TopK, K: 3, Moreau: 0.05}, {Kind: WeightedTopK}, {Kind: Usunier, K: 3}, {Kind: WeightedUsunier,
		Weights: []float64{1, 0.25}},
	{Kind: WeightedUsunier, Moreau: 0.3}}

// TestFit checks every loss and method: the objective is that of the model, the gap is valid for an independent
// method's optimum, the dual never falls with exact steps, and the certificate holds at each step.
func TestFit(t *testing.T) {
	tier.NotUnderRace(t)
	for _, loss := range everyLoss {
		n := tier.Size(120, 300)
		p := planted(1, n, 6, 4, loss)
		p.Weights = make([]float64, n)
		for i := range p.Weights {
			p.Weights[i] = float64(i % 4)
		}
		s := settings(3)
		s.Tolerance, s.MaxIterations = 1e-7, 4000
		optimum := fitted(t, SVM{}, p, nil, s)
		if optimum.Status != solver.Converged || optimum.GapKind != solver.Certified || len(optimum.Model.Bias) != 4 ||
			optimum.Model.Bias[0] == 0 {
			t.Errorf("%+v: %v, gap %s %v, bias %v", loss, optimum.Status, optimum.GapKind, optimum.Gap,
				optimum.Model.Bias)
		}
		for _, method := range []Method{BlockAscent, LineSearch, Scheduled} {
			s := settings(3)
			last := math.Inf(-1)
			s.OnStep = func(step solver.Step, model *solver.Model) bool {
				dual := step.Objective - step.Gap
				if method != Scheduled && dual < last-1e-9*step.Objective {
					t.Errorf("%+v, %v: the dual fell from %v to %v", loss, method, last, dual)
				}
				if last = dual; dual > optimum.Objective*(1+1e-9) {
					t.Errorf("%+v, %v: dual %v above the optimum %v", loss, method, dual, optimum.Objective)
				}
				if want := objectiveOf(p, model, 3); !near(step.Objective, want, 1e-9, 0) {
					t.Errorf("%+v, %v: objective %v, of the model %v", loss, method, step.Objective, want)
				}
				return false
			}
			r := fitted(t, SVM{Method: method}, p, nil, s)
			if want := objectiveOf(p, r.Model, 3); !near(r.Objective, want, 1e-9, 0) {
				t.Errorf("%+v, %v: objective %v, of the model %v", loss, method, r.Objective, want)
			}
			if over := r.Objective - optimum.Objective; over > r.Gap+1e-6*r.Objective || over < -1e-6*r.Objective {
				t.Errorf("%+v, %v: %v above the optimum with a gap of %v", loss, method, over, r.Gap)
			}
			if r.Gap > 1e-3*r.Objective {
				t.Logf("%+v, %v: relative gap %.2g after %d steps", loss, method, r.GapRelative, len(r.Steps))
			}
		}
	}
}

// TestRowWeights checks that a row of weight 2 is two rows, and one of weight 0 none.
func TestRowWeights(t *testing.T) {
	p := planted(2, 120, 5, 4, Loss{Kind: Usunier, K: 2})
	twice := *p
	var rows []int
	p.Weights = make([]float64, 120)
	for i := range p.Weights {
		p.Weights[i] = float64(i % 3)
		for range i % 3 {
			rows = append(rows, i)
		}
	}
	twice.X, twice.Targets = p.X.Select(rows), nil
	for _, i := range rows {
		twice.Targets = append(twice.Targets, p.Target(i)...)
	}
	s := settings(2)
	s.Tolerance = 1e-7
	a, b := fitted(t, SVM{}, p, nil, s), fitted(t, SVM{}, &twice, nil, s)
	if !near(a.Objective, b.Objective, 1e-6, 0) {
		t.Errorf("objective %v with weights, %v with copies", a.Objective, b.Objective)
	}
}

// TestWorkers checks that the result is the same to the bit for any number of workers.
func TestWorkers(t *testing.T) {
	for _, method := range []Method{BlockAscent, LineSearch} {
		p := planted(3, 1500, 8, 5, Loss{Kind: WeightedUsunier})
		s := settings(5)
		s.MaxIterations = 6
		one := fitted(t, SVM{Method: method}, p, nil, s)
		s.Workers = 3
		three := fitted(t, SVM{Method: method}, p, nil, s)
		if !slices.Equal(one.Model.Linear, three.Model.Linear) || !slices.Equal(one.Dual, three.Dual) ||
			one.Gap != three.Gap {
			t.Errorf("%v: gap %v with one worker, %v with three", method, one.Gap, three.Gap)
		}
	}
}

// TestWarm replaces a twentieth of the rows: from the old dual a refit reaches the gap in fewer steps than cold,
// certified; from its own dual at once; and from duals that the loss does not allow, its gap is a bound as well.
func TestWarm(t *testing.T) {
	tier.NotUnderRace(t)
	const n, m = 1000, 4
	all := planted(4, 1050, 8, m, Loss{Kind: MaxHinge})
	part := func(lo, hi int) *solver.Problem {
		p := *all
		var rows []int
		for i := lo; i < hi; i++ {
			rows = append(rows, i)
		}
		p.X, p.Targets = all.X.Select(rows), all.Targets[lo*m:hi*m]
		return &p
	}
	s := settings(1)
	old := fitted(t, SVM{}, part(0, n), nil, s)
	if again := fitted(t, SVM{}, part(0, n), &solver.Warm{Dual: old.Dual}, s); len(again.Steps) != 1 ||
		again.Status != solver.Converged {
		t.Errorf("from its own dual: %v after %d steps", again.Status, len(again.Steps))
	}
	p := part(50, 1050)
	dual := append(append([]float64(nil), old.Dual[50*m:]...), make([]float64, 50*m)...)
	kept := append([]float64(nil), dual...)
	cold, warm := fitted(t, SVM{}, p, nil, s), fitted(t, SVM{}, p, &solver.Warm{Dual: dual}, s)
	if !slices.Equal(dual, kept) {
		t.Error("the warm dual was written to")
	}
	if len(warm.Steps) >= len(cold.Steps) || warm.Status != solver.Converged ||
		math.Abs(warm.Objective-cold.Objective) > warm.Gap+cold.Gap {
		t.Errorf("warm: %v after %d steps, objective %v ± %v; cold: %d steps, %v ± %v", warm.Status, len(warm.Steps),
			warm.Objective, warm.Gap, len(cold.Steps), cold.Objective, cold.Gap)
	}
	for i := range dual {
		dual[i] = 3 * math.Sin(float64(i))
	}
	s.OnStep = func(step solver.Step, _ *solver.Model) bool {
		if step.Objective-step.Gap > cold.Objective*(1+1e-9) {
			t.Errorf("dual value %v above the optimum %v", step.Objective-step.Gap, cold.Objective)
		}
		return false
	}
	if wild := fitted(t, SVM{}, p, &solver.Warm{Dual: dual}, s); wild.Status != solver.Converged {
		t.Errorf("from a dual that is not allowed: %v", wild.Status)
	}
}

// TestWarmWork replaces a twentieth and a fifth of the rows and fits from the model and the dual variables before: to
// the same certified gap with at most a quarter and two fifths of the visits of rows that a fit from nothing takes. One
// visit of each row is the certificate.
func TestWarmWork(t *testing.T) {
	tier.NotUnderRace(t)
	const n, m = 16_000, 10
	for _, kind := range []Kind{MaxHinge, WeightedUsunier} {
		all := planted(10, n+n/5, 12, m, Loss{Kind: kind})
		part := func(lo, hi int) *solver.Problem {
			p := *all
			rows := make([]int, hi-lo)
			for i := range rows {
				rows[i] = lo + i
			}
			p.X, p.Targets = all.X.Select(rows), all.Targets[lo*m:hi*m]
			return &p
		}
		s := settings(100)
		old := fitted(t, SVM{}, part(0, n), nil, s)
		for _, c := range []struct {
			replaced int
			part     float64
		}{{n / 20, 0.25}, {n / 5, 0.4}} {
			p := part(c.replaced, n+c.replaced)
			dual := append(append([]float64(nil), old.Dual[c.replaced*m:]...), make([]float64, c.replaced*m)...)
			cold, warm := fitted(t, SVM{}, p, nil, s), fitted(t, SVM{}, p, &solver.Warm{Dual: dual, Model: old.Model},
				s)
			if float64(warm.RowVisits) > c.part*float64(cold.RowVisits) || warm.Status != solver.Converged ||
				cold.Status != solver.Converged {
				t.Errorf("%s, %d rows replaced: %d visits of rows to a gap of %.2g, from nothing %d to %.2g",
					all.Loss.Name(), c.replaced, warm.RowVisits, warm.GapRelative, cold.RowVisits, cold.GapRelative)
			}
			if got := objectiveOf(p, warm.Model, s.Lambda); !near(got, warm.Objective, 1e-9, 0) ||
				math.Abs(warm.Objective-cold.Objective) > warm.Gap+cold.Gap {
				t.Errorf("objective %v ± %v, of the model %v; from nothing %v ± %v", warm.Objective, warm.Gap, got,
					cold.Objective, cold.Gap)
			}
			t.Logf("%s, %d of %d rows replaced: %d visits of rows, from nothing %d", all.Loss.Name(), c.replaced, n,
				warm.RowVisits, cold.RowVisits)
		}
	}
}

// TestSweepToGoal checks that a sweep ends with the row by which the dual, summed anew, has risen as far as was asked
// for, and not before.
func TestSweepToGoal(t *testing.T) {
	const n = 300
	for _, loss := range everyLoss {
		p := planted(11, n, 6, 4, loss)
		p.Weights = make([]float64, n)
		rows := make([]int32, n)
		for i := range rows {
			rows[i], p.Weights[i] = int32(i), float64(i%4)
		}
		rise := func(rows []int32, goal float64) (float64, int) {
			f := newFit(t, SVM{}, p, settings(3))
			f.sweep(rows[:n/2], math.Inf(1))
			before, visits := f.dual(), f.scratch[0].visits
			f.sweep(rows[n/2:], goal)
			return f.dual() - before, f.scratch[0].visits - visits
		}
		whole, _ := rise(rows, math.Inf(1))
		for _, part := range []float64{0.2, 0.7} {
			goal := part * whole
			got, visits := rise(rows, goal)
			last := n / 2
			for left := visits; left > 0; last++ { // rows without weight are not visited
				if p.Weights[last] > 0 {
					left--
				}
			}
			if before, _ := rise(rows[:last-1], math.Inf(1)); got < goal*(1-1e-9) || before >= goal*(1+1e-9) {
				t.Errorf("%+v: asked for a rise of %g, %d rows have %g and all but the last of them %g", loss, goal,
					visits, got, before)
			}
		}
	}
}

// TestCalledOffWithinASweep: once a fit is called off no further block of rows begins, on however many of them the
// sweep still has to go.
func TestCalledOffWithinASweep(t *testing.T) {
	p := planted(5, 6000, 8, 5, Loss{Kind: TopK, K: 2})
	for _, stop := range []int{1, 3, 40, 75} {
		ctx, cancel := context.WithCancel(t.Context())
		s := settings(0.5)
		s.Tolerance, s.Workers = 1e-9, 1
		calls := 0
		s.Yield = func() {
			if calls++; calls == stop {
				cancel()
			}
		}
		if _, err := (SVM{}).Fit(ctx, p, nil, s); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if cancel(); calls != stop {
			t.Errorf("called off at block %d: continued to %d", stop, calls)
		}
	}
}

// TestCalledOffWithinASum: once a fit is called off no further block of full rows is summed.
func TestCalledOffWithinASum(t *testing.T) {
	for _, stop := range []int{1, 4} {
		ctx, cancel := context.WithCancel(t.Context())
		p, s, calls := thinned(1, 6000, 8, 5), settings(1), 0
		s.BiasRidge = 0
		s.Yield = func() {
			if calls++; calls == stop {
				cancel()
			}
		}
		class, err := SVM{}.check(p, s)
		if err != nil {
			t.Fatal(err)
		}
		f := SVM{}.newFit(ctx, p, class, s)
		if err := f.load(nil); err != nil {
			t.Fatal(err)
		}
		f.sum()
		if cancel(); calls != stop {
			t.Errorf("called off at block %d: continued to %d", stop, calls)
		}
	}
}

// TestCutShort checks that a fit that was called off returns its last step, and that as many steps repeat it to the
// bit.
func TestCutShort(t *testing.T) {
	p := planted(5, 800, 8, 5, Loss{Kind: TopK, K: 2})
	ctx, cancel := context.WithCancel(t.Context())
	s := settings(0.5)
	s.Tolerance = 1e-9
	steps, after := 0, 0
	s.OnStep = func(solver.Step, *solver.Model) bool { steps++; return false }
	s.Yield = func() {
		if steps == 3 {
			after++
		}
		if after == 3 { // in the middle of a sweep
			cancel()
		}
	}
	cut, err := SVM{}.Fit(ctx, p, nil, s)
	if err != nil || cut.Status != solver.Interrupted || !cut.CutShort || len(cut.Steps) != 3 ||
		!near(cut.Objective, objectiveOf(p, cut.Model, 0.5), 1e-9, 0) {
		t.Fatalf("%+v, %v", cut, err)
	}
	s.Yield, s.OnStep = nil, nil
	s.Budget.Steps = func(lambda float64) int {
		if lambda != 0.5 {
			t.Errorf("λ %v", lambda)
		}
		return 3
	}
	again := fitted(t, SVM{}, p, nil, s)
	if again.Status != solver.TimeBudget || !again.CutShort || !slices.Equal(again.Model.Linear, cut.Model.Linear) ||
		!slices.Equal(again.Dual, cut.Dual) || again.Gap != cut.Gap {
		t.Errorf("repeated: %v, gap %v, cut short %v", again.Status, again.Gap, cut.Gap)
	}
	if _, err := (SVM{}).Fit(ctx, p, nil, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before it began: %v", err)
	}
	s.Budget = solver.Budget{Deadline: time.Now().Add(-time.Second)}
	if _, err := (SVM{}).Fit(t.Context(), p, nil, s); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	s.Budget = solver.Budget{}
	s.OnStep = func(solver.Step, *solver.Model) bool { return true }
	if stopped := fitted(t, SVM{}, p, nil, s); stopped.Status != solver.Interrupted || len(stopped.Steps) != 1 {
		t.Errorf("stopped: %v after %d steps", stopped.Status, len(stopped.Steps))
	}
	s.OnStep, s.MaxIterations = nil, 2
	if limited := fitted(t, SVM{Method: LineSearch}, p, nil, s); limited.Status != solver.Stalled ||
		len(limited.Steps) != 3 {
		t.Errorf("two steps: %v after %d", limited.Status, len(limited.Steps))
	}
	s.Rough = true
	s.MaxIterations = 500
	if rough := fitted(t, SVM{}, p, nil, s); rough.Status != solver.Stalled || rough.GapRelative > roughGap ||
		rough.GapRelative <= 0 {
		t.Errorf("rough: %v, relative gap %v", rough.Status, rough.GapRelative)
	}
	// So strong that no weights are within roughGap of the optimum: a rough fit does not end with these.
	s.Lambda = 1e5
	nothing := float64(p.X.NumRows()) // the hinge of every row is 1
	rough := fitted(t, SVM{}, p, nil, s)
	if gain := nothing - rough.Objective; nothing-rough.Objective+rough.Gap > roughGap*nothing ||
		rough.Gap > roughGain*gain ||
		gain <= 0 {
		t.Errorf("rough with a strong ridge: objective %g of %g, gap %g", rough.Objective, nothing, rough.Gap)
	}
}

// TestBasis fits the output layer over a basis and compares it with a fit over the same activations as features.
func TestBasis(t *testing.T) {
	p := planted(6, 400, 6, 4, Loss{Kind: MaxHinge})
	basis := solver.NewModel(solver.Homogeneous, 6, 4, false)
	basis.NumBasis, basis.Basis, basis.Weights = 3, make([]float64, 18), make([]float64, 12)
	for i := range basis.Basis {
		basis.Basis[i] = math.Cos(float64(i))
	}
	s := settings(0.5)
	s.Kernel = solver.Homogeneous
	for _, linear := range []float64{0, 1} {
		s.LinearRidge = linear
		r := fitted(t, SVM{Basis: basis}, p, nil, s)
		plain := *p
		plain.X = solver.NewRows(9, 400, 0)
		phi, work := make([]float64, 3), make([]float64, 3)
		for i := range 400 {
			index, value := p.X.Row(i)
			basis.Activations(phi, work, index, value)
			columns, values := []int32{0, 1, 2}, slices.Clone(phi)
			for e, j := range index {
				if linear > 0 {
					columns, values = append(columns, 3+j), append(values, value[e])
				}
			}
			plain.X.Append(columns, values)
		}
		want := fitted(t, SVM{}, &plain, nil, s)
		if !slices.Equal(r.Model.Weights, want.Model.Linear[:12]) ||
			linear > 0 && !slices.Equal(r.Model.Linear, want.Model.Linear[12:]) {
			t.Errorf("linear %v: weights %v, want %v", linear, r.Model.Weights, want.Model.Linear)
		}
		if !near(r.Objective, objectiveOf(p, r.Model, 0.5), 1e-9, 0) || r.Steps[len(r.Steps)-1].K != 3 ||
			(linear > 0) != (r.Steps[len(r.Steps)-1].Units == 12) || // activations alone are worth no weight here

			(r.Model.Linear == nil) != (linear == 0) {
			t.Errorf("linear %v: objective %v, of the model %v", linear, r.Objective, objectiveOf(p, r.Model, 0.5))
		}
	}
}

// isFinite reports whether x is neither NaN nor infinite.
func isFinite(x float64) bool { return !math.IsNaN(x - x) }
