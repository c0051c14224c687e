package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/refitd/refitd/solver"
)

// toyClasses is a small random set of m classes and d columns.
func toyClasses(n, d, m int, seed uint64) *classSet {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &classSet{x: solver.NewRows(d, n, n*d), classes: m}
	for range n {
		index, value := make([]int32, d), make([]float64, d)
		for j := range d {
			index[j], value[j] = int32(j), r.NormFloat64()
		}
		value[0] = 1
		s.x.Append(index, value)
		class := 0
		if value[1]*value[2] > 0 {
			class = 1 + r.IntN(m-1)
		}
		s.class = append(s.class, class)
	}
	return s
}

// TestBestCriterion: no unit vector of many random ones, refined by small steps, beats the exhaustive method; every
// selection is within it and all starts nearly reach it; and at a model without basis vectors the explicit operators
// give the criterion of the solver's choice.
func TestBestCriterion(t *testing.T) {
	s := toyClasses(200, 5, 4, 7)
	rows := make([]int, 200)
	for i := range rows {
		rows[i] = i
	}
	p := s.problem(rows)
	model := solver.NewModel(solver.Homogeneous, 5, 4, false)
	list := gammas(p, model)
	best, err := bestCriterion(list)
	if err != nil {
		t.Fatal(err)
	}
	criterion := func(h []float64) (f float64) {
		v := mat.NewVecDense(len(h), h)
		for _, g := range list {
			f += math.Abs(mat.Inner(v, g, v))
		}
		return f / mat.Dot(v, v)
	}
	r := rand.New(rand.NewPCG(3, 3))
	highest := 0.0
	for range 300 {
		h := make([]float64, 5)
		for j := range h {
			h[j] = r.NormFloat64()
		}
		for step := 1.0; step > 1e-4; step *= 0.9 {
			trial := append([]float64(nil), h...)
			for j := range trial {
				trial[j] += step * r.NormFloat64()
			}
			if criterion(trial) > criterion(h) {
				h = trial
			}
		}
		highest = max(highest, criterion(h))
	}
	if highest > best*(1+1e-9) || highest < 0.99*best {
		t.Errorf("search found %g, the exhaustive method %g", highest, best)
	}
	settings := classBenchmarks[0].settings(solver.L1Linf, 1, solver.OutputLayer)
	for _, way := range selections {
		settings.Selection = way.by
		h, got, err := solver.SelectBasis(t.Context(), p, model, settings)
		if err != nil {
			t.Fatal(err)
		}
		if got > best*(1+1e-9) || math.Abs(criterion(h)-got) > 1e-9*best {
			t.Errorf("%s: criterion %g, by the explicit operators %g, best %g", way.name, got, criterion(h), best)
		}
		if way.by == solver.AllStarts && got < 0.9*best {
			t.Errorf("%s reaches %g of %g", way.name, got, best)
		}
	}
}
