package convexfm

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// separable returns rows with weights and classes that products of the columns part, and one row of weight 0.
func separable(l loss.Loss, n, d int) *problem.Problem {
	rng := rand.New(rand.NewPCG(31, uint64(d)))
	p := &problem.Problem{X: problem.NewRows(d, n, n*d), Outputs: 1, Loss: l}
	for i := range n {
		var index []int32
		var row []float64
		for j := range d {
			if rng.IntN(4) > 0 {
				index, row = append(index, int32(j)), append(row, rng.NormFloat64())
			}
		}
		p.X.Append(index, row)
		p.Targets = append(p.Targets, float64(1-2*(i%2)))
		p.Weights = append(p.Weights, 0.5+rng.Float64())
	}
	p.Weights[3] = 0
	return p
}

// TestInterior compares a solution and its bound with slow twins: the objective of the model by its definition, the
// dual objective by a search for each conjugate, and the bounds of Γ by its eigenvalues.
func TestInterior(t *testing.T) {
	const n, d, part = 14, 6, 1e-5
	for _, l := range []loss.Loss{loss.Squared{}, loss.BinarySquaredHinge{}, loss.BinaryLogistic{}} {
		for _, kernel := range []problem.Kernel{problem.ANOVA, problem.Homogeneous} {
			for _, c := range []struct{ lambda, ridge, biasRidge float64 }{
				{0.5, 0.3, 1e-3}, {1e-3, 0, 1e-3}, {1e-6, 0.3, 0}, {1e-9, 0, 0},
			} {
				p := separable(l, n, d)
				fit := linear.NewLinearFit(p, c.ridge, c.biasRidge, solvertest.TestWorkers(1))
				f := NewInterior(p, kernel, fit, c.lambda, fit.Workers)
				s, ok := f.Run(part, d)
				if !ok || !(s.Objective-s.Lower <= part*s.Objective) || s.Lower > s.Objective {
					t.Fatalf("%s %v %v: objective %v, bound %v, %v, %d steps", l.Name(), kernel, c, s.Objective, s.Lower, ok,
						s.Steps)
				}
				if want := primal(p, kernel, s, c.lambda, fit); !solvertest.Near(s.Objective, want, 1e-9, 0) {
					t.Errorf("%s %v %v: objective %v, by definition %v", l.Name(), kernel, c, s.Objective, want)
				}
				if want := f.slowDual(t); want > s.Lower*(1+1e-6) || want < s.Lower*(1-part) {
					t.Errorf("%s %v %v: bound %v, by search %v", l.Name(), kernel, c, s.Lower, want)
				}
			}
		}
	}
}

// primal returns the objective of a solution.
func primal(p *problem.Problem, kernel problem.Kernel, s Solution, lambda float64, fit *linear.LinearFit) float64 {
	d := p.X.NumColumns
	m := problem.NewModel(kernel, d, 1, true)
	m.NumBasis, m.Weights = len(s.Weights), s.Weights
	for j := range d {
		for _, h := range s.Vectors {
			m.Basis = append(m.Basis, h[j])
		}
	}
	copy(m.Linear, s.Theta[:d])
	m.Bias[0] = s.Theta[d]
	sum := lambda*floats.Norm(s.Weights, 1) + fit.RidgeOf(s.Theta, s.Theta)
	o, work := make([]float64, 1), make([]float64, 2*d)
	for i := range p.X.NumRows() {
		index, value := p.X.Row(i)
		m.Predict(o, work, index, value)
		sum += p.Weight(i) * p.Loss.Eval(nil, o, p.Target(i))
	}
	return sum
}

// slowDual returns the dual objective at g, and fails where g is not feasible.
func (f *Interior) slowDual(t *testing.T) float64 {
	t.Helper()
	d := f.p.X.NumColumns
	gamma, back, sum, total := mat.NewSymDense(d, nil), make([]float64, d), 0.0, 0.0
	for r, i := range f.rows {
		g, w := f.g[r], f.p.Weight(i)
		index, value := f.p.X.Row(i)
		for e, j := range index {
			back[j] += g * value[e]
			for o, l := range index[:e+1] {
				at := f.matrix[r*d*d+int(j)*d+int(l)]
				gamma.SetSym(int(j), int(l), gamma.At(int(j), int(l))+g*at)
				if f.matrix[r*d*d+int(l)*d+int(j)] != at || j == l && at != 0 && at != value[e]*value[o] {
					t.Errorf("row %d has %v", i, at)
				}
			}
		}
		sum += g
		conjugate := func(o float64) float64 {
			return g/w*o - f.p.Loss.Eval(nil, []float64{o}, f.p.Target(i))
		}
		low, high := -100.0, 100.0 // the maximum of a concave function by thirds
		for range 300 {
			a, b := low+(high-low)/3, high-(high-low)/3
			if conjugate(a) < conjugate(b) {
				low = a
			} else {
				high = b
			}
		}
		total -= w * conjugate(0.5*(low+high))
	}
	var e mat.EigenSym
	if !e.Factorize(gamma, false) {
		t.Fatal("no eigenvalues")
	}
	if top := floats.Norm(e.Values(nil), math.Inf(1)); top > f.lambda {
		t.Errorf("‖Γ‖ is %v, above λ %v", top, f.lambda)
	}
	if f.linear.Ridge > 0 {
		total -= 0.5 * floats.Dot(back, back) / f.linear.Ridge
	}
	if f.linear.BiasRidge > 0 {
		total -= 0.5 * sum * sum / f.linear.BiasRidge
	}
	return total
}

// TestInteriorLimits: another loss, and a solve that is called off, leave the problem to others.
func TestInteriorLimits(t *testing.T) {
	p := separable(loss.Squared{}, 14, 6)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	workers := solvertest.TestWorkers(1)
	workers.Done = ctx.Done()
	fit := linear.NewLinearFit(p, 0.3, 0, workers)
	if _, ok := NewInterior(p, problem.ANOVA, fit, 0.1, workers).Run(1e-3, 6); ok {
		t.Error("a solution of a solve that was called off")
	}
	p.Loss = loss.SquaredHinge{}
	if NewInterior(p, problem.ANOVA, fit, 0.1, workers) != nil {
		t.Error("a loss without its conjugate")
	}
	if !InteriorFits(17, 8) || InteriorFits(2000, 8) || InteriorFits(17, 200) {
		t.Error("sizes")
	}
}
