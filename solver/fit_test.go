package solver

import (
	"math"
	"math/rand/v2"
	"testing"

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
	f := newOutputFit(p, form{penalty: L1L2, lambda: 3}, testCrew(2))
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
	f.minimize(t.Context(), v, fitLimits{tolerance: 1e-14, span: 10, iterations: 5000})
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
	if used := f.minimize(t.Context(), again, fitLimits{1e-4, 10, 500}); used > 25 || slowObjective(f, again) > best {
		t.Errorf("%d iterations from the minimum to %v, was %v", used, slowObjective(f, again), best)
	}
	loose := make([]float64, k*m)
	f.minimize(t.Context(), loose, fitLimits{1e-4, 10, 500})
	if got := slowObjective(f, loose); got > best*(1+1e-3) {
		t.Errorf("loose refit reaches %v, minimum %v", got, best)
	}
}

func TestStochastic(t *testing.T) {
	f := weightedFit(3000, 5)
	m := f.p.Outputs
	start, best, v := make([]float64, 5*m), make([]float64, 5*m), make([]float64, 5*m)
	f.minimize(t.Context(), best, fitLimits{1e-10, 10, 2000})
	used, fell := f.stochastic(t.Context(), v, 30, rand.New(rand.NewPCG(3, 3)))
	low, high, got := f.objective(best), f.objective(start), f.objective(v)
	if used != 30 || !fell || got > low+0.2*(high-low) {
		t.Errorf("%d epochs (%v) from %v to %v, minimum %v", used, fell, high, got, low)
	}
	same := make([]float64, 5*m)
	f.stochastic(t.Context(), same, 30, rand.New(rand.NewPCG(3, 3)))
	if !floats.Same(v, same) {
		t.Error("the same seed gives other weights")
	}
	// At the minimum the noise of the epochs can only hurt: they are dropped.
	kept := append([]float64(nil), best...)
	if _, fell := f.stochastic(t.Context(), kept, 2, rand.New(rand.NewPCG(4, 4))); fell || !floats.Same(kept, best) {
		t.Errorf("epochs at the minimum were kept: objective %v, was %v", f.objective(kept), low)
	}
}

// TestMinibatchGradient checks that the batch of all rows gives the full gradient.
func TestMinibatchGradient(t *testing.T) {
	const n, k = 700, 3
	f := weightedFit(n, k)
	m := f.p.Outputs
	v, got := make([]float64, k*m), make([]float64, k*m)
	for i := range v {
		v[i] = math.Sin(float64(i))
	}
	f.takeOffset()
	newMinibatch(f, n).gradient(got, v, rand.New(rand.NewPCG(1, 2)).Perm(n))
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

func TestLinearFit(t *testing.T) {
	p := plantedRatings(10, 2000, 25, 30)
	p.Weights = make([]float64, 2000)
	for i := range p.Weights {
		p.Weights[i] = float64(i%4) / 1.5
	}
	f := newLinearFit(p, 0.5, 1e-6, testCrew(2))
	rng := rand.New(rand.NewPCG(5, 5))
	offset, pred := make([]float64, len(f.pred)), make([]float64, len(f.pred))
	for i := range offset {
		offset[i] = rng.NormFloat64()
	}
	toTiles(f.pred, offset, p.Outputs, 0, p.X.NumRows())
	f.minimize(t.Context(), 1e-14, 500)
	for lo := 0; lo < p.X.NumRows(); lo += fitTile {
		hi := min(lo+fitTile, p.X.NumRows())
		fromTile(pred[lo*p.Outputs:hi*p.Outputs], f.pred[lo*p.Outputs:hi*p.Outputs], p.Outputs, hi-lo)
	}
	gradient, grad := make([]float64, len(f.theta)), make([]float64, len(f.pred))
	rowLosses(f.crew, p, pred, grad)
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
	if used := f.minimize(t.Context(), 1e-6, 100); used > 1 {
		t.Errorf("%d iterations from the minimum", used)
	}
	// A bias that is off is put right without the linear term.
	for c := range m {
		f.theta[d*m+c] += 1
	}
	f.predictTo(pred, f.theta)
	floats.Add(pred, offset)
	f.settleBias(t.Context(), pred, grad, 1e-4)
	if gap := f.ridgeTerms(grad).at(1); gap > 1 {
		t.Errorf("gap %g after settling the bias", gap)
	}
}

func BenchmarkFISTAIteration(b *testing.B) {
	const n, k = 50_000, 20
	f := weightedFit(n, k)
	f.p.Weights, f.crew.size = nil, 1
	v := make([]float64, k*f.p.Outputs)
	for i := range v {
		v[i] = 0.01 * math.Sin(float64(i))
	}
	f.pass(v, 0)
	b.ReportAllocs()
	for b.Loop() {
		f.pass(v, 0.5)
	}
}
