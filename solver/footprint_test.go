package solver

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// heap returns the bytes that are reachable.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one found finalizers for
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFootprints: a problem and a model take their footprints, within 15 percent; a solve at most 15 percent more, and
// at most 40 less.
func TestFootprints(t *testing.T) {
	near := func(what string, measured, footprint int64, least float64) {
		t.Helper()
		if float64(measured) > 1.15*float64(footprint) || float64(measured) < least*float64(footprint) {
			t.Errorf("%s takes %d bytes, its footprint is %d", what, measured, footprint)
		}
	}
	for _, c := range []struct{ n, d, k, m int }{{6000, 90, 16, 1}, {4000, 900, 8, 4}} {
		const entries = 3
		rng := rand.New(rand.NewPCG(1, 2))
		before := heap()
		p := &Problem{
			X:         NewRows(c.d, c.n, c.n*entries),
			Outputs:   c.m,
			Loss:      BinaryLogistic{},
			Targets:   make([]float64, c.n*c.m),
			Weights:   make([]float64, c.n),
			NumFields: 1,
		}
		for i := range c.n {
			var index [entries]int32
			for e := range index {
				index[e] = int32(e*c.d/entries + rng.IntN(c.d/entries))
			}
			p.X.Append(index[:], []float64{1, 1, 1})
			p.Weights[i] = 1
		}
		for i := range p.Targets {
			p.Targets[i] = float64(2*rng.IntN(2) - 1)
		}
		near("a problem", heap()-before, RowsFootprint(c.n, entries, c.m), 0.85)

		s := DefaultSettings()
		s.Lambda, s.MaxBasis, s.MaxSteps, s.Workers, s.Rough = 1e-6, c.k, c.k, 1, true
		var most int64
		before = heap()
		s.OnStep = func(Step, *Model) bool {
			most = max(most, heap()-before)
			return false
		}
		result, err := Solve(t.Context(), p, nil, s)
		if err != nil || result.Model.NumBasis != c.k {
			t.Fatalf("a solve of %d basis vectors: %v", result.Model.NumBasis, err)
		}
		near("a solve", most, SolveFootprint(c.n, c.d, c.k, c.m)+ModelFootprint(c.d, c.k, c.m, false), 0.6)

		before = heap()
		model := result.Model.Clone()
		near("a model", heap()-before, ModelFootprint(c.d, c.k, c.m, model.Linear != nil), 0.85)
		runtime.KeepAlive(p)
		runtime.KeepAlive(result)
		runtime.KeepAlive(model)
	}
}

// TestDenseFootprint: a fit takes its footprint, within 15 percent, and at most half of it less.
func TestDenseFootprint(t *testing.T) {
	const n, k, m = 6000, 60, 3
	d := newDensePart(MultinomialLogistic{}, n, m, k, true)
	before := heap()
	f := d.fit(t.Context(), 1)
	if !f.Fit(1) {
		t.Fatal("no fit")
	}
	if took, said := heap()-before, DenseFootprint(n, k, m); float64(took) > 1.15*float64(said) || took < said/2 {
		t.Errorf("a fit takes %d bytes, its footprint is %d", took, said)
	}
	runtime.KeepAlive(f)
	runtime.KeepAlive(d)
}

// TestCubicFootprint: a solve of degree 3 stays within its footprint as it selects, and takes at least a third of it.
func TestCubicFootprint(t *testing.T) {
	tier.NotUnderRace(t)
	const n, entries, k = 3000, 3, 2
	for _, c := range []struct{ d, m int }{{6000, 1}, {3000, 3}, {1500, 10}} {
		rng := rand.New(rand.NewPCG(1, 3))
		p := &Problem{X: NewRows(c.d, n, n*entries), Outputs: c.m, Loss: Squared{}}
		for range n {
			var index [entries]int32
			for e := range index {
				index[e] = int32(e*c.d/entries + rng.IntN(c.d/entries))
			}
			p.X.Append(index[:], []float64{1, 1, 1})
			for range c.m {
				p.Targets = append(p.Targets, rng.NormFloat64())
			}
		}
		s := cubicSettings(ANOVA3)
		s.Lambda, s.MaxBasis, s.MaxSteps = 1e-6, k, k
		var most, calls int64
		before := heap()
		s.Yield = func() {
			if calls++; calls%150 == 0 {
				most = max(most, heap()-before)
			}
		}
		if _, err := Solve(t.Context(), p, nil, s); err != nil {
			t.Fatal(err)
		}
		said := SolveFootprint(n, c.d, k, c.m) + CubicFootprint(c.d, c.m)
		t.Logf("%d features, %d outputs: %d bytes, the footprint is %d", c.d, c.m, most, said)
		if float64(most) > 1.15*float64(said) || most < said/3 {
			t.Errorf("%d features, %d outputs: a solve takes %d bytes, its footprint is %d", c.d, c.m, most, said)
		}
		runtime.KeepAlive(p)
	}
}

// TestConvexFMFootprint: a convex factorization machine takes what is said of it, within 15 percent, over names and
// over a few numbers, and at least a third of it.
func TestConvexFMFootprint(t *testing.T) {
	tier.NotUnderRace(t)
	for _, c := range []struct {
		n, entries, d, k int
		loss             Loss
	}{{8000, 3, 300, 12, Squared{}}, {3000, 3, 3000, 12, Squared{}}, {5000, 12, 12, 12, Squared{}}, {5000, 12, 12, 12,
		BinaryLogistic{}}} {
		rng := rand.New(rand.NewPCG(1, 4))
		p := &Problem{X: NewRows(c.d, c.n, c.n*c.entries), Outputs: 1, Loss: c.loss}
		for range c.n {
			index, value := make([]int32, c.entries), make([]float64, c.entries)
			for e := range index {
				index[e], value[e] = int32(e*c.d/c.entries+rng.IntN(c.d/c.entries)), rng.NormFloat64()
			}
			p.X.Append(index, value)
			target := value[0]*value[1] + 0.3*rng.NormFloat64()
			if _, squared := c.loss.(Squared); !squared {
				target = math.Copysign(1, target)
			}
			p.Targets = append(p.Targets, target)
		}
		for _, kernel := range []Kernel{ANOVA, Homogeneous} {
			s := DefaultSettings()
			s.Kernel, s.Lambda, s.MaxBasis, s.MaxSteps, s.Workers = kernel, 1, c.k, c.k, 1
			most, before := int64(0), heap()
			s.OnStep = func(Step, *Model) bool {
				most = max(most, heap()-before)
				return false
			}
			result, err := ConvexFM{}.Fit(t.Context(), p, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			said := SolveFootprint(c.n, c.d, c.k, 1) + ModelFootprint(c.d, c.k, 1,
				true) + FactorsFootprint(c.n, c.entries, c.d, c.k)
			if float64(most) > 1.15*float64(said) || 3*most < said {
				t.Errorf("%d rows of %d entries, %d columns, %s, %v, %d vectors: %d bytes, said to be %d", c.n,
					c.entries, c.d, c.loss.Name(), kernel, result.Model.NumBasis, most, said)
			}
			runtime.KeepAlive(p)
		}
	}
}
