package solver

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// fullCase returns a weighted problem with random rows, of which the given part of the entries is not 0, offsets, and a random point
// whose basis vectors have lengths around 1.
func fullCase(n, d, k, m int, share float64, kernel Kernel, loss Loss, f form, ridge float64, workers int) (*fullFit, []float64) {
	rng := rand.New(rand.NewPCG(31, 32))
	x := NewRows(d, n, n*d)
	p := &Problem{X: x, Targets: make([]float64, n*m), Weights: make([]float64, n), Outputs: m, Loss: loss}
	for i := range n {
		var index []int32
		var value []float64
		for j := range d {
			if rng.Float64() < share {
				index, value = append(index, int32(j)), append(value, rng.NormFloat64())
			}
		}
		x.Append(index, value)
		p.Weights[i] = float64(i%4) / 2
		target := p.Target(i)
		switch loss.(type) {
		case BinaryLogistic, Squared:
			for c := range target {
				target[c] = 1 - 2*float64(rng.IntN(2))
			}
		default:
			target[rng.IntN(m)] = 1
		}
	}
	offset := make([]float64, n*m)
	for i := range offset {
		offset[i] = 0.3 * rng.NormFloat64()
	}
	fit := newFullFit(p, kernel, f, ridge, offset, testWorkers(workers))
	fit.resize(k)
	u := make([]float64, k*m+d*k)
	for i := range u {
		u[i] = rng.NormFloat64()
		if i >= k*m {
			u[i] /= math.Sqrt(float64(d))
		}
	}
	return fit, u
}

// slowLoss evaluates the loss at u row by row with the prediction of a model.
func slowLoss(f *fullFit, u []float64) float64 {
	v, h := f.split(u)
	m := f.p.Outputs
	model := &Model{Kernel: f.kernel, NumFeatures: f.p.X.NumColumns, NumOutputs: m, NumBasis: f.k, Basis: h, Weights: v, Bias: make([]float64, m)}
	out, work := make([]float64, m), make([]float64, 2*f.k)
	sum := 0.0
	for i := range f.p.X.NumRows() {
		index, value := f.p.X.Row(i)
		model.Predict(out, work, index, value)
		floats.Add(out, f.offset[i*m:i*m+m])
		sum += f.p.Weight(i) * f.p.Loss.Eval(nil, out, f.p.Target(i))
	}
	return sum
}

// TestFullGradient compares passes with a row-by-row evaluation and their gradients with its central differences, over dense and sparse
// rows.
func TestFullGradient(t *testing.T) {
	for _, kernel := range []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3} {
		for _, loss := range allLosses {
			for _, share := range []float64{0.2, 0.9} {
				t.Run(fmt.Sprintf("%v/%s/%g", kernel, loss.Name(), share), func(t *testing.T) {
					f, u := fullCase(300, 7, 3, 4, share, kernel, loss, form{penalty: L1, lambda: 1}, 0, 1)
					gradient := make([]float64, len(u))
					value := f.pass(u, gradient)
					if want := slowLoss(f, u); !near(value, want, 1e-12, 0) || f.pass(u, nil) != value {
						t.Errorf("loss %v, without gradient %v, want %v", value, f.pass(u, nil), want)
					}
					scale := normInf(gradient)
					for i := range u {
						const h = 1e-5
						at := u[i]
						u[i] = at + h
						up := slowLoss(f, u)
						u[i] = at - h
						down := slowLoss(f, u)
						u[i] = at
						if slope := (up - down) / (2 * h); math.Abs(slope-gradient[i]) > 1e-6*scale+1e-9*value {
							t.Errorf("gradient %d is %v, central difference %v", i, gradient[i], slope)
						}
					}
				})
			}
		}
	}
}

// TestFullActivations checks the columns of Φ that a full refit hands on.
func TestFullActivations(t *testing.T) {
	for _, kernel := range []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3} {
		f, u := fullCase(700, 9, 4, 2, 0.8, kernel, Squared{}, form{penalty: L1, lambda: 1}, 0, 2)
		phi := make([][]float64, f.k)
		for r := range phi {
			phi[r] = make([]float64, 700)
		}
		f.activationsTo(phi, u)
		_, h := f.split(u)
		model := Model{Kernel: kernel, NumBasis: f.k, Basis: h}
		want, work := make([]float64, f.k), make([]float64, f.k)
		for i := range 700 {
			index, value := f.p.X.Row(i)
			model.Activations(want, work, index, value)
			for r, a := range want {
				if !near(phi[r][i], a, 1e-12, 1e-12) {
					t.Fatalf("%v: K(h_%d, x_%d) = %v, want %v", kernel, r, i, phi[r][i], a)
				}
			}
		}
	}
}

// TestUnitBallProjection checks the variational inequality ⟨W(h − P), z − P⟩ ≤ 0 of the projection in a weighted metric.
func TestUnitBallProjection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(t, "d")
		h, z := drawMatrix(t, 1, d, "h"), drawMatrix(t, 1, d, "z")
		weight := make([]float64, d)
		for j := range weight {
			weight[j] = math.Pow(10, float64(rapid.IntRange(-5, 5).Draw(t, "weight")))
		}
		got := append([]float64(nil), h...)
		outside := projectUnitBall(got, weight)
		if outside != (norm2(h) > 1) || !outside && !floats.Same(got, h) {
			t.Fatalf("%v of length %g moved to %v (%v)", h, norm2(h), got, outside)
		}
		if norm := norm2(got); norm > 1+1e-15 || outside && norm < 1-1e-9 {
			t.Fatalf("projection %v has length %g", got, norm)
		}
		if norm := norm2(z); norm > 1 {
			floats.Scale(1/norm, z)
		}
		inner, size := 0.0, 0.0
		for j := range h {
			inner += weight[j] * (h[j] - got[j]) * (z[j] - got[j])
			size += weight[j] * math.Abs(h[j]-got[j])
		}
		if inner > 1e-9*size {
			t.Fatalf("⟨W(h − P), z − P⟩ = %g > 0 at P = %v for h = %v, z = %v", inner, got, h, z)
		}
	})
}

// TestFullMinimize checks every form: the objective falls to a point that no feasible small move improves, and the point is feasible.
func TestFullMinimize(t *testing.T) {
	for _, ridge := range []float64{0, 4} {
		for _, pen := range allPenalties {
			for _, form := range []form{{penalty: pen, lambda: 2}, {penalty: pen, tau: 1.5}} {
				t.Run(fmt.Sprintf("%v/%g/%g", pen, form.tau, ridge), func(t *testing.T) {
					f, u := fullCase(200, 5, 3, 3, 0.6, ANOVA, MultinomialLogistic{}, form, ridge, 1)
					v, h := f.split(u)
					scale := make([]float64, len(u))
					for i := range scale {
						scale[i] = 1
					}
					f.smooth = 1e12
					f.step(u, scale) // into the feasible set
					f.smooth = 0
					start := f.pass(u, nil) + f.term(u)
					f.minimize(u, fitLimits{tolerance: 1e-13, span: 20, iterations: 5000})
					best := f.pass(u, nil) + f.term(u)
					if !(best < start) {
						t.Errorf("objective %v, was %v", best, start)
					}
					if norm := pen.Norm(v, f.k, 3); form.tau > 0 && norm > form.tau*(1+1e-12) {
						t.Errorf("norm %v exceeds %v", norm, form.tau)
					}
					for r, square := range f.lengths(h) {
						if !f.free() && square > 1+1e-12 {
							t.Errorf("‖h_%d‖² = %v", r, square)
						}
					}
					rng := rand.New(rand.NewPCG(5, 5))
					for range 100 {
						moved := append([]float64(nil), u...)
						for i := range moved {
							moved[i] += 1e-3 * rng.NormFloat64()
						}
						mv, mh := f.split(moved)
						if form.tau > 0 {
							form.step(mv, f.k, 3, 1)
						}
						if !f.free() {
							for r, square := range f.lengths(mh) {
								if square > 1 {
									for i := r; i < len(mh); i += f.k {
										mh[i] /= math.Sqrt(square)
									}
								}
							}
						}
						if other := f.pass(moved, nil) + f.term(moved); other < best-1e-7*best {
							t.Fatalf("objective %v, nearby %v", best, other)
						}
					}
				})
			}
		}
	}
}

// TestFullWorkers checks that the number of workers leaves no trace, over dense and sparse rows.
func TestFullWorkers(t *testing.T) {
	for _, share := range []float64{0.1, 1} {
		var first []float64
		for _, workers := range []int{1, 2, 8} {
			f, u := fullCase(3000, 8, 3, 3, share, Homogeneous, SmoothedHinge{}, form{penalty: L1L2, lambda: 1}, 1, workers)
			f.minimize(u, fitLimits{1e-9, 10, 20})
			if first == nil {
				first = u
			}
			if !floats.Same(u, first) {
				t.Errorf("share %g: another point with %d workers", share, workers)
			}
		}
	}
}

// TestFullDone checks that a refit that is called off leaves a point that is no worse, and that one called off at once changes nothing.
func TestFullDone(t *testing.T) {
	f, u := fullCase(3000, 6, 4, 3, 1, Homogeneous, MultinomialLogistic{}, form{penalty: L1L2, lambda: 1}, 1, 2)
	done, cancel := context.WithCancel(t.Context())
	start := f.pass(u, nil) + f.term(u)
	f.p.Loss = cancelAfter{f.p.Loss, 30000, new(atomic.Int64), cancel}
	f.workers.done = done.Done()
	f.minimize(u, fitLimits{1e-9, 10, 1000})
	f.p.Loss, f.workers = MultinomialLogistic{}, testWorkers(1)
	if got := f.pass(u, nil) + f.term(u); done.Err() == nil || !(got < start) {
		t.Errorf("objective %v, was %v (%v)", got, start, done.Err())
	}
	kept := append([]float64(nil), u...)
	f.workers.done = done.Done()
	if used := f.minimize(u, fitLimits{1e-9, 10, 1000}); used != 0 || !floats.Same(u, kept) {
		t.Errorf("%d iterations after the context was done", used)
	}
}

// cancelAfter calls off its context after a number of rows.
type cancelAfter struct {
	Loss
	rows   int64
	seen   *atomic.Int64
	cancel func()
}

func (c cancelAfter) Eval(grad, pred, target []float64) float64 {
	if c.seen.Add(1) == c.rows {
		c.cancel()
	}
	return c.Loss.Eval(grad, pred, target)
}

// TestFullMonotone checks that no iteration raises the objective of the point handed back, whenever the refit ends.
func TestFullMonotone(t *testing.T) {
	for _, penalty := range []Penalty{L1, L1Linf} {
		last := math.Inf(1)
		for iterations := 60; iterations < 160; iterations += 4 {
			f, u := fullCase(200, 5, 3, 3, 0.6, ANOVA, MultinomialLogistic{}, form{penalty: penalty, tau: 1.5}, 4, 1)
			v, _ := f.split(u)
			f.form.step(v, f.k, 3, 1)
			f.minimize(u, fitLimits{1e-16, 20, iterations})
			objective := f.pass(u, nil) + f.term(u)
			if objective > last {
				t.Fatalf("%v: objective %v after %d iterations, %v before", penalty, objective, iterations, last)
			}
			last = objective
		}
	}
}

// TestNormalize checks that unit lengths leave the loss as it is, lower the penalty of short basis vectors, and clear weights of a vector of 0.
func TestNormalize(t *testing.T) {
	f, u := fullCase(200, 5, 3, 3, 0.7, ANOVA, Squared{}, form{penalty: L1, lambda: 1}, 0, 1)
	v, h := f.split(u)
	f.normalize(u)
	floats.Scale(0.7, h)
	for i := 0; i < len(h); i += f.k {
		h[i] = 0
	}
	loss, term := f.pass(u, nil), f.term(u)
	f.normalize(u)
	if got := f.pass(u, nil); !near(got, loss, 1e-12, 0) || !(f.term(u) < term) || normInf(v[:3]) != 0 {
		t.Errorf("loss %v, was %v; penalty %v, was %v; weights of an empty vector %v", got, loss, f.term(u), term, v[:3])
	}
	for r, square := range f.lengths(h) {
		if r > 0 && !near(square, 1, 1e-14, 0) {
			t.Errorf("‖h_%d‖² = %v", r, square)
		}
	}
}

// TestFullOverflow checks that refits of rows whose products overflow end, and leave the point no worse and finite.
func TestFullOverflow(t *testing.T) {
	for _, size := range []float64{1e60, 1e120} {
		for _, loss := range allLosses {
			f, u := fullCase(60, 5, 3, 3, 0.9, Homogeneous, loss, form{penalty: L1L2, lambda: 1}, 0, 1)
			floats.Scale(size, f.p.X.Value)
			for _, column := range f.columns {
				floats.Scale(size, column)
			}
			f.normalize(u)
			start := f.pass(u, nil) + f.term(u)
			f.minimize(u, fitLimits{1e-9, 10, 50})
			if norm := norm2(u); math.IsNaN(norm) || math.IsInf(norm, 0) {
				t.Errorf("%s at %g: the point has norm %v", loss.Name(), size, norm)
			}
			if got := f.pass(u, nil) + f.term(u); got > start {
				t.Errorf("%s at %g: objective %v, was %v", loss.Name(), size, got, start)
			}
		}
	}
}
