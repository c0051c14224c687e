package solver

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/full"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
)

// fullCase returns a weighted problem with random rows, of which the given part of the entries is not 0, offsets, and a
// random point whose basis vectors have lengths around 1.
func fullCase(n, d, k, m int, share float64, kernel Kernel, lossFn Loss, f penalty.Form, ridge float64,
	workers int) (*full.FullFit, []float64) {
	rng := rand.New(rand.NewPCG(31, 32))
	x := NewRows(d, n, n*d)
	p := &Problem{X: x, Targets: make([]float64, n*m), Weights: make([]float64, n), Outputs: m, Loss: lossFn}
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
		switch lossFn.(type) {
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
	fit := full.NewFullFit(p, kernel, f, ridge, offset, solvertest.TestWorkers(workers))
	fit.Resize(k)
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
func slowLoss(f *full.FullFit, u []float64) float64 {
	v, h := f.Split(u)
	m := f.P.Outputs
	model := &Model{
		Kernel:      f.Kernel,
		NumFeatures: f.P.X.NumColumns,
		NumOutputs:  m,
		NumBasis:    f.K,
		Basis:       h,
		Weights:     v,
		Bias:        make([]float64, m),
	}
	out, work := make([]float64, m), make([]float64, 2*f.K)
	sum := 0.0
	for i := range f.P.X.NumRows() {
		index, value := f.P.X.Row(i)
		model.Predict(out, work, index, value)
		floats.Add(out, f.Offset[i*m:i*m+m])
		sum += f.P.Weight(i) * f.P.Loss.Eval(nil, out, f.P.Target(i))
	}
	return sum
}

// TestFullGradient compares passes with a row-by-row evaluation and their gradients with its central differences, over
// dense and sparse rows.
func TestFullGradient(t *testing.T) {
	for _, kernel := range []Kernel{ANOVA, Homogeneous, ANOVA3, Homogeneous3} {
		for _, loss := range allLosses {
			for _, share := range []float64{0.2, 0.9} {
				t.Run(fmt.Sprintf("%v/%s/%g", kernel, loss.Name(), share), func(t *testing.T) {
					f, u := fullCase(300, 7, 3, 4, share, kernel, loss, penalty.Form{Penalty: L1, Lambda: 1}, 0, 1)
					gradient := make([]float64, len(u))
					value := f.Pass(u, gradient)
					if want := slowLoss(f, u); !solvertest.Near(value, want, 1e-12, 0) || f.Pass(u, nil) != value {
						t.Errorf("loss %v, without gradient %v, want %v", value, f.Pass(u, nil), want)
					}
					scale := dense.NormInf(gradient)
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
		f, u := fullCase(700, 9, 4, 2, 0.8, kernel, Squared{}, penalty.Form{Penalty: L1, Lambda: 1}, 0, 2)
		phi := make([][]float64, f.K)
		for r := range phi {
			phi[r] = make([]float64, 700)
		}
		f.ActivationsTo(phi, u)
		_, h := f.Split(u)
		model := Model{Kernel: kernel, NumBasis: f.K, Basis: h}
		want, work := make([]float64, f.K), make([]float64, f.K)
		for i := range 700 {
			index, value := f.P.X.Row(i)
			model.Activations(want, work, index, value)
			for r, a := range want {
				if !solvertest.Near(phi[r][i], a, 1e-12, 1e-12) {
					t.Fatalf("%v: K(h_%d, x_%d) = %v, want %v", kernel, r, i, phi[r][i], a)
				}
			}
		}
	}
}

// TestFullMinimize checks every form: the objective falls to a point that no feasible small move improves, and the
// point is feasible.
func TestFullMinimize(t *testing.T) {
	for _, ridge := range []float64{0, 4} {
		for _, pen := range allPenalties {
			for _, form := range []penalty.Form{{Penalty: pen, Lambda: 2}, {Penalty: pen, Tau: 1.5}} {
				t.Run(fmt.Sprintf("%v/%g/%g", pen, form.Tau, ridge), func(t *testing.T) {
					f, u := fullCase(200, 5, 3, 3, 0.6, ANOVA, MultinomialLogistic{}, form, ridge, 1)
					v, h := f.Split(u)
					scale := make([]float64, len(u))
					for i := range scale {
						scale[i] = 1
					}
					f.Smooth = 1e12
					f.Step(u, scale) // into the feasible set
					f.Smooth = 0
					start := f.Pass(u, nil) + f.Term(u)
					f.Minimize(u, output.FitLimits{Tolerance: 1e-13, Span: 20, Iterations: 5000})
					best := f.Pass(u, nil) + f.Term(u)
					if !(best < start) {
						t.Errorf("objective %v, was %v", best, start)
					}
					if norm := pen.Norm(v, f.K, 3); form.Tau > 0 && norm > form.Tau*(1+1e-12) {
						t.Errorf("norm %v exceeds %v", norm, form.Tau)
					}
					for r, square := range f.Lengths(h) {
						if !f.Free() && square > 1+1e-12 {
							t.Errorf("‖h_%d‖² = %v", r, square)
						}
					}
					rng := rand.New(rand.NewPCG(5, 5))
					for range 100 {
						moved := append([]float64(nil), u...)
						for i := range moved {
							moved[i] += 1e-3 * rng.NormFloat64()
						}
						mv, mh := f.Split(moved)
						if form.Tau > 0 {
							form.Step(mv, f.K, 3, 1)
						}
						if !f.Free() {
							for r, square := range f.Lengths(mh) {
								if square > 1 {
									for i := r; i < len(mh); i += f.K {
										mh[i] /= math.Sqrt(square)
									}
								}
							}
						}
						if other := f.Pass(moved, nil) + f.Term(moved); other < best-1e-7*best {
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
			f, u := fullCase(3000, 8, 3, 3, share, Homogeneous, SmoothedHinge{}, penalty.Form{Penalty: L1L2, Lambda: 1},
				1, workers)
			f.Minimize(u, output.FitLimits{Tolerance: 1e-9, Span: 10, Iterations: 20})
			if first == nil {
				first = u
			}
			if !floats.Same(u, first) {
				t.Errorf("share %g: another point with %d workers", share, workers)
			}
		}
	}
}

// TestFullDone checks that a refit that is called off leaves a point that is no worse, and that one called off at once
// changes nothing.
func TestFullDone(t *testing.T) {
	f, u := fullCase(3000, 6, 4, 3, 1, Homogeneous, MultinomialLogistic{}, penalty.Form{Penalty: L1L2, Lambda: 1}, 1, 2)
	done, cancel := context.WithCancel(t.Context())
	start := f.Pass(u, nil) + f.Term(u)
	f.P.Loss = cancelAfter{f.P.Loss, 30000, new(atomic.Int64), cancel}
	f.Workers.Done = done.Done()
	f.Minimize(u, output.FitLimits{Tolerance: 1e-9, Span: 10, Iterations: 1000})
	f.P.Loss, f.Workers = MultinomialLogistic{}, solvertest.TestWorkers(1)
	if got := f.Pass(u, nil) + f.Term(u); done.Err() == nil || !(got < start) {
		t.Errorf("objective %v, was %v (%v)", got, start, done.Err())
	}
	kept := append([]float64(nil), u...)
	f.Workers.Done = done.Done()
	if used := f.Minimize(u, output.FitLimits{Tolerance: 1e-9, Span: 10, Iterations: 1000}); used != 0 ||
		!floats.Same(u, kept) {
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
	for _, omega := range []Penalty{L1, L1Linf} {
		last := math.Inf(1)
		for iterations := 60; iterations < 160; iterations += 4 {
			f, u := fullCase(200, 5, 3, 3, 0.6, ANOVA, MultinomialLogistic{}, penalty.Form{Penalty: omega, Tau: 1.5}, 4,
				1)
			v, _ := f.Split(u)
			f.Form.Step(v, f.K, 3, 1)
			f.Minimize(u, output.FitLimits{Tolerance: 1e-16, Span: 20, Iterations: iterations})
			objective := f.Pass(u, nil) + f.Term(u)
			if objective > last {
				t.Fatalf("%v: objective %v after %d iterations, %v before", omega, objective, iterations, last)
			}
			last = objective
		}
	}
}

// TestNormalize checks that unit lengths leave the loss as it is, lower the penalty of short basis vectors, and clear
// weights of a vector of 0.
func TestNormalize(t *testing.T) {
	f, u := fullCase(200, 5, 3, 3, 0.7, ANOVA, Squared{}, penalty.Form{Penalty: L1, Lambda: 1}, 0, 1)
	v, h := f.Split(u)
	f.Normalize(u)
	floats.Scale(0.7, h)
	for i := 0; i < len(h); i += f.K {
		h[i] = 0
	}
	loss, term := f.Pass(u, nil), f.Term(u)
	f.Normalize(u)
	if got := f.Pass(u, nil); !solvertest.Near(got, loss, 1e-12, 0) || !(f.Term(u) < term) ||
		dense.NormInf(v[:3]) != 0 {
		t.Errorf("loss %v, was %v; penalty %v, was %v; weights of an empty vector %v", got, loss, f.Term(u), term,
			v[:3])
	}
	for r, square := range f.Lengths(h) {
		if r > 0 && !solvertest.Near(square, 1, 1e-14, 0) {
			t.Errorf("‖h_%d‖² = %v", r, square)
		}
	}
}

// TestFullOverflow checks that refits of rows whose products overflow end, and leave the point no worse and finite.
func TestFullOverflow(t *testing.T) {
	for _, size := range []float64{1e60, 1e120} {
		for _, loss := range allLosses {
			f, u := fullCase(60, 5, 3, 3, 0.9, Homogeneous, loss, penalty.Form{Penalty: L1L2, Lambda: 1}, 0, 1)
			floats.Scale(size, f.P.X.Value)
			for _, column := range f.Columns {
				floats.Scale(size, column)
			}
			f.Normalize(u)
			start := f.Pass(u, nil) + f.Term(u)
			f.Minimize(u, output.FitLimits{Tolerance: 1e-9, Span: 10, Iterations: 50})
			if norm := dense.Norm2(u); math.IsNaN(norm) || math.IsInf(norm, 0) {
				t.Errorf("%s at %g: the point has norm %v", loss.Name(), size, norm)
			}
			if got := f.Pass(u, nil) + f.Term(u); got > start {
				t.Errorf("%s at %g: objective %v, was %v", loss.Name(), size, got, start)
			}
		}
	}
}
