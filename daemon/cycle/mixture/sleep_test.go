package mixture

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver/ridge"
)

// quadratic returns the lower triangle of a random positive definite matrix and a minimum.
func quadratic(r *rand.Rand, n int) (a, w []float64) {
	a, w = make([]float64, n*n), make([]float64, n)
	for range 3 * n {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		for i := range n {
			for j := range i + 1 {
				a[i*n+j] += x[i] * x[j]
			}
		}
	}
	for i := range w {
		w[i] = r.NormFloat64()
	}
	return a, w
}

// value is (x−w)ᵀ A (x−w).
func value(a, x, w []float64) (sum float64) {
	n := len(w)
	for i := range n {
		for j := range n {
			sum += a[max(i, j)*n+min(i, j)] * (x[i] - w[i]) * (x[j] - w[j])
		}
	}
	return sum
}

// TestGain: what leaving out one weight costs is the least that a quadratic can be where that weight is 0, and a pool
// that a part leaves has the weights of that minimum.
func TestGain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n, out = 5, 3
	a, w := quadratic(r, n)
	gain := gainOf(slices.Clone(a), w, out)

	p := newLogitPool(n, 1, format.Logistic)
	copy(p.curvature, a)
	copy(p.weights, w)
	if got := p.gain(out); math.Abs(got-gain) > 1e-9 {
		t.Errorf("the pool's gain is %v, want %v", got, gain)
	}
	p.leave(out)
	if got := value(a, p.weights, w); p.weights[out] != 0 || math.Abs(got-gain) > 1e-9*gain {
		t.Errorf("without part %d the quadratic is %v at %v, the gain %v", out, got, p.weights, gain)
	}
	for range 1000 {
		x := slices.Clone(p.weights)
		for i := range x {
			if i != out {
				x[i] += 0.1 * r.NormFloat64()
			}
		}
		if value(a, x, w) < gain-1e-9 {
			t.Fatalf("%v is below the minimum", x)
		}
	}
	if got := gainOf(make([]float64, n*n), w, out); !math.IsInf(got, 1) {
		t.Errorf("gain %v where nothing can be solved", got)
	}
}

// TestPoolAdmits: when a part comes back that has counted as the first, the prediction of an event without it is the
// same as before, and its curvature is the ridge alone.
func TestPoolAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const n, m = 4, 1
	p := newLogitPool(n, m, format.Logistic)
	parts, dst := make([]part, n), make([]float64, m)
	for i := range parts {
		parts[i] = part{Value: make([]float64, m), Present: i != 2}
	}
	for range 500 {
		y := -1.0
		if r.IntN(2) > 0 {
			y = 1
		}
		for i := range parts {
			parts[i].Value[0] = 1 / (1 + math.Exp(-y-r.NormFloat64()))
		}
		p.predict(dst, parts)
		p.learn([]float64{y})
	}
	p.predict(dst, parts)
	before, weight := dst[0], p.weights[2]
	p.admit(2)
	if p.predict(dst, parts); math.Abs(dst[0]-before) > 1e-12 || weight == 0 || p.weights[2] != 0 {
		t.Errorf("%v after, %v before, weights %v", dst[0], before, p.weights)
	}
	factor, x := slices.Clone(p.curvature), []float64{0, 0, 1, 0}
	if !ridge.Solve(factor, x) || math.Abs(x[2]-1/poolRidge) > 1e-12 || x[0] != 0 {
		t.Errorf("curvature of the part that came back: column %v of the inverse", x)
	}
}

// TestStackLeaves: a stack that a part leaves has the weights of a stack that never had it.
func TestStackLeaves(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const n, out = 4, 2
	all, rest := newStacking(n), newStacking(n)
	parts, without := make([]part, n), make([]part, n)
	for range 730 {
		y := r.NormFloat64()
		for i := range parts {
			v := []float64{y + 0.5*r.NormFloat64()}
			parts[i], without[i] = part{Value: v, Present: true}, part{Value: v, Present: i != out}
		}
		all.predict(parts)
		rest.predict(without)
		all.learn(y)
		rest.learn(y)
	}
	if all.weights[out] == 0 || !(all.gain(out, 0.2) > 1) {
		t.Fatalf("weight %v, gain %v: nothing is tested", all.weights[out], all.gain(out, 0.2))
	}
	all.leave(out)
	rest.renew()
	for i, w := range rest.weights {
		if math.Abs(all.weights[i]-w) > 1e-9 {
			t.Errorf("weights %v, without the part from the start %v", all.weights, rest.weights)
		}
	}
}

// TestSleepersAreCharged: a part that sleeps is charged for an entity's events as much as the worst that is awake.
func TestSleepersAreCharged(t *testing.T) {
	m := &Mixture{Parts: []part{{Present: true, Loss: 1}, {Present: true, Loss: 3}, {Loss: 7}},
		sleepers: []sleeper{{part: 2, left: 5}, {part: 1}}}
	own := []float64{1, 1, 1}
	if m.chargeSleepers(own); !slices.Equal(own, []float64{1, 1, 4}) {
		t.Errorf("charged to %v", own)
	}
}
