package solver

import (
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// TestPreparedOperators compares explicit operators and sorted pairs with passes over the rows.
func TestPreparedOperators(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 62))
	scaled := oneHotGamma(rng, 2500, 12, 15, 5)
	for i := range scaled.X.Value {
		scaled.X.Value[i] = rng.NormFloat64()
	}
	for name, g := range map[string]*gamma.Gamma{
		"explicit, homogeneous": randomGamma(rng, Homogeneous, 3000, 11, 5, 1),
		"explicit, anova":       randomGamma(rng, ANOVA, 3000, 7, 2, 0.9),
		"one column":            randomGamma(rng, Homogeneous, 300, 1, 1, 1),
		"pairs":                 oneHotGamma(rng, 2500, 40, 30, 4),
		"pairs with values":     scaled,
	} {
		t.Run(name, func(t *testing.T) {
			d, m := g.X.NumColumns, g.Outputs
			for _, s := range []int{1, m, 4, 6} {
				h, coef := make([]float64, d*s), make([]float64, m*s)
				for i := range h {
					h[i] = rng.NormFloat64()
				}
				for i := range coef {
					coef[i] = rng.NormFloat64()
				}
				var results [2][]float64
				for turn := range results {
					if g.Explicit, g.Pairs = false, nil; turn == 1 {
						g.Prepare()
						if !g.Explicit && g.Pairs == nil {
							t.Fatal("nothing was prepared")
						}
					}
					mixed, q := make([]float64, d*s), make([]float64, s*m)
					g.MulBlockTo(mixed, h, s, coef)
					g.QuadraticTo(q, h, s)
					results[turn] = append(mixed, q...)
					if s == m {
						own := make([]float64, d*m)
						g.MulBlockTo(own, h, m, nil)
						results[turn] = append(results[turn], own...)
					}
				}
				if !floats.EqualApprox(results[0], results[1], 1e-8*floats.Norm(results[0], 2)) {
					t.Errorf("%d columns: prepared operators differ", s)
				}
			}
			for c := range m {
				slow := slowGamma(g, c)
				fast := mat.NewSymDense(d, g.Dense(c).Data)
				for j := range d {
					for l := range d {
						if !solvertest.Near(fast.At(j, l), slow.At(j, l), 1e-9, 1e-9) {
							t.Fatalf("Γ_%d[%d,%d] = %v, want %v", c, j, l, fast.At(j, l), slow.At(j, l))
						}
					}
				}
			}
		})
	}
}

// TestSelections compares the selections at points of a path with the exhaustive method of Blondel et al. 2017,
// appendix C: sign patterns for ℓ1/ℓ∞, dominant eigenvectors for ℓ1.
func TestSelections(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 64))
	const n, d, m = 300, 7, 5
	p := &Problem{X: NewRows(d, n, n*d), Outputs: m, Loss: MultinomialLogistic{}}
	classes := make([]int, n)
	for i := range classes {
		row := make([]float64, d)
		row[0] = 1
		for j := 1; j < d; j++ {
			row[j] = rng.NormFloat64()
		}
		p.X.Append([]int32{0, 1, 2, 3, 4, 5, 6}, row)
		scores := []float64{row[1] * row[2], row[3] * row[4], row[5]*row[5] - 1, row[1] * row[6], 0.3}
		classes[i] = floats.MaxIdx(scores)
	}
	p.Targets = oneHot(classes, m)
	s := smallSettings()
	s.Kernel, s.LinearRidge, s.BiasRidge, s.Lambda, s.MaxBasis = Homogeneous, 0, 0, 1, 12
	for _, pen := range allPenalties {
		s.Penalty = pen
		s.OnStep = nil
		models := []*Model{}
		collect := s
		collect.OnStep = func(step Step, model *Model) bool {
			if step.K%4 == 0 {
				models = append(models, model)
			}
			return false
		}
		if _, err := Solve(t.Context(), p, nil, collect); err != nil {
			t.Fatal(err)
		}
		worst := map[Selection]float64{}
		for _, model := range models {
			g := gamma.NewGamma(p.X, s.Kernel, m, solvertest.TestWorkers(1))
			out, work := make([]float64, n*m), make([]float64, 2*model.NumBasis)
			for i := range n {
				index, value := p.X.Row(i)
				model.Predict(out[i*m:i*m+m], work, index, value)
			}
			linear.RowLosses(solvertest.TestWorkers(1), p, out, g.Grad)
			best := 0.0 // of all unit vectors; not known for ℓ1/ℓ2
			switch pen {
			case L1:
				for c := range m {
					best = max(best, dominantAbs(t, g, c))
				}
			case L1Linf:
				best = slowSigns(t, g)
			}
			value := map[Selection]float64{}
			for how := AllStarts; how <= BestData; how++ {
				s.Selection = how
				h, criterion, err := SelectBasis(t.Context(), p, model, s)
				if err != nil {
					t.Fatal(err)
				}
				q := make([]float64, m)
				g.QuadraticTo(q, h, 1)
				if !solvertest.Near(dense.Norm2(h), 1, 1e-12, 0) ||
					!solvertest.Near(pen.RowDual(q), criterion, 1e-9, 0) {
					t.Fatalf("%v, %v: ‖h‖ = %v with criterion %v, reported %v", pen, how, dense.Norm2(h),
						pen.RowDual(q), criterion)
				}
				if best == 0 { // ℓ1/ℓ2: the first and widest search
					best = criterion
				}
				if criterion > best*(1+1e-9) {
					t.Errorf("%v, %v: criterion %v is above the largest, %v", pen, how, criterion, best)
				}
				value[how] = criterion
				nu := criterion / best
				if last, ok := worst[how]; !ok || nu < last {
					worst[how] = nu
				}
			}
			const slack = 1 + 1e-9
			if value[AllStarts]*slack < value[L1Start] || value[L1Start]*slack < value[L1Only] ||
				value[RandomStart]*slack < value[RandomOnly] {
				t.Errorf("%v: refining or more starts made it worse: %v", pen, value)
			}
			if pen == L1 &&
				!(solvertest.Near(value[AllStarts], best, 1e-9, 0) && solvertest.Near(value[L1Only], best, 1e-9, 0)) {
				t.Errorf("ℓ1: criterion %v and %v, want %v", value[AllStarts], value[L1Only], best)
			}
			data := 0.0
			for i := range n {
				index, entries := p.X.Row(i)
				x := make([]float64, d)
				for e, j := range index {
					x[j] = entries[e]
				}
				eigen.NormalizeColumns(x, 1)
				q := make([]float64, m)
				g.QuadraticTo(q, x, 1)
				data = max(data, pen.RowDual(q))
			}
			if !solvertest.Near(value[BestData], data, 1e-9, 0) {
				t.Errorf("%v: best row has %v, want %v", pen, value[BestData], data)
			}
		}
		t.Logf("%v: smallest ν̂ of %d points %v", pen, len(models), worst)
		// An independent implementation has 0.93 to 1 from the dominant eigenvectors of all outputs, which gave 0.982
		// here, 0.63 to 1 from one.
		if worst[AllStarts] < 0.999 || worst[L1Only] < 0.2 || worst[RandomOnly] > 0.95 {
			t.Errorf("%v: ν̂ %v", pen, worst)
		}
	}
}

// TestReportedFactor checks that ν is a lower bound of what the exhaustive method gives.
func TestReportedFactor(t *testing.T) {
	rng := rand.New(rand.NewPCG(65, 66))
	for range 20 {
		g := randomGamma(rng, Homogeneous, 60, 6, 4, 1)
		for _, search := range []gamma.OracleSearch{gamma.QuickOracle, gamma.FineOracle} {
			found := g.SelectBasis(L1Linf, nil, search, 1)
			if truth := found.Criterion / slowSigns(t, g); found.Factor <= 0 || found.Factor > truth*(1+1e-9) {
				t.Errorf("ν %v, but the criterion is %v of the largest", found.Factor, truth)
			}
		}
	}
}
