package solver

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

// checkFinite fails if any number of a result is NaN or infinite or contradicts another.
func checkFinite(t *testing.T, res *Result) {
	t.Helper()
	if !res.Model.IsFinite() {
		t.Fatalf("model is not finite: %+v", res.Model)
	}
	numbers := []float64{res.Objective, res.ConvexObjective, res.Gap, res.GapRelative, res.GapFailure, res.GapEstimate}
	for _, step := range res.Steps {
		numbers = append(numbers, step.Objective, step.Gap, step.Criterion, step.Nu)
		if step.Gap < 0 || step.Nu < 0 || step.Nu > 1 {
			t.Fatalf("step %+v", step)
		}
	}
	for _, x := range numbers {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Fatalf("result is not finite: %+v", res)
		}
	}
	if res.Gap < 0 || res.Gap > res.ConvexObjective || res.GapEstimate > res.Gap || res.GapEstimate < 0 ||
		res.Status == 0 ||
		res.GapKind == "" {
		t.Fatalf("result %+v", res)
	}
}

// hostile returns numbers that arithmetic is most likely to trip over, within limit but for one in a hundred.
func hostile(rng *rand.Rand, limit float64) float64 {
	switch rng.IntN(10) {
	case 0, 1:
		return 0
	case 2:
		return math.Copysign(limit, rng.NormFloat64())
	case 3:
		return 1e-200 * rng.NormFloat64()
	case 4:
		return math.SmallestNonzeroFloat64
	case 5:
		return limit * (2*rng.Float64() - 1)
	case 6:
		if rng.IntN(10) == 0 {
			return []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -2 * limit}[rng.IntN(5)]
		}
	case 7:
		return 1
	}
	return rng.NormFloat64()
}

// checkDual fails if the certified lower bound of a result, its objective less its gap, is above the objective of
// another model that the convex problem allows, or if the result says converged without a certificate within tolerance.
// In constrained form a full refit may make vectors longer than 1 and so leave the ball of radius τ: the bound is of
// the ball that the model is in, and another model may be outside of that. Sums are taken to be as exact as the empty
// model's objective lets them, and each loss as numbers about 1 are.
func checkDual(t *testing.T, res *Result, p *Problem, s Settings, others ...*Result) {
	t.Helper()
	if res.GapKind != Certified {
		if res.Status == Converged {
			t.Fatalf("converged with a gap that is %s", res.GapKind)
		}
		return
	}
	if res.Status == Converged && res.Gap > s.Tolerance*res.ConvexObjective {
		t.Fatalf("converged with a relative gap of %v", res.GapRelative)
	}
	empty, rounding := emptyObjective(p), 0.0
	for i := range p.X.NumRows() {
		rounding += 1e-15 * p.Weight(i)
	}
	objectives, radius := []float64{empty}, max(s.Tau, convexNorm(res.Model, s))
	for _, other := range others {
		if s.Tau == 0 || convexNorm(other.Model, s) <= radius*(1+1e-12) {
			objectives = append(objectives, other.ConvexObjective)
		}
	}
	for _, objective := range objectives {
		if res.ConvexObjective-res.Gap > objective+1e-9*(1+objective+res.ConvexObjective)+1e-12*empty+rounding {
			t.Fatalf("objective %v with a gap of %v (%s), but another is %v", res.ConvexObjective, res.Gap,
				res.GapBound, objective)
		}
	}
}

// convexNorm returns Ω(U) of a model, whose vectors count as unit vectors with so much more weight.
func convexNorm(m *Model, s Settings) float64 {
	unit := slices.Clone(m.Weights)
	for r := range m.NumBasis {
		square := 0.0
		for j := range m.NumFeatures {
			square += m.Basis[j*m.NumBasis+r] * m.Basis[j*m.NumBasis+r]
		}
		floats.Scale(s.Kernel.OfSquare(square), unit[r*m.NumOutputs:(r+1)*m.NumOutputs])
	}
	return s.Penalty.Norm(unit, m.NumBasis, m.NumOutputs)
}

// emptyObjective returns the objective of the model without any parameters.
func emptyObjective(p *Problem) float64 {
	total := 0.0
	zero := make([]float64, p.Outputs)
	for i := range p.X.NumRows() {
		total += p.Weight(i) * p.Loss.Eval(nil, zero, p.Target(i))
	}
	return total
}

// FuzzSolve checks that no problem, settings or warm model make a solve panic or return a number that is not finite, or
// a certificate that another feasible model refutes: the empty one, that of the solve cut short, and that of rough
// refits of weights and basis.
func FuzzSolve(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint8(seed), uint8(seed*7), uint8(seed*11), seed%2 == 0, 1.0, 0.5)
	}
	f.Add(uint64(1), uint8(0), uint8(0), uint8(0), true, 1e-300, 0.0)
	f.Add(uint64(2), uint8(9), uint8(4), uint8(3), false, 1e300, 1e-300)
	f.Add(uint64(3), uint8(30), uint8(6), uint8(7), true, 5e-324, 1e300)
	f.Fuzz(func(t *testing.T, seed uint64, rows, columns, choice uint8, wild bool, strength, ridge float64) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n, d, m := 1+int(rows)%40, 1+int(columns)%8, 1+int(choice)%6
		p := &Problem{
			X:       NewRows(d, n, n*d),
			Targets: make([]float64, n*m),
			Outputs: m,
			Loss:    allLosses[rng.IntN(len(allLosses))],
		}
		number := func(limit float64) float64 {
			if wild {
				return hostile(rng, limit)
			}
			return math.Round(2 * rng.NormFloat64())
		}
		for i := range n {
			switch kind := rng.IntN(6); {
			case kind == 0:
				p.X.Append(nil, nil)
			case kind == 1 && i > 0:
				index, value := p.X.Row(i - 1)
				p.X.Append(index, value)
			case kind < 4 && d > 1:
				j := rng.IntN(d - 1)
				p.X.Append([]int32{int32(j), int32(j + 1)},
					[]float64{number(problem.MaxValue), number(problem.MaxValue)})
			default:
				index, value := make([]int32, d), make([]float64, d)
				for j := range d {
					index[j], value[j] = int32(j), number(problem.MaxValue)
				}
				p.X.Append(index, value)
			}
			top := rng.IntN(m)
			for c := range m {
				switch p.Loss.(type) {
				case Squared:
					p.Targets[i*m+c] = number(problem.MaxTarget)
				case BinaryLogistic:
					p.Targets[i*m+c] = math.Copysign(1, rng.NormFloat64())
				default:
					if c == top {
						p.Targets[i*m+c] = 1
					}
				}
			}
		}
		if rng.IntN(2) == 0 {
			p.Weights = make([]float64, n)
			for i := range p.Weights {
				p.Weights[i] = math.Abs(number(problem.MaxWeight))
			}
		}
		s := DefaultSettings()
		s.Kernel = []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3}[rng.IntN(4)]
		s.Penalty = allPenalties[rng.IntN(3)]
		s.Solver = []Method{Hybrid, FISTA, Stochastic, SVRG, Newton}[rng.IntN(5)]
		s.Selection = Selection(rng.IntN(int(BestData) + 1))
		s.Refit, s.FullEvery, s.FullIterations = Depth(1+rng.IntN(2)), 1+rng.IntN(2), 5
		if s.Refit == Full && rng.IntN(2) == 0 {
			s.BasisRidge = 1
		}
		s.MaxBasis, s.MaxIterations, s.Workers, s.Rough = rng.IntN(5), 30, 1, rng.IntN(4) == 0
		s.LinearRidge, s.BiasRidge = math.Abs(ridge), []float64{0, 1e-6, 1}[rng.IntN(3)]
		if s.Lambda, s.Tau = math.Abs(strength), 0; rng.IntN(2) == 0 {
			s.Lambda, s.Tau = 0, s.Lambda
		}
		var warm *Model
		if rng.IntN(2) == 0 {
			k := rng.IntN(4)
			warm = NewModel(s.Kernel, d, m, true)
			warm.NumBasis, warm.Basis, warm.Weights = k, make([]float64, d*k), make([]float64, k*m)
			for _, part := range [][]float64{warm.Basis, warm.Weights, warm.Linear, warm.Bias} {
				for i := range part {
					part[i] = number(maxParameter)
				}
			}
		}
		res, err := Solve(t.Context(), p, warm, s)
		if err != nil {
			if !errors.Is(err, ErrProblem) && !errors.Is(err, ErrSettings) {
				t.Fatal(err)
			}
			return
		}
		checkFinite(t, res)
		whole := s
		if s.Refit, s.Rough, s.Solver = OutputLayer, true, FISTA; whole.Refit == OutputLayer {
			s.Refit, s.BasisRidge = Full, 0
		}
		other, err := Solve(t.Context(), p, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		checkFinite(t, other)
		s = whole
		checkDual(t, res, p, s, other)
		checkDual(t, other, p, s, res)
		// Cut short after any number of blocks, the result is as sound.
		var ctx context.Context
		ctx, s.Yield, _ = cancelAt(t, int64(rng.IntN(300)))
		cut, err := Solve(ctx, p, warm, s)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			return
		}
		checkFinite(t, cut)
		checkDual(t, res, p, s, cut)
		checkDual(t, cut, p, s, res)
	})
}
