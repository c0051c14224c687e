package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// lineSettings are those of a solve by line search with room for many steps.
func lineSettings(s Settings, tolerance float64) Settings {
	s.Refit, s.Tolerance, s.MaxBasis, s.MaxSteps = LineSearch, tolerance, 400, 400
	return s
}

// neverRises reports steps whose objective is above that of the step before.
func neverRises(t *testing.T, res *Result) {
	t.Helper()
	for k := 1; k < len(res.Steps); k++ {
		if before, after := res.Steps[k-1].Objective, res.Steps[k].Objective; after > before*(1+1e-12) {
			t.Errorf("step %d: the objective rose from %v to %v", k, before, after)
		}
	}
}

// frankWolfeGap is ⟨∇F, U − S⟩ + λΩ(U) − λρ of a point, at most, as they define it, for a dual norm that is at least
// Ω*(∇F).
func frankWolfeGap(t gapTerms, dual float64) float64 {
	ridge, _, _ := t.ridge.At(1)
	if t.form.Tau > 0 {
		return t.inner + t.form.Tau*dual + ridge
	}
	return t.inner + t.form.Lambda*t.norm + t.objective/t.form.Lambda*max(0, dual-t.form.Lambda) + ridge
}

// TestLineSearchGlobalOptimum: of problems whose optimum over all unit vectors is known, steps by line search come
// within their certified gap of it, in both forms, from above. Their gap is at most that of Frank and Wolfe.
func TestLineSearchGlobalOptimum(t *testing.T) {
	tier.NotUnderRace(t)
	worst, cases, all := 0.0, 0, 0
	eachGlobalOptimum(t, func(t *testing.T, p *Problem, s Settings, optimum, lower float64) {
		if all++; !tier.Asked(tier.Long) && (all-1)/2%2 > 0 { // the plain form has both forms of every second problem
			return
		}
		res, err := Solve(t.Context(), p, nil, lineSettings(s, 1e-3))
		if err != nil {
			t.Fatal(err)
		}
		neverRises(t, res)
		if res.Objective < lower-1e-9*(1+optimum) || res.Objective-optimum > res.Gap+1e-7 {
			t.Errorf("%v: objective %v, optimum %v, certified gap %v", res.Status, res.Objective, optimum, res.Gap)
		}
		if norm := s.Penalty.Norm(res.Model.Weights, res.Model.NumBasis, p.Outputs); s.Tau > 0 &&
			norm > s.Tau*(1+1e-12) {
			t.Errorf("Ω is %v, beyond τ of %v", norm, s.Tau)
		}
		for _, steps := range []int{0, 1, 2, 5, 20} {
			run := solvedTo(t, p, lineSettings(s, 1e-3), steps)
			terms, bound := run.gapTerms(), run.gamma.BoundDual(s.Penalty, 1e-3, 1, nil)
			if gap, of := terms.at(bound.Value), frankWolfeGap(terms, bound.Value); gap > of*(1+1e-9)+1e-9 ||
				gap < run.objective-optimum-1e-7 {
				t.Errorf("%d steps: gap %v, that of Frank and Wolfe %v, distance %v", steps, gap, of,
					run.objective-optimum)
			}
		}
		worst, cases = max(worst, (res.Objective-optimum)/optimum), cases+1
	})
	t.Logf("%d of %d problems, at most %.2g above the optimum", cases, all, worst)
	if worst > 0.01 {
		t.Errorf("400 steps ended %v above an optimum", worst)
	}
}

// TestLineSearchConverges: steps by line search end at the optimum that refits find, of any loss, penalty and form,
// with a certificate.
func TestLineSearchConverges(t *testing.T) {
	tier.NotUnderRace(t)
	rng := rand.New(rand.NewPCG(7, 29))
	converged, cases := 0, 0
	for _, pen := range allPenalties {
		for range tier.Size(4, 40) {
			p, s := randomProblem(t, rng, pen)
			name := fmt.Sprintf("%v/%v/%s/%d outputs/linear %v", pen, s.Kernel, p.Loss.Name(), p.Outputs,
				s.LinearRidge > 0)
			refitted := s
			refitted.Tolerance, refitted.MaxIterations = 1e-7, 5000
			best, err := Solve(t.Context(), p, nil, refitted)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s = lineSettings(s, 5e-3)
				res, err := Solve(t.Context(), p, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				neverRises(t, res)
				optimum, lower := best.Objective, best.Objective-best.Gap
				if s.Tau > 0 { // of weights of the same norm λΩ cancels
					optimum, lower = optimum-refitted.Lambda*best.norm(s.Penalty),
						lower-refitted.Lambda*best.norm(s.Penalty)
				}
				excess := (res.Objective - optimum) / optimum
				if res.Objective < lower*(1-1e-9) || res.Objective-optimum > res.Gap*(1+1e-9) ||
					res.GapKind != Certified {
					t.Errorf("%s, τ %v: objective %v, optimum %v to %v, %s gap %v", name, s.Tau, res.Objective, lower,
						optimum, res.GapKind, res.Gap)
				}
				if cases++; res.Status == Converged {
					converged++
				}
				if excess > 0.06 || res.Status == Converged && excess > s.Tolerance {
					t.Errorf("%s, τ %v: %v after %d steps, %v above the optimum, gap %v", name, s.Tau, res.Status,
						len(res.Steps), excess, res.GapRelative)
				}
				if s.Tau = best.norm(s.Penalty); s.Tau == 0 {
					break
				}
				s.Lambda = 0
			}
		}
	}
	if t.Logf("%d of %d converged", converged, cases); converged < cases/2 {
		t.Errorf("only %d of %d converged in 400 steps", converged, cases)
	}
}

// norm returns Ω of the model.
func (r *Result) norm(p Penalty) float64 {
	return p.Norm(r.Model.Weights, r.Model.NumBasis, r.Model.NumOutputs)
}

// TestLineSearchRate: F_k − F* is at most 2C/(k + 2) at every step (Jaggi 2013, theorem 1), with the curvature
// constant of the squared loss over the ball of τ: the largest squared distance of the predictions of two of its
// vertices.
func TestLineSearchRate(t *testing.T) {
	p := interactions(11, Squared{}, 120, 5)
	three := &Problem{X: NewRows(3, 120, 360), Outputs: 1, Loss: Squared{}}
	for i := range 120 {
		_, value := p.X.Row(i)
		three.X.Append([]int32{0, 1, 2}, value[:3])
		three.Targets = append(three.Targets, value[0]*value[1]+0.7*value[2]*value[2]-0.4*value[1]*value[2])
	}
	s := smallSettings()
	s.Kernel, s.Penalty, s.LinearRidge, s.BiasRidge, s.Lambda, s.Tau = Homogeneous, L1, 0, 0, 0, 1.2
	exact := s
	exact.Tolerance, exact.MaxIterations, exact.MaxBasis = 1e-10, 5000, 50
	best, err := Solve(t.Context(), three, nil, exact)
	if err != nil || best.GapRelative > 1e-7 {
		t.Fatalf("optimum: %v, gap %v", err, best.GapRelative)
	}
	s = lineSettings(s, 1e-9)
	s.MaxBasis, s.MaxSteps = 1000, 300
	res, err := Solve(t.Context(), three, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	neverRises(t, res)
	curvature := curvatureOfBall(three, s.Tau)
	nearest := math.Inf(1)
	for k, step := range res.Steps[1:] {
		bound := 2 * curvature / float64(k+3)
		if nearest = min(nearest, bound/(step.Objective-best.Objective)); step.Objective-best.Objective > bound {
			t.Errorf("step %d: %v above the optimum, bound %v", k+1, step.Objective-best.Objective, bound)
		}
	}
	last := res.Steps[len(res.Steps)-1]
	t.Logf("C %.4g; F_k − F* is at most 1/%.3g of the bound, and %.3g after %d steps", curvature, nearest,
		last.Objective-best.Objective, len(res.Steps)-1)
	if len(res.Steps) < 100 || last.Objective-best.Objective < 0 {
		t.Errorf("%v after %d steps at %v, optimum %v: the rate is of no use here", res.Status, len(res.Steps),
			last.Objective, best.Objective)
	}
}

// curvatureOfBall returns the curvature constant of Σ½(t − o)² over the ball of τ in three features, to the fineness
// of a grid of unit vectors.
func curvatureOfBall(p *Problem, tau float64) float64 {
	var vertices [][]float64
	for a := range 24 {
		for b := range 24 {
			polar, around := math.Pi*(float64(a)+0.5)/48, math.Pi*float64(b)/12
			h := []float64{math.Sin(polar) * math.Cos(around), math.Sin(polar) * math.Sin(around), math.Cos(polar)}
			column := make([]float64, p.X.NumRows())
			for i := range column {
				_, value := p.X.Row(i)
				inner := floats.Dot(h, value)
				column[i] = tau * inner * inner
			}
			vertices = append(vertices, column)
		}
	}
	largest := 0.0
	for i, a := range vertices {
		for _, b := range vertices[:i+1] {
			cross := math.Abs(floats.Dot(a, b)) // each vertex has its opposite
			largest = max(largest, floats.Dot(a, a)+2*cross+floats.Dot(b, b))
		}
	}
	return largest
}

// withLoss gives a problem of ratings another loss, and one-hot targets if that is one of classes.
func withLoss(p *Problem, lossFn Loss) {
	p.Loss = lossFn
	switch lossFn.(type) {
	case Squared, BinaryLogistic, BinarySquaredHinge:
		return
	}
	for i := range p.X.NumRows() {
		target := p.Target(i)
		level := slices.Index(target, 1)
		clear(target)
		target[max(0, level)] = 1
	}
}

// TestSearchAlong: the best step length of a grid is no better than the one found, for losses of any shape, and it
// stays within [0, 1].
func TestSearchAlong(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 29))
	inside := 0
	for trial := range 300 {
		loss := allLosses[trial%len(allLosses)]
		p := plantedRatings(uint64(trial), 300, 9, 11)
		if withLoss(p, loss); trial%2 == 0 {
			p.Weights = make([]float64, p.X.NumRows())
			for i := range p.Weights {
				p.Weights[i] = math.Exp(rng.NormFloat64())
			}
		}
		k, m := 3, p.Outputs
		f := output.NewOutputFit(p, penalty.Form{Penalty: L1, Lambda: 1}, solvertest.TestWorkers(1))
		for range k {
			column := make([]float64, p.X.NumRows())
			for i := range column {
				column[i] = rng.NormFloat64()
			}
			f.Phi = append(f.Phi, column)
		}
		v, direction := make([]float64, k*m), make([]float64, k*m)
		size := math.Pow(10, float64(rng.IntN(12)-4))
		for i := range v {
			v[i], direction[i] = rng.NormFloat64(), size*rng.NormFloat64()
		}
		slope := 10 * rng.NormFloat64()
		length := f.SearchAlong(v, direction, slope)
		if !(length >= 0 && length <= 1) {
			t.Fatalf("trial %d: length %v", trial, length)
		}
		f.Along(v, direction)
		value := func(length float64) float64 { return f.Trial(length).Value + slope*length }
		found := value(length)
		for g := range 400 {
			at := math.Pow(10, -float64(g)/20)
			if other := value(at); other < found-1e-4*math.Abs(found-value(0))-1e-9*(1+math.Abs(found)) {
				t.Errorf("trial %d, %s: %v at %v, but %v at %v", trial, loss.Name(), found, length, other, at)
				break
			}
		}
		if found > value(0) {
			t.Errorf("trial %d: the objective rises from %v to %v", trial, value(0), found)
		}
		if length > 0 && length < 1 {
			inside++
		}
	}
	if inside < 50 {
		t.Errorf("only %d of 300 lengths are inside: the test is of no use", inside)
	}
}

// TestLineSearchWorkers: the result does not depend on the number of workers.
func TestLineSearchWorkers(t *testing.T) {
	p := plantedRatings(5, 3000, 40, 50)
	s := smallSettings()
	s.Refit, s.MaxBasis = LineSearch, 12
	var first *Result
	for _, workers := range []int{1, 2, 5} {
		s.Workers = workers
		res, err := Solve(t.Context(), p, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = res
		}
		if !reflect.DeepEqual(res.Model, first.Model) || res.Gap != first.Gap || res.Status != first.Status {
			t.Errorf("%d workers: objective %v and gap %v, one worker %v and %v", workers, res.Objective, res.Gap,
				first.Objective, first.Gap)
		}
	}
	if first.Model.NumBasis != 12 || first.Status != BasisLimit || first.GapLimit == "" ||
		first.FISTAIterations+first.NewtonIterations > 0 {
		t.Errorf("%v of %d vectors, gap limited by %q, %d and %d iterations of refits", first.Status,
			first.Model.NumBasis, first.GapLimit,
			first.FISTAIterations, first.NewtonIterations)
	}
}

// TestLineSearchWarm: a solve from an answer is no worse than it, from an optimum it ends at once, and where there is
// no room for another vector the model before that is returned if no better one is found.
func TestLineSearchWarm(t *testing.T) {
	p := plantedRatings(5, 400, 12, 15)
	s := smallSettings()
	s.Penalty, s.Tolerance, s.MaxBasis = L1, 1e-3, 60
	best, err := Solve(t.Context(), p, nil, s)
	if err != nil || best.Status != Converged {
		t.Fatalf("%v: %v", best.Status, err)
	}
	s.Refit = LineSearch
	again, err := Solve(t.Context(), p, best.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	if again.Status != Converged || len(again.Steps) > 2 || again.Objective > best.Objective*(1+1e-9) {
		t.Errorf("from the optimum: %v after %d steps, %v of %v", again.Status, len(again.Steps), again.Objective,
			best.Objective)
	}
	s.MaxBasis, s.MaxSteps = 400, 20
	part, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	on, err := Solve(t.Context(), p, part.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	neverRises(t, on)
	if !(on.Objective < part.Objective) || on.Objective < best.Objective-best.Gap {
		t.Errorf("20 steps end at %v, 20 more at %v, the optimum is %v", part.Objective, on.Objective, best.Objective)
	}
	s.MaxBasis, s.Penalty = part.Model.NumBasis, L1Linf
	full, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	last, err := Solve(t.Context(), p, full.Model, s)
	if err != nil {
		t.Fatal(err)
	}
	if last.Objective > full.Objective*(1+1e-12) || last.Model.NumBasis > s.MaxBasis {
		t.Errorf("with no room: %v of %d vectors, before %v", last.Objective, last.Model.NumBasis, full.Objective)
	}
}

// TestLineSearchRoom: with one output, or ℓ1, MaxBasis ends no solve whose vectors span fewer features.
func TestLineSearchRoom(t *testing.T) {
	p := interactions(3, BinaryLogistic{}, 200, 5)
	s := smallSettings()
	s.Refit, s.Lambda, s.MaxBasis, s.Tolerance = LineSearch, 8, 8, 1e-3
	res, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	neverRises(t, res)
	if res.Status != Converged || len(res.Steps) < 10 || res.Model.NumBasis > 8 {
		t.Errorf("%v after %d steps with %d vectors, gap %v", res.Status, len(res.Steps), res.Model.NumBasis,
			res.GapRelative)
	}
}

// TestLineSearchExtremes: no λ, target or scale of features makes a result that is not finite, or that is worse than
// no interactions.
func TestLineSearchExtremes(t *testing.T) {
	tier.NotUnderRace(t)
	for _, lambda := range tier.Size([]float64{1e-45, 1e90}, []float64{1e-45, 1, 1e90}) {
		for _, scale := range tier.Size([]float64{1e-6, 1e6}, []float64{1e-6, 1, 1e6}) {
			for _, loss := range allLosses {
				p := plantedRatings(5, 60, 9, 11)
				withLoss(p, loss)
				for i := range p.X.NumRows() {
					_, value := p.X.Row(i)
					floats.Scale(scale, value)
				}
				s := smallSettings()
				s.Refit, s.Lambda, s.MaxBasis = LineSearch, lambda, 6
				res, err := Solve(t.Context(), p, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				neverRises(t, res)
				for _, x := range append([]float64{res.Objective, res.Gap, res.GapRelative, res.GapEstimate},
					res.Model.Weights...) {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Fatalf("λ %g, features of %g, %s: a result of %v", lambda, scale, loss.Name(), x)
					}
				}
				if res.Gap > res.ConvexObjective || res.Objective > res.Steps[0].Objective {
					t.Errorf("λ %g, features of %g, %s: objective %v from %v, gap %v", lambda, scale, loss.Name(),
						res.Objective, res.Steps[0].Objective, res.Gap)
				}
			}
		}
	}
}
