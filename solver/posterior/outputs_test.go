package posterior

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior/posteriortest"
	"gonum.org/v1/gonum/mat"
)

// TestBoundOfLogisticOutputs: the quadratic in place of the loss is nowhere above the log-likelihood.
func TestBoundOfLogisticOutputs(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for range 2000 {
		m := 2 + r.IntN(5)
		s := NewSeparate(Logistic, m, nil, 0, PriorFor(Logistic, 1))
		at, to, variance, target, o := make([]float64, m), make([]float64, m), make([]float64, m), make([]float64,
			m), make([]float64, m)
		scale := math.Exp(4 * r.NormFloat64())
		for c := range at {
			at[c], to[c] = scale*r.NormFloat64(), scale*r.NormFloat64()
			s.Bias[c], variance[c] = r.NormFloat64(), scale*scale*r.Float64()
			target[c] = float64(1 - 2*r.IntN(2))
			o[c] = s.Bias[c] + to[c]
		}
		omega, right := make([]float64, m), make([]float64, m)
		s.ObserveOutputs(omega, right, target, at, variance, 1, true)
		// The evidence counts the quadratic's expectation at (at, variance); its value anywhere else follows.
		bound := s.OutputLikelihood(target, at, variance, make([]float64, m))
		for c, w := range omega {
			bound += right[c]*(to[c]-at[c]) - 0.5*w*(to[c]*to[c]-at[c]*at[c]-variance[c])
		}
		if want := -(solver.BinaryLogistic{}).Eval(nil, o, target); bound > want+1e-9*(1+scale*scale) {
			t.Fatalf("m = %d, scale %g: the bound is %.9g, the log-likelihood %.9g", m, scale, bound, want)
		}
	}
}

// TestQuadraticOfClasses: the quadratic of the multi-class loss has its gradient and at least its curvature where it is
// taken, and gains no more than the loss does on the way to its own optimum.
func TestQuadraticOfClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for range 2000 {
		m := 2 + r.IntN(6)
		s := NewSeparate(Multinomial, m, nil, 0, PriorFor(Multinomial, 1))
		z, o, zero, grad := make([]float64, m), make([]float64, m), make([]float64, m), make([]float64, m)
		scale := math.Exp(r.NormFloat64())
		for c := range z {
			z[c], s.Bias[c] = scale*r.NormFloat64(), r.NormFloat64()
			o[c] = s.Bias[c] + z[c]
		}
		target, omega, right := posteriortest.DrawClass(r, zero), make([]float64, m), make([]float64, m)
		s.ObserveOutputs(omega, right, target, z, zero, 1, true)
		loss := solver.MultinomialLogistic{}.Eval(grad, o, target)
		posteriortest.Nearly(t, "log-likelihood", s.OutputLikelihood(target, z, zero, make([]float64, m)), -loss, 1e-9)
		excess := mat.NewSymDense(m, nil) // curvature minus Hessian diag(p) − p pᵀ
		step := make([]float64, m)
		for c, w := range omega {
			posteriortest.Nearly(t, "gradient", right[c]-w*z[c], -grad[c], 1e-9)
			for b := range c + 1 {
				excess.SetSym(c, b, (grad[c]+target[c])*(grad[b]+target[b]))
			}
			excess.SetSym(c, c, excess.At(c, c)+w-(grad[c]+target[c]))
			step[c] = s.Bias[c] + right[c]/w
		}
		var eigen mat.EigenSym
		if !eigen.Factorize(excess, false) || eigen.Values(nil)[0] < -1e-6 {
			t.Fatalf("curvature minus Hessian has the eigenvalue %g", eigen.Values(nil)[0])
		}
		if after := (solver.MultinomialLogistic{}).Eval(nil, step, target); after > loss+1e-9 {
			t.Fatalf("m = %d: the quadratic's optimum raises the loss from %.9g to %.9g", m, loss, after)
		}
	}
}
