package solver

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// randomGamma returns operators of random sparse rows (about density of all entries) with random gradients.
func randomGamma(rng *rand.Rand, kernel Kernel, n, d, m int, density float64) *gamma.Gamma {
	x := NewRows(d, n, n*d)
	for range n {
		var index []int32
		var value []float64
		for j := range d {
			if rng.Float64() < density {
				index, value = append(index, int32(j)), append(value, rng.NormFloat64())
			}
		}
		x.Append(index, value)
	}
	g := gamma.NewGamma(x, kernel, m, solvertest.TestWorkers(2))
	for i := range g.Grad {
		g.Grad[i] = rng.NormFloat64()
	}
	return g
}

// oneHotGamma returns the bipartite operators of rows with one user and one item.
func oneHotGamma(rng *rand.Rand, n, users, items, m int) *gamma.Gamma {
	x := NewRows(users+items, n, 2*n)
	for range n {
		x.Append([]int32{int32(rng.IntN(users)), int32(users + rng.IntN(items))}, []float64{1, 1})
	}
	g := gamma.NewGamma(x, ANOVA, m, solvertest.TestWorkers(2))
	for i := range g.Grad {
		g.Grad[i] = rng.NormFloat64()
	}
	return g
}

// slowGamma forms Γ_c by its definition from dense rows.
func slowGamma(g *gamma.Gamma, c int) *mat.SymDense {
	d := g.X.NumColumns
	a := mat.NewSymDense(d, nil)
	for i := range g.X.NumRows() {
		row := make([]float64, d)
		index, value := g.X.Row(i)
		for e, j := range index {
			row[j] = value[e]
		}
		for j := range d {
			for l := j; l < d; l++ {
				w := g.Grad[i*g.Outputs+c]
				if g.Kernel == ANOVA {
					if w *= 0.5; j == l {
						w = 0
					}
				}
				a.SetSym(j, l, a.At(j, l)+w*row[j]*row[l])
			}
		}
	}
	return a
}

func TestGammaAgainstDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		kernel := rapid.SampledFrom([]Kernel{ANOVA, Homogeneous}).Draw(t, "kernel")
		n, d, m := rapid.IntRange(1, 2500).
			Draw(t, "n"),
			rapid.IntRange(1, 9).
				Draw(t, "d"),
			rapid.IntRange(1, 4).
				Draw(t, "m")
		s := rapid.IntRange(1, 5).Draw(t, "s")
		g := randomGamma(rng, kernel, n, d, m, 0.5)
		h, coef := make([]float64, d*s), make([]float64, m*s)
		for i := range h {
			h[i] = rng.NormFloat64()
		}
		for i := range coef {
			coef[i] = rng.NormFloat64()
		}
		slow := make([]*mat.SymDense, m)
		for c := range m {
			slow[c] = slowGamma(g, c)
			if !mat.EqualApprox(slow[c], mat.NewSymDense(d, g.Dense(c).Data), 1e-9) {
				t.Fatalf("dense matrix of output %d differs", c)
			}
		}
		column := func(block []float64, width, at int) *mat.VecDense {
			v := mat.NewVecDense(d, nil)
			for j := range d {
				v.SetVec(j, block[j*width+at])
			}
			return v
		}
		mixed, q := make([]float64, d*s), make([]float64, s*m)
		g.MulBlockTo(mixed, h, s, coef)
		g.QuadraticTo(q, h, s)
		for a := range s {
			want, hv := mat.NewVecDense(d, nil), column(h, s, a)
			for c := range m {
				var product mat.VecDense
				product.MulVec(slow[c], hv)
				want.AddScaledVec(want, coef[c*s+a], &product)
				if got, quad := q[a*m+c], mat.Dot(hv, &product); !solvertest.Near(got, quad, 1e-9, 1e-8) {
					t.Fatalf("quadratic form %d,%d: %g, want %g", a, c, got, quad)
				}
				single := make([]float64, d)
				mulTo(g, single, c, hv.RawVector().Data)
				if !mat.EqualApprox(mat.NewVecDense(d, single), &product, 1e-8) {
					t.Fatalf("mulTo output %d: %v, want %v", c, single, product.RawVector().Data)
				}
			}
			if !mat.EqualApprox(column(mixed, s, a), want, 1e-8) {
				t.Fatalf("block column %d: %v, want %v", a, column(mixed, s, a), want)
			}
		}
		block := make([]float64, d*m)
		for i := range block {
			block[i] = rng.NormFloat64()
		}
		own := make([]float64, d*m)
		g.MulBlockTo(own, block, m, nil)
		for c := range m {
			var want mat.VecDense
			want.MulVec(slow[c], column(block, m, c))
			if !mat.EqualApprox(column(own, m, c), &want, 1e-8) {
				t.Fatalf("own column %d: %v, want %v", c, column(own, m, c), want)
			}
		}
	})
}

// dominantAbs returns the largest |eigenvalue| of Γ_c by a dense eigensolver.
func dominantAbs(t testing.TB, g *gamma.Gamma, c int) float64 {
	t.Helper()
	var eig mat.EigenSym
	if !eig.Factorize(slowGamma(g, c), false) {
		t.Fatal("eigensolver failed")
	}
	values := eig.Values(nil)
	return max(math.Abs(values[0]), math.Abs(values[len(values)-1]))
}

// checkDominant compares Lanczos with a dense eigensolver and checks that vectors, values and residuals belong
// together.
func checkDominant(t *testing.T, g *gamma.Gamma, found gamma.Ritz) {
	t.Helper()
	d, m := g.X.NumColumns, g.Outputs
	product := make([]float64, d*m)
	g.MulBlockTo(product, found.Vectors, m, nil)
	for c := range m {
		want := dominantAbs(t, g, c)
		if got := math.Abs(found.Values[c]); !solvertest.Near(got, want, 1e-8, 1e-12) {
			t.Errorf("output %d: |eigenvalue| %v, want %v", c, got, want)
		}
		square, residual := 0.0, 0.0
		for j := range d {
			h := found.Vectors[j*m+c]
			square += h * h
			e := product[j*m+c] - found.Values[c]*h
			residual += e * e
		}
		if !solvertest.Near(square, 1, 1e-10, 0) || math.Sqrt(residual) > 1e-5*(want+1e-12) {
			t.Errorf("output %d: norm² %v, residual %g of %g", c, square, math.Sqrt(residual), want)
		}
	}
}

func TestLanczos(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, g := range map[string]*gamma.Gamma{
		"dense":       randomGamma(rng, Homogeneous, 200, 25, 3, 1),
		"sparse":      randomGamma(rng, ANOVA, 300, 40, 4, 0.1),
		"one feature": randomGamma(rng, Homogeneous, 20, 1, 2, 1),
		"bipartite":   oneHotGamma(rng, 800, 20, 30, 3), // the spectrum is symmetric
		"single row":  randomGamma(rng, Homogeneous, 1, 8, 2, 1),
	} {
		t.Run(name, func(t *testing.T) {
			found := g.Dominant(nil, gamma.FineSearch, 7)
			checkDominant(t, g, found)
			t.Run("warm", func(t *testing.T) { checkDominant(t, g, g.Dominant(found.Vectors, gamma.FineSearch, 7)) })
		})
	}
	t.Run("zero", func(t *testing.T) {
		g := randomGamma(rng, ANOVA, 30, 6, 2, 0.5)
		clear(g.Grad)
		found := g.SelectBasis(L1L2, nil, gamma.FineOracle, 1)
		if found.Criterion != 0 || found.Factor != 1 || math.IsNaN(found.Basis[0]) {
			t.Errorf("criterion %v, factor %v, basis %v of zero gradients", found.Criterion, found.Factor, found.Basis)
		}
	})
}

// TestPowerMethodFails shows why Lanczos is used: on bipartite operators the power iterates do not approach an
// eigenvector.
func TestPowerMethodFails(t *testing.T) {
	g := oneHotGamma(rand.New(rand.NewPCG(3, 4)), 800, 20, 30, 1)
	d := g.X.NumColumns
	h, next := make([]float64, d), make([]float64, d)
	for j := range h {
		h[j] = math.Sin(float64(j + 1))
	}
	for range 200 {
		eigen.NormalizeColumns(h, 1)
		mulTo(g, next, 0, h)
		h, next = next, h
	}
	eigen.NormalizeColumns(h, 1)
	q := make([]float64, 1)
	g.QuadraticTo(q, h, 1)
	want := dominantAbs(t, g, 0)
	if math.Abs(q[0]) > 0.99*want {
		t.Skipf("the power method happened to reach %g of %g from this start", q[0], want)
	}
	if got := math.Abs(g.Dominant(nil, gamma.FineSearch, 1).Values[0]); !solvertest.Near(got, want, 1e-8, 0) {
		t.Errorf("Lanczos %v, want %v (power method %v)", got, want, q[0])
	}
}

// TestOracleBeatsRandomDirections also checks ν·criterion bound and the scaled starts.
func TestOracleBeatsRandomDirections(t *testing.T) {
	tier.NotUnderRace(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, g := range []*gamma.Gamma{randomGamma(rng, Homogeneous, 200, 12, 5, 1), oneHotGamma(rng, 3000, 30, 50, 4)} {
		d, m := g.X.NumColumns, g.Outputs
		const s = 200
		h, q := make([]float64, d*s), make([]float64, s*m)
		for i := range h {
			h[i] = rng.NormFloat64()
		}
		eigen.NormalizeColumns(h, s)
		g.QuadraticTo(q, h, s)
		for _, pen := range allPenalties {
			for name, search := range map[string]gamma.OracleSearch{"quick": gamma.QuickOracle, "fine": gamma.FineOracle} {
				found := g.SelectBasis(pen, nil, search, 1)
				if best := pen.DualNorm(q, s, m); found.Criterion < best {
					t.Errorf("%v %s: criterion %g, a random direction reaches %g", pen, name, found.Criterion, best)
				}
				own := make([]float64, m)
				g.QuadraticTo(own, found.Basis, 1)
				if !solvertest.Near(dense.Norm2(found.Basis), 1, 1e-12, 0) ||
					!solvertest.Near(pen.RowDual(own), found.Criterion, 1e-12, 0) ||
					!slices.EqualFunc(own, found.Gradient, func(a, b float64) bool { return solvertest.Near(a, b, 1e-9, 1e-12) }) {
					t.Errorf("%v %s: basis of norm %g with gradient %v and criterion %g, reported %v and %g",
						pen, name, dense.Norm2(found.Basis), own, pen.RowDual(own), found.Gradient, found.Criterion)
				}
				if name == "fine" {
					checkStationary(t, g, pen, found)
				}
			}
		}
	}
}

// checkStationary checks that the gradient of the criterion, which is 2 Σ_c ∂‖q‖_c Γ_c h, points along h: its norm is
// then twice the criterion.
func checkStationary(t *testing.T, g *gamma.Gamma, pen Penalty, found gamma.Found) {
	t.Helper()
	coef := make([]float64, g.Outputs)
	for c, q := range found.Gradient {
		switch pen {
		case L1:
			if math.Abs(q) == found.Criterion {
				coef[c] = math.Copysign(1, q)
			}
		case L1L2:
			coef[c] = q / found.Criterion
		case L1Linf:
			coef[c] = math.Copysign(1, q)
		}
	}
	direction := make([]float64, g.X.NumColumns)
	g.MulBlockTo(direction, found.Basis, 1, coef)
	if norm := dense.Norm2(direction); norm > found.Criterion*(1+1e-6) {
		t.Errorf("%v: half gradient of norm %v at criterion %v", pen, norm, found.Criterion)
	}
}

func TestSelectionCancelled(t *testing.T) {
	g := oneHotGamma(rand.New(rand.NewPCG(7, 8)), 500, 20, 30, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Workers.Done = ctx.Done()
	if found := g.SelectBasis(L1Linf, nil, gamma.FineOracle, 1); len(found.Basis) != 50 || math.IsNaN(found.Criterion) {
		t.Errorf("cancelled selection: %v", found)
	}
}

func BenchmarkGammaMulTo(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	g := oneHotGamma(rng, 50_000, 943, 1682, 4)
	g.Workers.Size = 1
	d := g.X.NumColumns
	h, dst := make([]float64, d*4), make([]float64, d*4)
	for i := range h {
		h[i] = rng.NormFloat64()
	}
	b.Run("one output", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			mulTo(g, dst[:d], 1, h[:d])
		}
	})
	g.Prepare()
	b.Run("pairs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.MulBlockTo(dst, h, 4, nil)
		}
	})
	g.Pairs = nil
	b.Run("all outputs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.MulBlockTo(dst, h, 4, nil)
		}
	})
}

// BenchmarkPrepare forms the operators of letter's shape and selects with them.
func BenchmarkPrepare(b *testing.B) {
	g := randomGamma(rand.New(rand.NewPCG(1, 1)), Homogeneous, 7500, 17, 26, 1)
	g.Workers.Size = 1
	b.Run("prepare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.Prepare()
		}
	})
	b.Run("select", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.SelectBasis(L1L2, nil, gamma.QuickOracle, 1)
		}
	})
	g.Explicit = false
	b.Run("select by passes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.SelectBasis(L1L2, nil, gamma.QuickOracle, 1)
		}
	})
}
