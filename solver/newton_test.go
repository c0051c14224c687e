package solver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/problem"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// dependentFit returns a refit whose columns are nearly the same, as those of basis vectors found one after the other
// are.
func dependentFit(loss Loss, omega Penalty, n, k, m int) *output.OutputFit {
	rng := rand.New(rand.NewPCG(31, 32))
	x := NewRows(1, n, 0)
	for range n {
		x.Append(nil, nil)
	}
	p := &Problem{X: x, Targets: validTargets(loss, n, m, rng), Outputs: m, Loss: loss, Weights: make([]float64, n)}
	f := output.NewOutputFit(p, penalty.Form{Penalty: omega, Lambda: 1.5}, solvertest.TestWorkers(2))
	common := make([]float64, n)
	for i := range common {
		common[i] = 1 + rng.NormFloat64()
		p.Weights[i] = 2 * rng.Float64()
	}
	for r := range k {
		phi := make([]float64, n)
		for i := range phi {
			phi[i] = common[i] + 0.05*rng.NormFloat64()
			if p.Targets[i*m+r%m] > 0 {
				phi[i] += 0.1
			}
		}
		f.Phi = append(f.Phi, phi)
	}
	for i := range f.Offset {
		f.Offset[i] = 0.3 * rng.NormFloat64()
	}
	return f
}

// accurate asks for all that a refit can give.
var accurate = output.FitLimits{Tolerance: 1e-15, Span: 10, Iterations: 5000}

// TestNewtonGolden brings the reference refits to their optimum.
func TestNewtonGolden(t *testing.T) {
	var file struct {
		Cases []struct {
			goldenCase
			Objective float64
		}
	}
	golden(t, "output_refit.json", &file)
	for n, c := range file.Cases {
		t.Run(fmt.Sprintf("%d/%s/%s/%s", n, c.Kind, c.Loss, c.Penalty), func(t *testing.T) {
			p := c.problem(t, len(c.V[0]))
			pen, err := ParsePenalty(c.Penalty)
			if err != nil {
				t.Fatal(err)
			}
			run := fitOf(t, p, kernelOf(t, c.Kind), pen, c.Lam, c.H)
			used := run.output.Newton(run.v, nil, accurate)
			if got := run.output.Objective(run.v); !solvertest.Near(got, c.Objective, 1e-9, 1e-9) {
				t.Errorf("objective %v after %d iterations, want %v", got, used, c.Objective)
			}
			epochs := make([]float64, len(run.v))
			start := run.output.Objective(epochs)
			run.output.Svrg(epochs, 300, rand.New(rand.NewPCG(1, 1)))
			if got := run.output.Objective(epochs); !descended(got, start, c.Objective) {
				t.Errorf("SVRG goes from %v to %v, optimum %v", start, got, c.Objective)
			}
		})
	}
}

// descended reports whether a descent from V = 0 came within a tenth of the way to the optimum. Where V = 0 is the
// optimum, rounding in the sums over the rows is all there is between them.
func descended(got, start, optimum float64) bool {
	return got <= optimum+0.1*max(0, start-optimum)+1e-9*math.Abs(optimum)
}

// TestDescendedAtZero: an optimum at V = 0 that was summed in another order is reached, and one that is farther off
// than rounding is not.
func TestDescendedAtZero(t *testing.T) {
	const optimum = 41.588830833596724 // log 4 of each of 30 rows
	for _, c := range []struct {
		got, start float64
		want       bool
	}{
		{optimum, optimum, true},
		{optimum + 1e-13, optimum + 1e-13, true},
		{optimum - 1e-13, optimum - 1e-13, true},
		{optimum + 1e-6, optimum, false},
		{optimum + 0.09, optimum + 1, true},
		{optimum + 0.11, optimum + 1, false},
	} {
		if got := descended(c.got, c.start, optimum); got != c.want {
			t.Errorf("from %v to %v: %v, want %v", c.start, c.got, got, c.want)
		}
	}
}

// TestNewtonBeatsFISTA checks on nearly dependent columns that the optimum is that of FISTA, reached in far fewer
// passes, and that no iteration raises the objective.
func TestNewtonBeatsFISTA(t *testing.T) {
	tier.NotUnderRace(t)
	for _, loss := range allLosses {
		for _, pen := range few(allPenalties) {
			t.Run(fmt.Sprintf("%s/%v", loss.Name(), pen), func(t *testing.T) {
				const n, k, m = 900, 8, 4
				f := dependentFit(loss, pen, n, k, m)
				slow := make([]float64, k*m)
				fista := f.Minimize(slow, accurate)
				best := slowObjective(f, slow)
				v := make([]float64, k*m)
				last, iterations := slowObjective(f, v), 0
				for ; iterations < 200 && last > best*(1+1e-6); iterations++ {
					f.Newton(v, nil, output.FitLimits{Tolerance: 1e-15, Span: 10, Iterations: 1})
					now := slowObjective(f, v)
					if !(now <= last*(1+1e-12)) {
						t.Fatalf("objective rose from %v to %v", last, now)
					}
					last = now
				}
				if iterations > 60 || iterations > fista/2 {
					t.Errorf("%d iterations to %v, FISTA's optimum is %v after %d", iterations, last, best, fista)
				}
				f.Newton(v, nil, accurate)
				if now := slowObjective(f, v); !solvertest.Near(now, best, 1e-8, 0) {
					t.Errorf("objective %v, FISTA reaches %v", now, best)
				}
			})
		}
	}
}

// TestNewtonWorkers checks that the weights are the same bits for any number of workers, on a sample of several blocks.
func TestNewtonWorkers(t *testing.T) {
	var first []float64
	for _, workers := range []int{1, 2, 8} {
		f := dependentFit(MultinomialLogistic{}, L1L2, 3*problem.FitBlock+77, 5, 3)
		f.Workers = solvertest.TestWorkers(workers)
		f.Scratch = output.NewFitScratch(f.P, workers)
		v := make([]float64, 15)
		f.Newton(v, nil, output.FitLimits{Tolerance: 1e-4, Span: 10, Iterations: 30})
		if first == nil {
			first = v
		} else if !sameBits(first, v) {
			t.Errorf("%d workers give %v, one gives %v", workers, v, first)
		}
	}
}

// TestNewtonUnsound checks that a refit leaves the weights as they are, or better, when numbers overflow.
func TestNewtonUnsound(t *testing.T) {
	for _, size := range []float64{1e-200, 1e100, 1e200, 1e300} {
		for _, loss := range allLosses {
			f := dependentFit(loss, L1L2, 300, 3, 2)
			for i := range f.Phi[1] {
				f.Phi[1][i] *= size
			}
			v := make([]float64, 6)
			before := f.Objective(v)
			f.Newton(v, nil, output.FitLimits{Tolerance: 1e-6, Span: 10, Iterations: 50})
			if after := f.Objective(v); !(after <= before) {
				t.Errorf("%s, columns of %g: objective %v, was %v", loss.Name(), size, after, before)
			}
			for _, x := range v {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("%s, columns of %g: weights %v", loss.Name(), size, v)
					break
				}
			}
		}
	}
}

// TestRefitsCalledOff stops every method at every point: weights are those of a complete point, no worse than at the
// start.
func TestRefitsCalledOff(t *testing.T) {
	for name, refit := range map[string]func(f *output.OutputFit, v []float64){
		"fista": func(f *output.OutputFit, v []float64) {
			f.Minimize(v, output.FitLimits{Tolerance: 1e-6, Span: 10, Iterations: 20})
		},
		"newton": func(f *output.OutputFit, v []float64) {
			f.Newton(v, nil, output.FitLimits{Tolerance: 1e-6, Span: 10, Iterations: 20})
		},
		"svrg":       func(f *output.OutputFit, v []float64) { f.Svrg(v, 3, rand.New(rand.NewPCG(1, 1))) },
		"stochastic": func(f *output.OutputFit, v []float64) { f.Stochastic(v, 8, rand.New(rand.NewPCG(1, 1))) },
	} {
		t.Run(name, func(t *testing.T) {
			const n = 2*problem.FitBlock + 10
			fell, faster := 0, tier.Size(int64(1), 6)
			for left := int64(0); left < 800; left += 1 + left/faster {
				f := weightedFit(n, 2)
				for i := range f.Phi[0] { // something to gain for every method
					f.Phi[0][i] = f.P.Targets[4*i]
				}
				v := make([]float64, 8)
				before := f.Objective(v)
				ctx, yield, _ := cancelAt(t, left)
				f.Workers.Done, f.Workers.Pause = ctx.Done(), yield
				refit(f, v)
				f.Workers = solvertest.TestWorkers(f.Workers.Size)
				after := f.Objective(v)
				if !(after <= before) {
					t.Errorf("called off at block %d: objective %v, was %v", left, after, before)
				}
				if after < before {
					fell++
				}
			}
			if fell == 0 {
				t.Error("no refit got anywhere")
			}
		})
	}
}

// TestGramMatrices compares the matrices with sums over the rows, as basis vectors come and go: of float64s, and of
// float32s where columns fit these.
func TestGramMatrices(t *testing.T) {
	t.Run("single", func(t *testing.T) { gramMatricesOf(t, 1, output.SingleSlack*2) })
	t.Run("double", func(t *testing.T) { gramMatricesOf(t, 1e9, 1e-10) })
}

// gramMatricesOf multiplies columns by scale; entries may be off by a share of the diagonal.
func gramMatricesOf(t *testing.T, scale, share float64) {
	const n, m = problem.FitBlock + 300, 3
	f := dependentFit(MultinomialLogistic{}, L1L2, n, 21, m)
	all := f.Phi
	for _, column := range all {
		floats.Scale(scale, column)
	}
	f.Phi = all[:3]
	f.TakeOffset()
	f.Pass(make([]float64, 3*m), 0)
	f.Current, f.Next = f.Next, f.Current
	g := &output.GramMatrices{F: f}
	g.Refresh()
	check := func(what string) {
		t.Helper()
		if single := scale == 1; g.InSingle(len(f.Phi)) != single {
			t.Fatalf("%s: of float32s: %v", what, !single)
		}
		for r, a := range f.Phi {
			for s, b := range f.Phi {
				for c := range m {
					want := 0.0
					for lo := 0; lo < n; lo += loss.FitTile {
						size := min(loss.FitTile, n-lo)
						for i := range size {
							want += g.Curve[lo*m+c*size+i] * a[lo+i] * b[lo+i]
						}
					}
					got, diagonal := g.Rows[r][c*g.Room+s], math.Sqrt(g.Rows[r][c*g.Room+r]*g.Rows[s][c*g.Room+s])
					if !(math.Abs(got-want) <= share*diagonal) {
						t.Fatalf("%s: entry %d,%d of matrix %d is %v, want %v", what, r, s, c, got, want)
					}
				}
			}
		}
	}
	check("three")
	f.Phi = append([][]float64{}, all...)
	g.Update()
	check("eighteen more")
	f.Phi = append(append([][]float64{}, all[1:4]...), all[9:20]...)
	g.Update()
	check("some dropped")
	f.Phi = append(append(append([][]float64{}, f.Phi[:2]...), f.Phi[5:]...), all[0], all[20])
	g.Update()
	check("some dropped, some added")
	f.Phi = [][]float64{all[20], all[3]}
	g.Update()
	check("another order")
}

// TestRowDescent compares the model's minimum with that of plain sweeps, and what it returns with the model.
func TestRowDescent(t *testing.T) {
	const k, m, scale = 8, 4, 1.3
	for _, pen := range allPenalties {
		f := dependentFit(BinaryLogistic{}, pen, 900, k, m)
		f.TakeOffset()
		v := make([]float64, k*m)
		for i := range v {
			v[i] = 0.1 * math.Sin(float64(i))
		}
		_, _, gradient := f.Pass(v, 0)
		f.Current, f.Next = f.Next, f.Current
		g := &output.GramMatrices{F: f}
		g.Refresh()
		model := func(z []float64) (sum float64) {
			for c := range m {
				for r := range k {
					step := z[r*m+c] - v[r*m+c]
					sum += gradient[r*m+c] * step
					for s := range k {
						sum += 0.5 * scale * step * g.Rows[r][c*g.Room+s] * (z[s*m+c] - v[s*m+c])
					}
				}
			}
			return sum + f.Form.Term(z, k, m) - f.Form.Term(v, k, m)
		}
		d := output.NewRowDescent(g, output.WeightForm{Form: f.Form}, k, m, false)
		z := make([]float64, k*m)
		fall, linear, square := d.Minimize(z, v, gradient, scale)
		if !solvertest.Near(fall, model(z), 1e-9, 1e-9) || fall >= 0 {
			t.Errorf("%v: decrease %v, the model has %v", pen, fall, model(z))
		}
		if got := linear + 0.5*scale*square + f.Form.Term(z, k, m) - f.Form.Term(v, k, m); !solvertest.Near(got, fall,
			1e-9, 1e-9) {
			t.Errorf("%v: linear and quadratic terms give %v, want %v", pen, got, fall)
		}
		// Where the accelerated sweeps end, plain ones need thousands.
		sweeps := func(count int) float64 {
			plain := append([]float64(nil), v...)
			copy(d.Slope, d.Start)
			for range count {
				d.Sweep(plain, scale)
			}
			return model(plain)
		}
		best, crawl := sweeps(20000), sweeps(output.DescentSweeps)
		if fall > best+0.01*math.Abs(best) || fall-best > 0.2*(crawl-best) {
			t.Errorf("%v: %d sweeps reach %v, as many plain ones %v, and 20000 %v", pen, output.DescentSweeps, fall,
				crawl, best)
		}
	}
}

// TestRowDescentShift checks that the shift of a row is free: a loss that does not see it is fitted as well from
// shifted weights.
func TestRowDescentShift(t *testing.T) {
	const k, m = 4, 5
	for _, pen := range allPenalties {
		f := dependentFit(MultinomialLogistic{}, pen, 700, k, m)
		best, shifted := make([]float64, k*m), make([]float64, k*m)
		f.Newton(best, nil, accurate)
		for i, x := range best {
			shifted[i] = x + 3*math.Sin(float64(i/m))
		}
		used := f.Newton(shifted, nil, accurate)
		if got, want := f.Objective(shifted), f.Objective(best); !solvertest.Near(got, want, 1e-9, 0) || used > 40 {
			t.Errorf("%v: objective %v after %d iterations, want %v", pen, got, used, want)
		}
	}
}

// TestProxCurved checks that no point nearby, and none on the way to 0, has a lower value, and that one curvature for
// all outputs gives the plain operator.
func TestProxCurved(t *testing.T) {
	for _, pen := range allPenalties {
		rapid.Check(t, func(t *rapid.T) {
			m := rapid.IntRange(1, 6).Draw(t, "m")
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
			spread := rapid.SampledFrom([]float64{0, 1, 5}).Draw(t, "spread")
			u, a := make([]float64, m), make([]float64, m)
			for c := range u {
				u[c], a[c] = 3*rng.NormFloat64(), 2*math.Exp(spread*rng.NormFloat64())
			}
			step := 4 * rng.Float64()
			value := func(z []float64) float64 {
				sum := step * pen.RowNorm(z)
				for c, x := range z {
					sum += 0.5 * a[c] * (x - u[c]) * (x - u[c])
				}
				return sum
			}
			guess := make([]float64, m)
			for c := range guess {
				guess[c] = math.Exp(spread*rng.NormFloat64()) * rng.NormFloat64()
			}
			z, plain := append([]float64(nil), u...), append([]float64(nil), u...)
			pen.ProxCurved(z, a, step, guess)
			pen.ProxCurved(plain, a, step, make([]float64, m))
			for c := range z {
				if !solvertest.Near(z[c], plain[c], 1e-12, 1e-12) {
					t.Fatalf("%v: %v from the guess %v, %v without one", pen, z, guess, plain)
				}
			}
			best := value(z)
			for trial := range 60 {
				other := append([]float64(nil), z...)
				size := math.Pow(10, -float64(trial%6))
				for c := range other {
					if trial%2 == 0 {
						other[c] += size * rng.NormFloat64()
					} else {
						other[c] *= 1 - size*rng.Float64()
					}
				}
				if got := value(other); got < best-1e-9*(1+best) {
					t.Fatalf("%v: value %v at %v, %v at %v", pen, best, z, got, other)
				}
			}
			if spread == 0 {
				want := append([]float64(nil), u...)
				pen.ProxRow(want, step/2)
				if !floats.EqualApprox(z, want, 1e-9) {
					t.Fatalf("%v: %v, want %v", pen, z, want)
				}
			}
		})
	}
}

// BenchmarkNewton refits from 0 on nearly dependent columns.
func BenchmarkNewton(b *testing.B) {
	for _, c := range []struct {
		loss    Loss
		n, k, m int
	}{{BinaryLogistic{}, 50_000, 20, 4}, {MultinomialLogistic{}, 7500, 60, 26}} {
		b.Run(fmt.Sprintf("%s/%dx%dx%d", c.loss.Name(), c.n, c.k, c.m), func(b *testing.B) {
			f := dependentFit(c.loss, L1L2, c.n, c.k, c.m)
			f.Workers.Size = 1
			iterations := 0
			b.ReportAllocs()
			for b.Loop() {
				f.Gram = nil
				iterations += f.Newton(make([]float64, c.k*c.m), nil,
					output.FitLimits{Tolerance: 1e-4, Span: 10, Iterations: 500})
			}
			b.ReportMetric(float64(iterations)/float64(b.N), "iterations/op")
		})
	}
}

// BenchmarkRowDescent minimises one model of the size of letter's.
func BenchmarkRowDescent(b *testing.B) {
	const n, k, m = 7500, 150, 26
	f := dependentFit(MultinomialLogistic{}, L1L2, n, k, m)
	f.TakeOffset()
	v, z := make([]float64, k*m), make([]float64, k*m)
	_, _, gradient := f.Pass(v, 0)
	f.Current, f.Next = f.Next, f.Current
	g := &output.GramMatrices{F: f}
	g.Refresh()
	d := output.NewRowDescent(g, output.WeightForm{Form: f.Form}, k, m, true)
	b.ReportAllocs()
	for b.Loop() {
		d.Minimize(z, v, gradient, 1)
	}
}

// BenchmarkGramMatrices computes matrices of the size of letter's.
func BenchmarkGramMatrices(b *testing.B) {
	const n, k, m = 7500, 150, 26
	f := dependentFit(MultinomialLogistic{}, L1L2, n, k, m)
	f.Workers.Size = 1
	f.Scratch = output.NewFitScratch(f.P, 1)
	g := &output.GramMatrices{F: f}
	b.ReportAllocs()
	for b.Loop() {
		g.Refresh()
	}
	b.ReportMetric(float64(b.N)*n*k*(k+1)*m/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
