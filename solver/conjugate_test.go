package solver

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/solvertest"
)

// slowConjugate returns ℓ*(u), from the definitions of the losses, and +Inf outside its domain.
func slowConjugate(t testing.TB, lossFn Loss, u, target []float64) float64 {
	t.Helper()
	value, sum := 0.0, 0.0
	entropy := func(p float64) float64 {
		switch {
		case p == 0:
			return 0
		case p < 0:
			return math.Inf(1)
		}
		return p * math.Log(p)
	}
	for c, x := range u {
		sum += x
		switch lossFn.(type) {
		case MultinomialLogistic:
			value += entropy(x + target[c])
		case SmoothedHinge:
			value += entropy(x+target[c]) - x*(1-target[c])
		case SquaredHinge:
			if target[c] == 0 {
				value += x*x/4 - x
				if x < 0 {
					return math.Inf(1)
				}
			}
		case BinaryLogistic:
			p := -target[c] * x
			value += entropy(p) + entropy(1-p)
		case BinarySquaredHinge:
			if value += x*x/4 + target[c]*x; target[c]*x > 0 {
				return math.Inf(1)
			}
		case Squared:
			value += x*x/2 + x*target[c]
		default:
			t.Fatalf("no conjugate of %s", lossFn.Name())
		}
	}
	switch lossFn.(type) {
	case MultinomialLogistic, SmoothedHinge, SquaredHinge:
		if math.Abs(sum) > 1e-12*(1+dense.NormInf(u)) {
			return math.Inf(1)
		}
	}
	return value
}

// hiddenLoss is a loss of which no conjugate is known.
type hiddenLoss struct{ Loss }

// conjugateCase returns a problem of one loss with random predictions, and F and the weighted gradients there.
func conjugateCase(rng *rand.Rand, lossFn Loss, spread float64) (p *Problem, pred, grad []float64, value float64) {
	const n, m = 300, 4
	p = &Problem{
		X:       NewRows(1, n, n),
		Outputs: m,
		Loss:    lossFn,
		Weights: make([]float64, n),
		Targets: make([]float64, n*m),
	}
	pred, grad = make([]float64, n*m), make([]float64, n*m)
	for i := range n {
		p.X.Append([]int32{0}, []float64{1})
		p.Weights[i] = float64(rng.IntN(4))
		target := p.Target(i)
		switch lossFn.(type) {
		case BinaryLogistic, BinarySquaredHinge:
			for c := range target {
				target[c] = float64(2*rng.IntN(2) - 1)
			}
		case Squared:
			for c := range target {
				target[c] = rng.NormFloat64()
			}
		default:
			target[rng.IntN(m)] = 1
		}
	}
	for i := range pred {
		pred[i] = spread * rng.NormFloat64()
	}
	value = linear.RowLosses(solvertest.TestWorkers(1), p, pred, grad)
	return p, pred, grad, value
}

// TestConjugateRay compares the excess along the ray with sums of conjugates row by row, its derivatives with
// differences, and what is said of a loss without a known conjugate with what it has to bound. Results do not depend on
// the number of workers.
func TestConjugateRay(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	for _, loss := range allLosses {
		for _, spread := range []float64{0, 1, 4, 200} {
			p, pred, grad, value := conjugateCase(rng, loss, spread)
			ray := newConjugateRay(p, solvertest.TestWorkers(1), value, grad)
			shared := newConjugateRay(p, solvertest.TestWorkers(3), value, grad)
			if ray.limit < 1 || ray.one.unknown {
				t.Fatalf("%s: limit %v, unknown %v", loss.Name(), ray.limit, ray.one.unknown)
			}
			hidden := *p
			hidden.Loss = hiddenLoss{loss}
			least := newConjugateRay(&hidden, solvertest.TestWorkers(1), value, grad)
			if least.limit != 1 {
				t.Errorf("%s: limit %v without a conjugate", loss.Name(), least.limit)
			}
			for _, s := range []float64{1e-6, 0.1, 0.5, 0.9, 0.999, 1, min(1.05, 0.9999*ray.limit), min(3, 0.9999*ray.limit)} {
				got, slope, curve := ray.at(s)
				want, u := 0.0, make([]float64, p.Outputs)
				for i := range p.X.NumRows() {
					if p.Weights[i] == 0 {
						continue
					}
					inner, o := 0.0, pred[i*p.Outputs:(i+1)*p.Outputs]
					for c := range u {
						u[c] = s * grad[i*p.Outputs+c] / p.Weights[i]
						inner += u[c] * o[c]
					}
					want += p.Weights[i] * (loss.Eval(nil, o, p.Target(i)) + slowConjugate(t, loss, u, p.Target(i)) - inner)
				}
				if scale := 1e-9 * (1 + value) * (1 + spread); !(math.Abs(got-want) <= scale) {
					t.Errorf("%s: excess %v at %g, want %v", loss.Name(), got, s, want)
				}
				if twin, _, _ := shared.at(s); twin != got {
					t.Errorf("%s: %v with three workers, %v with one", loss.Name(), twin, got)
				}
				if above, _, _ := least.at(s); s <= 1 && above < got-1e-9*value {
					t.Errorf("%s: %v at %g without the conjugate, %v with it", loss.Name(), above, s, got)
				}
				const h = 1e-6
				if s < 0.1 || s+h > 0.999*ray.limit {
					continue
				}
				up, upSlope, _ := ray.at(s + h)
				down, downSlope, _ := ray.at(s - h)
				if s != 1 && !solvertest.Near(slope, (up-down)/(2*h), 1e-4, 1e-5*(1+value)) ||
					!solvertest.Near(curve, (upSlope-downSlope)/(2*h), 1e-4, 1e-5*(1+value)) {
					t.Errorf("%s at %g: derivatives %v and %v, differences %v and %v", loss.Name(), s, slope, curve,
						(up-down)/(2*h), (upSlope-downSlope)/(2*h))
				}
			}
		}
	}
}

// TestSlowConjugate checks ⟨u, o⟩ − ℓ(o) ≤ ℓ*(u), with equality for a gradient at its point: it is what
// makes the dual objective a bound.
func TestSlowConjugate(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	for _, loss := range allLosses {
		p, pred, grad, _ := conjugateCase(rng, loss, 1)
		m, u := p.Outputs, make([]float64, p.Outputs)
		for i := range p.X.NumRows() {
			target, o := p.Target(i), pred[i*m:(i+1)*m]
			loss.Eval(grad[i*m:(i+1)*m], o, target)
			for _, s := range []float64{0.3, 0.8, 1} {
				for c := range u {
					u[c] = s * grad[i*m+c]
				}
				conjugate := slowConjugate(t, loss, u, target)
				for range 5 {
					inner, other := 0.0, make([]float64, m)
					for c := range other {
						other[c] = o[c] + rng.NormFloat64()
						inner += u[c] * other[c]
					}
					if inner-loss.Eval(nil, other, target) > conjugate+1e-9 {
						t.Fatalf("%s: conjugate %v is below %v", loss.Name(), conjugate,
							inner-loss.Eval(nil, other, target))
					}
				}
				inner := 0.0
				for c := range u {
					inner += u[c] * o[c]
				}
				if value := inner - loss.Eval(nil, o, target); s == 1 &&
					!solvertest.Near(value, conjugate, 1e-9, 1e-9) {
					t.Fatalf("%s: conjugate %v of a gradient, want %v", loss.Name(), conjugate, value)
				}
			}
		}
	}
}

// TestConjugateOfOtherTargets checks that a target that a loss is not made for counts with what holds for every convex
// loss.
func TestConjugateOfOtherTargets(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 46))
	for _, loss := range []Loss{MultinomialLogistic{}, SmoothedHinge{}, BinaryLogistic{}} {
		p, pred, grad, _ := conjugateCase(rng, loss, 1)
		for i := range p.Targets {
			p.Targets[i] *= 0.5
		}
		value := linear.RowLosses(solvertest.TestWorkers(1), p, pred, grad)
		ray := newConjugateRay(p, solvertest.TestWorkers(1), value, grad)
		if got, _, _ := ray.at(0.5); ray.limit != 1 || !solvertest.Near(got, 0.5*value, 1e-12, 0) {
			t.Errorf("%s: excess %v up to %v, want half of %v up to 1", loss.Name(), got, ray.limit, value)
		}
	}
}

// Gradients whose squares overflow make the conjugate unknown, not the excess 0: a bound would be understated.
func TestConjugateThatOverflows(t *testing.T) {
	p, _, grad, _ := conjugateCase(rand.New(rand.NewPCG(1, 1)), Squared{}, 1)
	for i := range grad {
		if p.Weights[i/p.Outputs] > 0 {
			grad[i] = 1e200
			break
		}
	}
	const value = 1e300
	ray := newConjugateRay(p, solvertest.TestWorkers(1), value, grad)
	if excess, _, _ := ray.at(0.5); excess < 0.5*value || ray.limit != 1 {
		t.Errorf("E(.5) = %g of F = %g, limit %g: it counts as known", excess, value, ray.limit)
	}
}
