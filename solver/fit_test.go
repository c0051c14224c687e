package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
)

// slowObjective evaluates the penalised objective of an output refit row by row.
func slowObjective(f *outputFit, v []float64) float64 {
	p, m := f.p, f.p.Outputs
	sum := f.form.lambda * f.form.penalty.Norm(v, len(f.phi), m)
	for i := range p.X.NumRows() {
		out := append([]float64(nil), f.offset[i*m:i*m+m]...)
		for r, phi := range f.phi {
			for c := range out {
				out[c] += v[r*m+c] * phi[i]
			}
		}
		sum += p.Weight(i) * p.Loss.Eval(nil, out, p.Target(i))
	}
	return sum
}

// weightedFit returns a refit of k random columns with offsets and row weights.
func weightedFit(n, k int) *outputFit {
	rng := rand.New(rand.NewPCG(21, 22))
	p := plantedRatings(8, n, 30, 40)
	p.Weights = make([]float64, n)
	for i := range p.Weights {
		p.Weights[i] = 2 * rng.Float64()
	}
	f := newOutputFit(p, form{penalty: L1L2, lambda: 3}, testWorkers(2))
	for range k {
		phi := make([]float64, n)
		for i := range phi {
			phi[i] = rng.NormFloat64() + 0.1*p.Targets[i*4+1]
		}
		f.phi = append(f.phi, phi)
	}
	for i := range f.offset {
		f.offset[i] = 0.3 * rng.NormFloat64()
	}
	return f
}

func TestFISTA(t *testing.T) {
	const n, k = 3000, 5
	f := weightedFit(n, k)
	m := f.p.Outputs
	v := make([]float64, k*m)
	if before, want := f.objective(v), slowObjective(f, v); !near(before, want, 1e-12, 0) {
		t.Fatalf("objective %v, want %v", before, want)
	}
	f.minimize(v, fitLimits{tolerance: 1e-14, span: 10, iterations: 5000})
	best := slowObjective(f, v)
	if got := f.objective(v); !near(got, best, 1e-12, 0) {
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
	if used := f.minimize(again, fitLimits{1e-4, 10, 500}); used > 25 || slowObjective(f, again) > best {
		t.Errorf("%d iterations from the minimum to %v, was %v", used, slowObjective(f, again), best)
	}
	loose := make([]float64, k*m)
	f.minimize(loose, fitLimits{1e-4, 10, 500})
	if got := slowObjective(f, loose); got > best*(1+1e-3) {
		t.Errorf("loose refit reaches %v, minimum %v", got, best)
	}
}

func TestStochastic(t *testing.T) {
	f := weightedFit(3000, 5)
	m := f.p.Outputs
	start, best, v := make([]float64, 5*m), make([]float64, 5*m), make([]float64, 5*m)
	f.minimize(best, fitLimits{1e-10, 10, 2000})
	used, fell := f.stochastic(v, 30, rand.New(rand.NewPCG(3, 3)))
	low, high, got := f.objective(best), f.objective(start), f.objective(v)
	if used != 30 || !fell || got > low+0.2*(high-low) {
		t.Errorf("%d epochs (%v) from %v to %v, minimum %v", used, fell, high, got, low)
	}
	same := make([]float64, 5*m)
	f.stochastic(same, 30, rand.New(rand.NewPCG(3, 3)))
	if !floats.Same(v, same) {
		t.Error("the same seed gives other weights")
	}
	// At the minimum the noise of the epochs can only hurt: they are dropped.
	kept := append([]float64(nil), best...)
	if _, fell := f.stochastic(kept, 2, rand.New(rand.NewPCG(4, 4))); fell || !floats.Same(kept, best) {
		t.Errorf("epochs at the minimum were kept: objective %v, was %v", f.objective(kept), low)
	}
}

// TestFISTARestarts bounds the iterations on columns that are nearly dependent: 600 reach 1e-9, without restarts 4000 do not.
func TestFISTARestarts(t *testing.T) {
	const k, m = 6, 2
	f := dependentFit(Squared{}, L1, 2000, k, m)
	best, v := make([]float64, k*m), make([]float64, k*m)
	f.newton(best, nil, accurate)
	low := slowObjective(f, best)
	f.minimize(v, fitLimits{tolerance: 1e-15, span: 1000, iterations: 1000})
	if got := slowObjective(f, v); got > low*(1+1e-9) {
		t.Errorf("objective %v after 1000 iterations, minimum %v", got, low)
	}
}

// TestSVRG checks that epochs come near the minimum, that the same seed gives the same weights, and that epochs that raise the objective
// are dropped.
func TestSVRG(t *testing.T) {
	f := weightedFit(3000, 5)
	m := f.p.Outputs
	start, best, v := make([]float64, 5*m), make([]float64, 5*m), make([]float64, 5*m)
	f.minimize(best, fitLimits{1e-12, 10, 2000})
	low, high := f.objective(best), f.objective(start)
	used, fell := f.svrg(v, 30, rand.New(rand.NewPCG(3, 3)))
	if got := f.objective(v); used != 30 || !fell || got > low+0.01*(high-low) {
		t.Errorf("%d epochs (%v) from %v to %v, minimum %v", used, fell, high, got, low)
	}
	same := make([]float64, 5*m)
	f.svrg(same, 30, rand.New(rand.NewPCG(3, 3)))
	if !sameBits(v, same) {
		t.Error("the same seed gives other weights")
	}
	for range 5 { // at the minimum, and from there
		before := f.objective(best)
		kept := append([]float64(nil), best...)
		_, fell := f.svrg(best, 1, rand.New(rand.NewPCG(4, 4)))
		if after := f.objective(best); after > before || fell != (after < before) || !fell && !sameBits(kept, best) {
			t.Errorf("objective %v (%v), was %v", after, fell, before)
		}
	}
	// In constrained form the weights stay in the ball.
	f.form = form{penalty: L1L2, tau: 0.2}
	clear(v)
	f.svrg(v, 10, rand.New(rand.NewPCG(5, 5)))
	clear(same)
	f.minimize(same, fitLimits{1e-12, 10, 2000})
	if norm, got, want := L1L2.Norm(v, 5, m), f.objective(v), f.objective(same); norm > 0.2*(1+1e-9) || got > want+0.05*(high-want) {
		t.Errorf("norm %v, objective %v, minimum %v", norm, got, want)
	}
}

// TestMinibatchGradient checks that batches of all rows, in any order, add up to the full gradient.
func TestMinibatchGradient(t *testing.T) {
	const n, k = 700, 3
	f := weightedFit(n, k)
	m := f.p.Outputs
	v, got := make([]float64, k*m), make([]float64, k*m)
	for i := range v {
		v[i] = math.Sin(float64(i))
	}
	f.takeOffset()
	batch, order := newMinibatch(f), rand.New(rand.NewPCG(1, 2)).Perm(n)
	for lo := 0; lo < n; lo += stochasticBatch {
		batch.gather(order[lo:min(n, lo+stochasticBatch)])
		batch.addGradient(got, v, 1)
	}
	if factor := batch.factor() * float64(n%stochasticBatch); factor != n {
		t.Errorf("a batch of %d rows is scaled to %v, want %d", n%stochasticBatch, factor, n)
	}
	_, _, want := f.pass(v, 0)
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
		f := newLinearFit(p, ridge, 1e-6, testWorkers(2))
		f.minimize(1, 1)
		direction, base := make([]float64, len(f.theta)), make([]float64, n*m)
		for i := range direction {
			direction[i] = rng.NormFloat64()
		}
		for i := range base {
			base[i] = rng.NormFloat64()
		}
		toTiles(f.pred, base, m, 0, n)
		move, grad := make([]float64, n*m), make([]float64, n*m)
		f.predictTo(move, direction)
		for i := range move {
			move[i] = base[i] + 0.3*move[i]
		}
		want, wantGradient := rowLosses(f.workers, p, move, grad), make([]float64, len(f.theta))
		clear(f.theta) // no ridge term
		f.gradientTo(wantGradient, grad)
		got := make([]float64, len(f.theta))
		for _, gathered := range [][]float64{direction, nil} {
			if value := f.pass(got, gathered, 0.3); !near(value, want, 1e-12, 0) {
				t.Errorf("ridge %v: loss %v, want %v", ridge, value, want)
			}
			f.addRidge(got)
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
	f := newLinearFit(p, 0.5, 1e-6, testWorkers(2))
	rng := rand.New(rand.NewPCG(5, 5))
	offset, pred := make([]float64, len(f.pred)), make([]float64, len(f.pred))
	for i := range offset {
		offset[i] = rng.NormFloat64()
	}
	toTiles(f.pred, offset, p.Outputs, 0, p.X.NumRows())
	f.minimize(1e-14, 500)
	for lo := 0; lo < p.X.NumRows(); lo += fitTile {
		hi := min(lo+fitTile, p.X.NumRows())
		fromTile(pred[lo*p.Outputs:hi*p.Outputs], f.pred[lo*p.Outputs:hi*p.Outputs], p.Outputs, hi-lo)
	}
	gradient, grad := make([]float64, len(f.theta)), make([]float64, len(f.pred))
	rowLosses(f.workers, p, pred, grad)
	f.gradientTo(gradient, grad)
	if norm := norm2(gradient); norm > 1e-3 {
		t.Errorf("gradient of norm %g at the minimum", norm)
	}
	// The predictions it keeps are those of a model with its parameters.
	m, d := p.Outputs, p.X.NumColumns
	model := Model{Kernel: ANOVA, NumFeatures: d, NumOutputs: m, Linear: f.theta[:d*m], Bias: f.theta[d*m:]}
	out := make([]float64, m)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		model.Predict(out, nil, index, value)
		for c, o := range out {
			if got, want := pred[i*m+c], o+offset[i*m+c]; !near(got, want, 1e-9, 1e-9) {
				t.Fatalf("prediction %d,%d is %v, want %v", i, c, got, want)
			}
		}
	}
	toTiles(f.pred, offset, m, 0, p.X.NumRows())
	if used := f.minimize(1e-6, 100); used > 1 {
		t.Errorf("%d iterations from the minimum", used)
	}
	// A bias that is off is put right without the linear term.
	for c := range m {
		f.theta[d*m+c] += 1
	}
	f.predictTo(pred, f.theta)
	floats.Add(pred, offset)
	f.settleBias(pred, grad, 1e-4)
	if gap, _, _ := f.ridgeTerms(grad).at(1); gap > 1 {
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
			f.p.Weights, f.workers.size = nil, 1
			v := make([]float64, c.k*c.m)
			for i := range v {
				v[i] = 0.01 * math.Sin(float64(i))
			}
			f.takeOffset()
			f.pass(v, 0)
			b.ReportAllocs()
			for b.Loop() {
				f.pass(v, 0.5)
			}
		})
	}
}

// BenchmarkLinearPass is one step of the linear term on ratings.
func BenchmarkLinearPass(b *testing.B) {
	const n = 50_000
	f := newLinearFit(plantedRatings(3, n, 6000, 3900), 0.5, 1e-6, testWorkers(1))
	f.minimize(1e-3, 1)
	gradient := make([]float64, len(f.theta))
	b.ReportAllocs()
	for b.Loop() {
		f.pass(gradient, f.theta, 1)
	}
}

// BenchmarkPassWorkers measures how much faster two workers are than one, by the shortest of many passes taken in turn: on two idle processors close to 2.
func BenchmarkPassWorkers(b *testing.B) {
	for _, n := range []int{5000, 10_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			f := dependentFit(MultinomialLogistic{}, L1L2, n, 150, 26)
			f.p.Weights = nil
			v := make([]float64, 150*26)
			for i := range v {
				v[i] = 0.01 * math.Sin(float64(i))
			}
			f.takeOffset()
			f.scratch = newFitScratch(f.p, 2)
			least := [3]float64{1: math.Inf(1), 2: math.Inf(1)}
			for b.Loop() {
				for size := 1; size <= 2; size++ {
					f.workers.size = size
					began := time.Now()
					f.pass(v, 0)
					least[size] = min(least[size], time.Since(began).Seconds())
				}
			}
			b.ReportMetric(least[1]/least[2], "times")
		})
	}
}
