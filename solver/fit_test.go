package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// slowObjective evaluates the penalised objective of an output refit row by row.
func slowObjective(f *output.OutputFit, v []float64) float64 {
	p, m := f.P, f.P.Outputs
	sum := f.Form.Lambda * f.Form.Penalty.Norm(v, len(f.Phi), m)
	for i := range p.X.NumRows() {
		out := append([]float64(nil), f.Offset[i*m:i*m+m]...)
		for r, phi := range f.Phi {
			for c := range out {
				out[c] += v[r*m+c] * phi[i]
			}
		}
		sum += p.Weight(i) * p.Loss.Eval(nil, out, p.Target(i))
	}
	return sum
}

// weightedFit returns a refit of k random columns with offsets and row weights.
func weightedFit(n, k int) *output.OutputFit {
	rng := rand.New(rand.NewPCG(21, 22))
	p := plantedRatings(8, n, 30, 40)
	p.Weights = make([]float64, n)
	for i := range p.Weights {
		p.Weights[i] = 2 * rng.Float64()
	}
	f := output.NewOutputFit(p, penalty.Form{Penalty: L1L2, Lambda: 3}, solvertest.TestWorkers(2))
	for range k {
		phi := make([]float64, n)
		for i := range phi {
			phi[i] = rng.NormFloat64() + 0.1*p.Targets[i*4+1]
		}
		f.Phi = append(f.Phi, phi)
	}
	for i := range f.Offset {
		f.Offset[i] = 0.3 * rng.NormFloat64()
	}
	return f
}

func TestFISTA(t *testing.T) {
	const n, k = 3000, 5
	f := weightedFit(n, k)
	m := f.P.Outputs
	v := make([]float64, k*m)
	if before, want := f.Objective(v), slowObjective(f, v); !solvertest.Near(before, want, 1e-12, 0) {
		t.Fatalf("objective %v, want %v", before, want)
	}
	f.Minimize(v, output.FitLimits{Tolerance: 1e-14, Span: 10, Iterations: 5000})
	best := slowObjective(f, v)
	if got := f.Objective(v); !solvertest.Near(got, best, 1e-12, 0) {
		t.Errorf("objective %v, want %v", got, best)
	}
	// No direction goes down from the minimum of a convex function.
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		moved := append([]float64(nil), v...)
		for i := range moved {
			moved[i] += 1e-3 * rng.NormFloat64()
		}
		if other := slowObjective(f, moved); other < best-1e-9*best {
			t.Fatalf("objective %v at the minimum, %v nearby", best, other)
		}
	}
	// A minimum stays, and a loose refit from elsewhere comes close.
	again := append([]float64(nil), v...)
	if used := f.Minimize(again, output.FitLimits{Tolerance: 1e-4, Span: 10, Iterations: 500}); used > 25 ||
		slowObjective(f, again) > best {
		t.Errorf("%d iterations from the minimum to %v, was %v", used, slowObjective(f, again), best)
	}
	loose := make([]float64, k*m)
	f.Minimize(loose, output.FitLimits{Tolerance: 1e-4, Span: 10, Iterations: 500})
	if got := slowObjective(f, loose); got > best*(1+1e-3) {
		t.Errorf("loose refit reaches %v, minimum %v", got, best)
	}
}

func TestStochastic(t *testing.T) {
	f := weightedFit(3000, 5)
	m := f.P.Outputs
	start, best, v := make([]float64, 5*m), make([]float64, 5*m), make([]float64, 5*m)
	f.Minimize(best, output.FitLimits{Tolerance: 1e-10, Span: 10, Iterations: 2000})
	used, fell := f.Stochastic(v, 30, rand.New(rand.NewPCG(3, 3)))
	low, high, got := f.Objective(best), f.Objective(start), f.Objective(v)
	if used != 30 || !fell || got > low+0.2*(high-low) {
		t.Errorf("%d epochs (%v) from %v to %v, minimum %v", used, fell, high, got, low)
	}
	same := make([]float64, 5*m)
	f.Stochastic(same, 30, rand.New(rand.NewPCG(3, 3)))
	if !floats.Same(v, same) {
		t.Error("the same seed gives other weights")
	}
	// At the minimum the noise of the epochs can only hurt: they are dropped.
	kept := append([]float64(nil), best...)
	if _, fell := f.Stochastic(kept, 2, rand.New(rand.NewPCG(4, 4))); fell || !floats.Same(kept, best) {
		t.Errorf("epochs at the minimum were kept: objective %v, was %v", f.Objective(kept), low)
	}
}

// TestFISTARestarts bounds the iterations on columns that are nearly dependent: 600 reach 1e-9, without restarts 4000
// do not.
func TestFISTARestarts(t *testing.T) {
	const k, m = 6, 2
	f := dependentFit(Squared{}, L1, 2000, k, m)
	best, v := make([]float64, k*m), make([]float64, k*m)
	f.Newton(best, nil, accurate)
	low := slowObjective(f, best)
	f.Minimize(v, output.FitLimits{Tolerance: 1e-15, Span: 1000, Iterations: 1000})
	if got := slowObjective(f, v); got > low*(1+1e-9) {
		t.Errorf("objective %v after 1000 iterations, minimum %v", got, low)
	}
}

// TestSVRG checks that epochs come near the minimum, that the same seed gives the same weights, and that epochs that
// raise the objective are dropped.
func TestSVRG(t *testing.T) {
	f := weightedFit(3000, 5)
	m := f.P.Outputs
	start, best, v := make([]float64, 5*m), make([]float64, 5*m), make([]float64, 5*m)
	f.Minimize(best, output.FitLimits{Tolerance: 1e-12, Span: 10, Iterations: 2000})
	low, high := f.Objective(best), f.Objective(start)
	used, fell := f.Svrg(v, 30, rand.New(rand.NewPCG(3, 3)))
	if got := f.Objective(v); used != 30 || !fell || got > low+0.01*(high-low) {
		t.Errorf("%d epochs (%v) from %v to %v, minimum %v", used, fell, high, got, low)
	}
	same := make([]float64, 5*m)
	f.Svrg(same, 30, rand.New(rand.NewPCG(3, 3)))
	if !sameBits(v, same) {
		t.Error("the same seed gives other weights")
	}
	for range 5 { // at the minimum, and from there
		before := f.Objective(best)
		kept := append([]float64(nil), best...)
		_, fell := f.Svrg(best, 1, rand.New(rand.NewPCG(4, 4)))
		if after := f.Objective(best); after > before || fell != (after < before) || !fell && !sameBits(kept, best) {
			t.Errorf("objective %v (%v), was %v", after, fell, before)
		}
	}
	// In constrained form the weights stay in the ball.
	f.Form = penalty.Form{Penalty: L1L2, Tau: 0.2}
	clear(v)
	f.Svrg(v, 10, rand.New(rand.NewPCG(5, 5)))
	clear(same)
	f.Minimize(same, output.FitLimits{Tolerance: 1e-12, Span: 10, Iterations: 2000})
	if norm, got, want := L1L2.Norm(v, 5, m), f.Objective(v), f.Objective(same); norm > 0.2*(1+1e-9) ||
		got > want+0.05*(high-want) {
		t.Errorf("norm %v, objective %v, minimum %v", norm, got, want)
	}
}

// TestMinibatchGradient checks that batches of all rows, in any order, add up to the full gradient.
func TestMinibatchGradient(t *testing.T) {
	const n, k = 700, 3
	f := weightedFit(n, k)
	m := f.P.Outputs
	v, got := make([]float64, k*m), make([]float64, k*m)
	for i := range v {
		v[i] = math.Sin(float64(i))
	}
	f.TakeOffset()
	batch, order := output.NewMinibatch(f), rand.New(rand.NewPCG(1, 2)).Perm(n)
	for lo := 0; lo < n; lo += output.StochasticBatch {
		batch.Gather(order[lo:min(n, lo+output.StochasticBatch)])
		batch.AddGradient(got, v, 1)
	}
	if factor := batch.Factor() * float64(n%output.StochasticBatch); factor != n {
		t.Errorf("a batch of %d rows is scaled to %v, want %d", n%output.StochasticBatch, factor, n)
	}
	_, _, want := f.Pass(v, 0)
	if !floats.EqualApprox(got, want, 1e-9) {
		t.Errorf("gradient %v, want %v", got, want)
	}
}

func TestStochasticSolver(t *testing.T) {
	p := plantedRatings(9, 4000, 30, 40)
	s := smallSettings()
	fista, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Solver = Stochastic
	rough, err := Solve(t.Context(), p, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if rough.FISTAIterations != 0 || rough.StochasticEpochs == 0 || rough.Objective > 1.05*fista.Objective {
		t.Errorf("stochastic: objective %v after %d epochs and %d iterations, FISTA %v",
			rough.Objective, rough.StochasticEpochs, rough.FISTAIterations, fista.Objective)
	}
}

// TestLinearPass compares a pass with sums row by row.
func TestLinearPass(t *testing.T) {
	for _, ridge := range []float64{0, 0.5} {
		p := plantedRatings(11, 2300, 25, 30)
		n, m := p.X.NumRows(), p.Outputs
		p.Weights = make([]float64, n)
		rng := rand.New(rand.NewPCG(6, 5))
		for i := range p.Weights {
			p.Weights[i] = rng.Float64()
		}
		f := linear.NewLinearFit(p, ridge, 1e-6, solvertest.TestWorkers(2))
		f.Minimize(1, 1)
		direction, base := make([]float64, len(f.Theta)), make([]float64, n*m)
		for i := range direction {
			direction[i] = rng.NormFloat64()
		}
		for i := range base {
			base[i] = rng.NormFloat64()
		}
		loss.ToTiles(f.Pred, base, m, 0, n)
		move, grad := make([]float64, n*m), make([]float64, n*m)
		f.PredictTo(move, direction)
		for i := range move {
			move[i] = base[i] + 0.3*move[i]
		}
		want, wantGradient := linear.RowLosses(f.Workers, p, move, grad), make([]float64, len(f.Theta))
		clear(f.Theta) // no ridge term
		f.GradientTo(wantGradient, grad)
		got := make([]float64, len(f.Theta))
		for _, gathered := range [][]float64{direction, nil} {
			if value := f.Pass(got, gathered, 0.3); !solvertest.Near(value, want, 1e-12, 0) {
				t.Errorf("ridge %v: loss %v, want %v", ridge, value, want)
			}
			f.AddRidge(got)
			if !floats.EqualApprox(got, wantGradient, 1e-9) {
				t.Errorf("ridge %v: gradient %v, want %v", ridge, got[:8], wantGradient[:8])
			}
		}
	}
}

func TestLinearFit(t *testing.T) {
	p := plantedRatings(10, 2000, 25, 30)
	p.Weights = make([]float64, 2000)
	for i := range p.Weights {
		p.Weights[i] = float64(i%4) / 1.5
	}
	f := linear.NewLinearFit(p, 0.5, 1e-6, solvertest.TestWorkers(2))
	rng := rand.New(rand.NewPCG(5, 5))
	offset, pred := make([]float64, len(f.Pred)), make([]float64, len(f.Pred))
	for i := range offset {
		offset[i] = rng.NormFloat64()
	}
	loss.ToTiles(f.Pred, offset, p.Outputs, 0, p.X.NumRows())
	f.Minimize(1e-14, 500)
	for lo := 0; lo < p.X.NumRows(); lo += loss.FitTile {
		hi := min(lo+loss.FitTile, p.X.NumRows())
		loss.FromTile(pred[lo*p.Outputs:hi*p.Outputs], f.Pred[lo*p.Outputs:hi*p.Outputs], p.Outputs, hi-lo)
	}
	gradient, grad := make([]float64, len(f.Theta)), make([]float64, len(f.Pred))
	linear.RowLosses(f.Workers, p, pred, grad)
	f.GradientTo(gradient, grad)
	if norm := dense.Norm2(gradient); norm > 1e-3 {
		t.Errorf("gradient of norm %g at the minimum", norm)
	}
	// The predictions it keeps are those of a model with its parameters.
	m, d := p.Outputs, p.X.NumColumns
	model := Model{Kernel: ANOVA, NumFeatures: d, NumOutputs: m, Linear: f.Theta[:d*m], Bias: f.Theta[d*m:]}
	out := make([]float64, m)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		model.Predict(out, nil, index, value)
		for c, o := range out {
			if got, want := pred[i*m+c], o+offset[i*m+c]; !solvertest.Near(got, want, 1e-9, 1e-9) {
				t.Fatalf("prediction %d,%d is %v, want %v", i, c, got, want)
			}
		}
	}
	loss.ToTiles(f.Pred, offset, m, 0, p.X.NumRows())
	if used := f.Minimize(1e-6, 100); used > 1 {
		t.Errorf("%d iterations from the minimum", used)
	}
	// A bias that is off is put right without the linear term.
	for c := range m {
		f.Theta[d*m+c] += 1
	}
	f.PredictTo(pred, f.Theta)
	floats.Add(pred, offset)
	f.SettleBias(pred, grad, 1e-4)
	if gap, _, _ := f.RidgeTerms(grad).At(1); gap > 1 {
		t.Errorf("gap %g after settling the bias", gap)
	}
}

func BenchmarkFISTAIteration(b *testing.B) {
	for _, c := range []struct {
		loss    Loss
		n, k, m int
	}{{BinaryLogistic{}, 50_000, 20, 4}, {MultinomialLogistic{}, 7500, 150, 26}} {
		b.Run(fmt.Sprintf("%s/%dx%dx%d", c.loss.Name(), c.n, c.k, c.m), func(b *testing.B) {
			f := dependentFit(c.loss, L1L2, c.n, c.k, c.m)
			f.P.Weights, f.Workers.Size = nil, 1
			v := make([]float64, c.k*c.m)
			for i := range v {
				v[i] = 0.01 * math.Sin(float64(i))
			}
			f.TakeOffset()
			f.Pass(v, 0)
			b.ReportAllocs()
			for b.Loop() {
				f.Pass(v, 0.5)
			}
		})
	}
}

// BenchmarkLinearPass is one step of the linear term on ratings.
func BenchmarkLinearPass(b *testing.B) {
	const n = 50_000
	f := linear.NewLinearFit(plantedRatings(3, n, 6000, 3900), 0.5, 1e-6, solvertest.TestWorkers(1))
	f.Minimize(1e-3, 1)
	gradient := make([]float64, len(f.Theta))
	b.ReportAllocs()
	for b.Loop() {
		f.Pass(gradient, f.Theta, 1)
	}
}

// BenchmarkPassWorkers measures how much faster two workers are than one, by the shortest of many passes taken in turn:
// on two idle processors close to 2.
func BenchmarkPassWorkers(b *testing.B) {
	for _, n := range []int{5000, 10_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			f := dependentFit(MultinomialLogistic{}, L1L2, n, 150, 26)
			f.P.Weights = nil
			v := make([]float64, 150*26)
			for i := range v {
				v[i] = 0.01 * math.Sin(float64(i))
			}
			f.TakeOffset()
			f.Scratch = output.NewFitScratch(f.P, 2)
			least := [3]float64{1: math.Inf(1), 2: math.Inf(1)}
			for b.Loop() {
				for size := 1; size <= 2; size++ {
					f.Workers.Size = size
					began := time.Now()
					f.Pass(v, 0)
					least[size] = min(least[size], time.Since(began).Seconds())
				}
			}
			b.ReportMetric(least[1]/least[2], "times")
		})
	}
}
