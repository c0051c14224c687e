package solver

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/solvertest"
)

// plantedRatings returns an ordinal problem with planted interactions of users and items.
func plantedRatings(seed uint64, n, users, items int) *Problem {
	rng := rand.New(rand.NewPCG(seed, 9))
	a, b := make([]float64, users), make([]float64, items)
	for i := range a {
		a[i] = rng.NormFloat64()
	}
	for i := range b {
		b[i] = rng.NormFloat64()
	}
	events := make([]rating, n)
	for i := range events {
		u, v := rng.IntN(users), rng.IntN(items)
		level := 3 + a[u]*b[v] + 0.5*a[u] + 0.5*rng.NormFloat64()
		events[i] = rating{int32(u), int32(v), int(min(5, max(1, math.Round(level))))}
	}
	return mcrank(events, users, items)
}

// slowGap recomputes objective and gap of a model from scratch, with the dual norm from dense eigensolvers.
func slowGap(t *testing.T, p *Problem, model *Model, s Settings) (objective, gap float64) {
	t.Helper()
	n, m, k := p.X.NumRows(), p.Outputs, model.NumBasis
	g := gamma.NewGamma(p.X, s.Kernel, m, solvertest.TestWorkers(1))
	out, work, phi := make([]float64, m), make([]float64, 2*k), make([]float64, k)
	inner := 0.0
	gradLinear, gradBias := append([]float64(nil), model.Linear...), append([]float64(nil), model.Bias...)
	for i := range gradLinear {
		gradLinear[i] *= s.LinearRidge
	}
	for i := range gradBias {
		gradBias[i] *= s.BiasRidge
	}
	for i := range n {
		index, value := p.X.Row(i)
		model.Predict(out, work, index, value)
		row := g.Grad[i*m : i*m+m]
		objective += p.Weight(i) * p.Loss.Eval(row, out, p.Target(i))
		model.Activations(phi, work, index, value)
		for c := range row {
			row[c] *= p.Weight(i)
			for r, a := range phi {
				inner += a * model.Weights[r*m+c] * row[c]
			}
			gradBias[c] += row[c]
			for e, j := range index {
				if gradLinear != nil {
					gradLinear[int(j)*m+c] += value[e] * row[c]
				}
			}
		}
	}
	norm := s.Penalty.Norm(model.Weights, k, m)
	loss := objective
	objective += s.Lambda*norm + 0.5*s.LinearRidge*square(model.Linear) + 0.5*s.BiasRidge*square(model.Bias)
	dual := 0.0
	for c := range m {
		dual = max(dual, dominantAbs(t, g, c))
	}
	scale := min(1, s.Lambda/dual)
	gap = s.Lambda*norm + scale*inner + loss
	row := make([]float64, m)
	for i := range n {
		index, value := p.X.Row(i)
		model.Predict(out, work, index, value)
		p.Loss.Eval(row, out, p.Target(i))
		part := 0.0
		for c, g := range row {
			row[c] = scale * g
			part -= row[c] * out[c]
		}
		gap += p.Weight(i) * (part + slowConjugate(t, p.Loss, row, p.Target(i)))
	}
	for i, w := range model.Linear {
		gap += math.Pow((1-scale)*s.LinearRidge*w+scale*gradLinear[i], 2) / (2 * s.LinearRidge)
	}
	for c, b := range model.Bias {
		gap += math.Pow((1-scale)*s.BiasRidge*b+scale*gradBias[c], 2) / (2 * s.BiasRidge)
	}
	return objective, gap
}

func square(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return sum
}

func smallSettings() Settings {
	s := DefaultSettings()
	s.Lambda, s.MaxBasis, s.Workers = 2, 8, 1
	return s
}

// TestCertifiedGap checks that objective and gap of the result are those of its model, and that the gap bounds the
// distance to a much better solution.
func TestCertifiedGap(t *testing.T) {
	tier.NotUnderRace(t)
	p := plantedRatings(1, 2500, 12, 15) // too many rows for tighten, whose gap is lower
	p.Weights = make([]float64, p.X.NumRows())
	for i := range p.Weights {
		p.Weights[i] = 0.5 + float64(i%3)/2
	}
	s := smallSettings()
	s.Penalty = L1
	res, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if res.GapKind != Certified || res.Model.NumBasis == 0 {
		t.Fatalf("gap is %s, basis %d", res.GapKind, res.Model.NumBasis)
	}
	objective, gap := slowGap(t, p, res.Model, s)
	if !solvertest.Near(res.Objective, objective, 1e-9, 0) || math.Abs(res.Gap-gap) > 1e-6*(1+gap) ||
		!solvertest.Near(res.GapRelative, res.Gap/res.Objective, 1e-12, 0) {
		t.Errorf("objective %v and gap %v (relative %v), recomputed %v and %v", res.Objective, res.Gap, res.GapRelative,
			objective, gap)
	}
	s.MaxBasis, s.Tolerance = 40, 1e-6
	better, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if better.Gap < 0 || better.Gap > 0.02*better.Objective {
		t.Errorf("gap %v of objective %v after %d bases (%v)", better.Gap, better.Objective, better.Model.NumBasis,
			better.Status)
	}
	if excess := res.Objective - better.Objective; excess < 0 || excess > res.Gap {
		t.Errorf("objective exceeds a better one by %v, gap %v", excess, res.Gap)
	}
	for i := 1; i < len(better.Steps); i++ {
		if before, after := better.Steps[i-1].Objective, better.Steps[i].Objective; after > before*(1+1e-9) {
			t.Errorf("step %d: objective rose from %v to %v", i, before, after)
		}
	}
}

// TestSolveLosses runs every loss, kernel and penalty and checks that the objective falls and the answer is a fixed
// point.
func TestSolveLosses(t *testing.T) {
	tier.NotUnderRace(t)
	rng := rand.New(rand.NewPCG(11, 12))
	const n, d, m = 400, 7, 3
	for _, lossFn := range allLosses {
		x := NewRows(d, n, n*d)
		targets := make([]float64, n*m)
		for i := range n {
			row := make([]float64, d)
			row[0] = 1
			for j := 1; j < d; j++ {
				row[j] = rng.NormFloat64()
			}
			x.Append([]int32{0, 1, 2, 3, 4, 5, 6}, row)
			score := []float64{row[1] * row[2], row[3]*row[3] - 1, row[4] * row[5]}
			top := 0
			for c, v := range score {
				if v > score[top] {
					top = c
				}
				targets[i*m+c] = v
				switch lossFn.(type) {
				case BinaryLogistic, BinarySquaredHinge:
					targets[i*m+c] = math.Copysign(1, v)
				}
			}
			switch lossFn.(type) {
			case MultinomialLogistic, SmoothedHinge, SquaredHinge:
				clear(targets[i*m : i*m+m])
				targets[i*m+top] = 1
			}
		}
		p := &Problem{X: x, Targets: targets, Outputs: m, Loss: lossFn}
		for _, kernel := range []Kernel{ANOVA, Homogeneous} {
			for _, pen := range allPenalties {
				s := smallSettings()
				s.Kernel, s.Penalty, s.Lambda = kernel, pen, 1
				if kernel == Homogeneous { // the constant column replaces linear term and bias
					s.LinearRidge, s.BiasRidge = 0, 0
				}
				res, err := Solve(t.Context(), p, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				first := res.Steps[0].Objective
				if !(res.Objective < 0.8*first) || !res.Model.IsFinite() || res.Gap < -1e-9*first {
					t.Errorf("%s %v %v: objective %v after %v, gap %v", lossFn.Name(), kernel, pen, res.Objective,
						first, res.Gap)
				}
				s.MaxSteps = 0
				again, err := Solve(t.Context(), p, res.Model, s)
				if err != nil {
					t.Fatal(err)
				}
				if !solvertest.Near(again.Objective, res.Objective, 1e-3, 0) ||
					again.Objective > res.Objective*(1+1e-9) {
					t.Errorf("%s %v %v: warm objective %v, was %v", lossFn.Name(), kernel, pen, again.Objective,
						res.Objective)
				}
			}
		}
	}
}

// TestWorkersDoNotMatter checks that results are the same bits whatever the number of goroutines, on a sample of
// several blocks.
func TestWorkersDoNotMatter(t *testing.T) {
	p := plantedRatings(2, 17_000, 40, 50)
	s := DefaultSettings()
	s.MaxSteps, s.Tolerance = 1, 1e-3
	s.Now = func() time.Time { return time.Time{} }
	for _, tau := range []float64{0, 100} {
		if s.Tau = tau; tau > 0 {
			s.Lambda = 0
		}
		var first *Result
		for _, workers := range []int{1, 2, 8} {
			s.Workers = workers
			res, err := Solve(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = res
			} else if !reflect.DeepEqual(first, res) {
				t.Errorf("%d workers give objective %v, one gives %v", workers, res.Objective, first.Objective)
			}
		}
		if (first.StochasticEpochs > 0) != (tau > 0) || (first.FISTAIterations > 0) != (tau > 0) ||
			(first.NewtonIterations > 0) != (tau == 0) ||
			first.Model.NumBasis == 0 {
			t.Errorf("τ %v: %d epochs, %d iterations of FISTA and %d of Newton, %d basis vectors",
				tau, first.StochasticEpochs, first.FISTAIterations, first.NewtonIterations, first.Model.NumBasis)
		}
	}
}

func TestWarmStartFromTheAnswerStops(t *testing.T) {
	p := plantedRatings(3, 600, 6, 7)
	s := smallSettings()
	s.Penalty, s.Tolerance = L1, 1e-4
	top, err := LambdaMax(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Lambda = 0.8 * top // few basis vectors enter, and then none
	res, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != Converged || res.Model.NumBasis == 0 || res.GapRelative > s.Tolerance {
		t.Fatalf("%v with %d basis vectors, gap %g, %+v", res.Status, res.Model.NumBasis, res.GapRelative, res.Steps)
	}
	again, err := Solve(t.Context(), p, res.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	if again.Status != Converged || len(again.Steps) > 1 || again.Objective > res.Objective*(1+1e-12) {
		t.Errorf("warm: %v after %d steps, objective %v, was %v", again.Status, len(again.Steps), again.Objective,
			res.Objective)
	}
	// The same model with vectors that are not normalised is the same function.
	scaled := res.Model.Clone()
	for i := range scaled.Basis {
		scaled.Basis[i] *= 2
	}
	for i := range scaled.Weights {
		scaled.Weights[i] /= 4
	}
	if same, err := Solve(t.Context(), p, scaled, s); err != nil ||
		!solvertest.Near(same.Objective, again.Objective, 1e-9, 0) {
		t.Errorf("warm from scaled vectors: objective %v, want %v (%v)", same.Objective, again.Objective, err)
	}
}

// TestWarmStartOfExtremes checks that basis vectors too short to square are dropped, and parameters too large to square
// refused.
func TestWarmStartOfExtremes(t *testing.T) {
	p := plantedRatings(8, 200, 5, 6)
	s := smallSettings()
	s.MaxSteps = 0
	warm := NewModel(ANOVA, 11, 4, true)
	warm.NumBasis, warm.Basis, warm.Weights = 1, make([]float64, 11), []float64{1, 1, 1, 1}
	warm.Basis[0], warm.Basis[7] = 5e-324, 5e-324
	run, err := newSolve(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.load(warm); err != nil || run.k != 0 {
		t.Errorf("basis %v (%v)", run.basis, err)
	}
	warm.Basis[0] = 1e200
	if _, err := Solve(t.Context(), p, warm, s); !errors.Is(err, ErrSettings) {
		t.Errorf("error %v does not wrap ErrSettings", err)
	}
}

// fiveVectors returns a problem, settings with room for five basis vectors, and a solve that filled it.
func fiveVectors(t *testing.T) (*Problem, Settings, *Result) {
	t.Helper()
	p := plantedRatings(4, 3000, 30, 40)
	s := smallSettings()
	s.MaxBasis = 5
	first, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return p, s, first
}

// TestWeightsOnly checks that a refit without a search ends at the model of one with a search for a vector that may not
// enter.
func TestWeightsOnly(t *testing.T) {
	_, s, first := fiveVectors(t)
	other := plantedRatings(9, 3000, 30, 40)
	s.MaxSteps, s.Rough = 0, true
	want, err := Solve(t.Context(), other, first.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	s.MaxSteps, s.Rough, s.WeightsOnly = 7, false, true
	res, err := Solve(t.Context(), other, first.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(res.Model, want.Model) || res.Objective != want.Objective || res.Status != BasisLimit ||
		len(res.Steps) != 1 {
		t.Errorf("objective %v after %d steps, %v; with a search %v", res.Objective, len(res.Steps), res.Status,
			want.Objective)
	}
	if last := res.Steps[0]; res.Gap != res.Objective || res.GapKind != Estimated || last.Criterion != 0 ||
		last.Nu != 0 ||
		!(want.Gap < want.Objective) {
		t.Errorf("gap %v, step %+v; with a search the gap is %v", res.Gap, last, want.Gap)
	}
}

// TestWarmStartMakesRoom checks that a full warm model can still improve and never gets worse.
func TestWarmStartMakesRoom(t *testing.T) {
	p, s, first := fiveVectors(t)
	if first.Model.NumBasis != 5 || first.Status != BasisLimit {
		t.Fatalf("%d basis vectors, %v", first.Model.NumBasis, first.Status)
	}
	res, err := Solve(t.Context(), p, first.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	if res.Model.NumBasis > 5 || len(res.Steps) < 2 || res.Objective > first.Objective*(1+1e-9) {
		t.Errorf("%d basis vectors after %d steps, objective %v, was %v", res.Model.NumBasis, len(res.Steps),
			res.Objective, first.Objective)
	}
}

func TestSolveStops(t *testing.T) {
	p := plantedRatings(5, 4000, 50, 70)
	s := DefaultSettings()
	s.Lambda, s.MaxBasis, s.Tolerance = 0.5, 100, 1e-9 // far more work than the test waits for
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var stopped time.Time
		s := s
		s.OnStep = func(step Step, _ *Model) bool {
			if step.K == 1 {
				time.AfterFunc(20*time.Millisecond, func() { stopped = time.Now(); cancel() })
			}
			return false
		}
		res, err := Solve(ctx, p, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Since(stopped); late > 2*time.Second { // TestCancelLatency measures it; all of the work is minutes
			t.Errorf("returned %v after the cancellation", late)
		}
		if res.Status != Interrupted || !res.Model.IsFinite() || !(res.Gap <= res.Objective) || res.Gap < 0 {
			t.Errorf("%v, gap %v, objective %v", res.Status, res.Gap, res.Objective)
		}
		if last := res.Steps[len(res.Steps)-1]; res.Objective > last.Objective*(1+1e-9) {
			t.Errorf("objective %v is above that of the last step, %v", res.Objective, last.Objective)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(30*time.Millisecond))
		defer cancel()
		if res, err := Solve(ctx, p, nil, s); err != nil || res.Status != TimeBudget {
			t.Errorf("%v, %v", res, err)
		}
	})
	t.Run("caller", func(t *testing.T) {
		s := s
		s.Tolerance = 1e-4
		calls := 0
		s.OnStep = func(step Step, model *Model) bool {
			if calls++; step.K != model.NumBasis || step.K != calls-1 {
				t.Errorf("call %d with K = %d and a model of %d", calls, step.K, model.NumBasis)
			}
			return calls == 3
		}
		res, err := Solve(t.Context(), p, nil, s)
		if err != nil || res.Status != Interrupted || len(res.Steps) != 3 || calls != 3 {
			t.Errorf("%v after %d calls and %d steps, %v", res.Status, calls, len(res.Steps), err)
		}
	})
	t.Run("steps", func(t *testing.T) {
		s := s
		s.Tolerance, s.MaxSteps = 1e-4, 2
		if res, err := Solve(t.Context(), p, nil, s); err != nil || res.Status != BasisLimit || len(res.Steps) != 3 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestLambdaMax(t *testing.T) {
	p := plantedRatings(6, 2000, 20, 25)
	s := smallSettings()
	top, err := LambdaMax(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	quick := s
	quick.Rough = true
	if found, err := LambdaMax(t.Context(), p, quick); err != nil || !(found < top && found > 0.95*top) {
		t.Errorf("a quick search found %g, a careful one %g, error %v", found, top, err)
	}
	for factor, wantBasis := range map[float64]bool{1.02: false, 0.9: true} {
		s.Lambda = factor * top
		res, err := Solve(t.Context(), p, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if (res.Model.NumBasis > 0) != wantBasis || res.Status != Converged && !wantBasis {
			t.Errorf("λ = %g·λmax: %d basis vectors, %v", factor, res.Model.NumBasis, res.Status)
		}
	}
}

// parts returns rows as a caller makes them without Append.
func parts(x *Rows) *Rows {
	return &Rows{NumColumns: x.NumColumns, Start: x.Start, Index: x.Index, Value: x.Value}
}

func TestSolveRefuses(t *testing.T) {
	good := func() *Problem { return plantedRatings(7, 50, 5, 6) }
	for name, spoil := range map[string]func(*Problem){
		"value":   func(p *Problem) { p.X.Value[3] = math.NaN() },
		"large":   func(p *Problem) { p.X.Value[3] = 1e7 },
		"column":  func(p *Problem) { p.X = parts(p.X); p.X.Index[3] = 11 },
		"order":   func(p *Problem) { p.X = parts(p.X); p.X.Index[0], p.X.Index[1] = p.X.Index[1], p.X.Index[0] },
		"start":   func(p *Problem) { p.X = parts(p.X); p.X.Start[2] = 7 },
		"last":    func(p *Problem) { p.X.Start[len(p.X.Start)-1]++ },
		"falling": func(p *Problem) { p.X.Start[2] = p.X.Start[3] + 1 },
		"weights": func(p *Problem) { p.Weights = make([]float64, 50); p.Weights[7] = 1e10 },
		"target":  func(p *Problem) { p.Targets[0] = math.Inf(1) },
		"weight":  func(p *Problem) { p.Weights = make([]float64, 50); p.Weights[7] = math.NaN() },
		"targets": func(p *Problem) { p.Targets = p.Targets[1:] },
		"rows":    func(p *Problem) { p.X = nil },
		"loss":    func(p *Problem) { p.Loss = nil },
	} {
		p := good()
		spoil(p)
		if _, err := Solve(t.Context(), p, nil, DefaultSettings()); !errors.Is(err, ErrProblem) {
			t.Errorf("%s: error %v does not wrap ErrProblem", name, err)
		}
	}
	for name, spoil := range map[string]func(*Settings){
		"lambda":    func(s *Settings) { s.Lambda = 0 },
		"nan":       func(s *Settings) { s.Lambda = math.NaN() },
		"ridge":     func(s *Settings) { s.LinearRidge = -1 },
		"kernel":    func(s *Settings) { s.Kernel = 0 },
		"penalty":   func(s *Settings) { s.Penalty = 9 },
		"solver":    func(s *Settings) { s.Solver = 0 },
		"tolerance": func(s *Settings) { s.Tolerance = 1 },
		"basis":     func(s *Settings) { s.MaxBasis = -1 },
		"refits":    func(s *Settings) { s.MaxIterations = 0 },
	} {
		s := DefaultSettings()
		spoil(&s)
		if _, err := Solve(t.Context(), good(), nil, s); !errors.Is(err, ErrSettings) {
			t.Errorf("%s: error %v does not wrap ErrSettings", name, err)
		}
	}
	warm := NewModel(Homogeneous, 11, 4, true)
	if _, err := Solve(t.Context(), good(), warm, DefaultSettings()); !errors.Is(err, ErrSettings) {
		t.Errorf("warm model of another kernel: %v", err)
	}
	if _, err := Solve(t.Context(), good(), NewModel(ANOVA, 12, 4, true), DefaultSettings()); !errors.Is(err,
		ErrSettings) {
		t.Errorf("warm model of another width: %v", err)
	}
}

// TestStepSeconds: a step says when its point was reached, before the search for the next vector.
func TestStepSeconds(t *testing.T) {
	for _, a := range []Algorithm{ConditionalGradient{}, ConvexFM{}} {
		ticks, last := 0, -1.0
		s := earlyFit()
		s.Workers, s.Yield, s.Now = 1, func() { ticks++ }, func() time.Time { return time.Unix(int64(ticks), 0) }
		s.OnStep = func(step Step, _ *Model) bool {
			if step.Seconds < last || step.Seconds >= float64(ticks) {
				t.Errorf("%s: %d vectors at %g of %d blocks, with the search; the step before at %g", a.Name(), step.K,
					step.Seconds, ticks, last)
			}
			last = step.Seconds
			return false
		}
		if _, err := a.Fit(t.Context(), squaredRatings(4, Squared{}), nil, s); err != nil || last < 0 {
			t.Errorf("%s: last step at %g, error %v", a.Name(), last, err)
		}
	}
}
