package sweep

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// TestBoundsOfRows compares pseudo-observations, θ and the likelihood of tiles with sums over rows and outputs one by
// one, with weights and without, of outputs that make whole tiles of rows, and of so many that one row is a tile and
// its factors take two logarithms.
func TestBoundsOfRows(t *testing.T) {
	for _, c := range []struct {
		n, m     int
		weighted bool
	}{{2*sweepBlock + 7, 4, false}, {2*sweepBlock + 7, 4, true}, {5, boundBlock + 90, false}, {5, boundBlock + 90, true}} {
		random := rand.New(rand.NewPCG(7, uint64(c.m)))
		p := &solver.Problem{
			X:       solver.NewRows(1, c.n, 0),
			Outputs: c.m,
			Loss:    solver.BinaryLogistic{},
			Targets: make([]float64, c.n*c.m),
		}
		for i := range p.Targets {
			p.Targets[i] = float64(2*random.IntN(2) - 1)
		}
		for range c.n {
			p.X.Append(nil, nil)
			if c.weighted {
				p.Weights = append(p.Weights, 3*random.Float64())
			}
		}
		s := posterior.New(posterior.Logistic, c.m, 0, []int32{0}, 1, posterior.PriorFor(posterior.Logistic, 1))
		for i := range s.Bias {
			s.Bias[i] = random.NormFloat64()
		}
		r, err := NewRefit(s, p, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.mean {
			r.mean[i], r.spread[i] = 2*random.NormFloat64(), random.ExpFloat64()
		}
		r.mean[0], r.spread[0] = -s.Bias[0], 0 // ξ of its first output is 0

		omega, right := make([]float64, c.n), make([]float64, c.n)
		top, bottom, likelihood := make([]float64, c.m), make([]float64, c.m), 0.0
		for i := range c.n {
			w := p.Weight(i)
			for o, b := range s.Bias {
				target, mean := p.Targets[i*c.m+o], b+r.mean[i]
				xi := math.Sqrt(mean*mean + r.spread[i])
				weight := posterior.Jaakkola(xi)
				omega[i] += w * weight
				right[i] += w * (0.5*target - weight*b)
				top[o] += w * (0.5*target - weight*r.mean[i])
				bottom[o] += w * weight
				likelihood += w * (0.5*(target*mean-xi) - math.Log1p(math.Exp(-xi)))
			}
		}
		if got := r.likelihood(); !(math.Abs(got-likelihood) <= 1e-10*math.Abs(likelihood)) {
			t.Errorf("%+v: likelihood %v, want %v", c, got, likelihood)
		}
		near := func(what string, got, want []float64) {
			for i, x := range got {
				if !(math.Abs(x-want[i]) <= 1e-10*(1+math.Abs(want[i]))) {
					t.Fatalf("%+v: %s %d is %v, want %v", c, what, i, x, want[i])
				}
			}
		}
		near("precision", r.omega, omega)
		near("right side", r.right, right)
		for i := range top {
			top[i] /= bottom[i]
		}
		r.updateBias()
		near("θ", s.Bias, top)
	}
}
