package solver

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/solver/internal/eigen"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/solvertest"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// slowQuartic returns λmax(L_θ) by an eigensolver on the matrix of the form over all d×d entries, restricted to
// symmetric matrices.
func slowQuartic(t testing.TB, g *gamma.Gamma, theta float64) float64 {
	t.Helper()
	d := g.X.NumColumns
	whole := mat.NewDense(d*d, d*d, nil)
	for c := range g.Outputs {
		a := slowGamma(g, c)
		for j := range d {
			for l := range d {
				for u := range d {
					for v := range d {
						value := theta*a.At(j, l)*a.At(u, v) + (1-theta)*a.At(j, u)*a.At(l, v)
						whole.Set(j*d+l, u*d+v, whole.At(j*d+l, u*d+v)+value)
					}
				}
			}
		}
	}
	size := d * (d + 1) / 2
	isometry, at := mat.NewDense(d*d, size, nil), 0
	for j := range d {
		for l := j; l < d; l++ {
			isometry.Set(j*d+l, at, math.Sqrt2/2)
			isometry.Set(l*d+j, at, math.Sqrt2/2)
			if l == j {
				isometry.Set(j*d+j, at, 1)
			}
			at++
		}
	}
	var part, full mat.Dense
	part.Mul(whole, isometry)
	full.Mul(isometry.T(), &part)
	symmetric := mat.NewSymDense(size, nil)
	for j := range size {
		for l := j; l < size; l++ {
			symmetric.SetSym(j, l, 0.5*(full.At(j, l)+full.At(l, j)))
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(symmetric, false) {
		t.Fatal("eigensolver failed")
	}
	return eig.Values(nil)[size-1]
}

func quarticOf(g *gamma.Gamma) *gamma.QuarticBound {
	var operators []blas64.Symmetric
	for c := range g.Outputs {
		operators = append(operators, g.Dense(c))
	}
	return gamma.NewQuarticBound(operators, g.Workers)
}

// largestOf returns the largest eigenvalue of the form as it is.
func largestOf(t testing.TB, q *gamma.QuarticBound) float64 {
	t.Helper()
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(len(q.Scale), q.Form), false) {
		t.Fatal("eigensolver failed")
	}
	return eig.Values(nil)[len(q.Scale)-1]
}

// checkQuartic compares what the form gives for hhᵀ with Σ_c (hᵀΓ_c h)² for random h: it has to be the same
// wherever the form was moved to.
func checkQuartic(t testing.TB, g *gamma.Gamma, q *gamma.QuarticBound, rng *rand.Rand) {
	t.Helper()
	d := g.X.NumColumns
	for range 20 {
		h := make([]float64, d)
		for j := range h {
			h[j] = rng.NormFloat64()
		}
		eigen.NormalizeColumns(h, 1)
		want := 0.0
		for c := range g.Outputs {
			x := mat.NewVecDense(d, h)
			form := mat.Inner(x, slowGamma(g, c), x)
			want += form * form
		}
		var packed []float64
		for j := range d {
			for l := j; l < d; l++ {
				packed = append(packed, h[j]*h[l]*q.Scale[len(packed)])
			}
		}
		image := make([]float64, len(packed))
		q.MulTo(image, packed)
		if got := floats.Dot(image, packed); !solvertest.Near(got, want, 1e-9, 1e-12) {
			t.Errorf("the form gives %v, want %v", got, want)
		}
	}
}

// TestQuarticForm compares the form with its definition before and after it was lowered, and the bound with that of one
// operator for each of a grid of weights of its two parts, with the sum of squares and with the best vector that can be
// found.
func TestQuarticForm(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	gains := 0
	for _, c := range []struct {
		name string
		g    *gamma.Gamma
	}{
		{"one feature", randomGamma(rng, Homogeneous, 50, 1, 3, 1)},
		{"one output", randomGamma(rng, Homogeneous, 200, 6, 1, 1)},
		{"homogeneous", randomGamma(rng, Homogeneous, 200, 8, 5, 1)},
		{"anova", randomGamma(rng, ANOVA, 200, 9, 4, 0.6)},
		{"many outputs", randomGamma(rng, Homogeneous, 300, 6, 20, 1)},
		{"two fields", oneHotGamma(rng, 60, 4, 5, 3)},
		{"without features", randomGamma(rng, Homogeneous, 50, 4, 3, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := c.g
			g.Prepare()
			q := quarticOf(g)
			checkQuartic(t, g, q, rng)
			if got, want := largestOf(t, q), slowQuartic(t, g, 1.0/3); !solvertest.Near(got, want, 1e-9, 1e-12) {
				t.Errorf("begins at %v, want %v", got, want)
			}
			value, failure, ok := q.Bound(rng, gamma.BoundFailure)
			checkQuartic(t, g, q, rng)
			if at := largestOf(t, q); !ok || failure != 0 || !solvertest.Near(value*value, at, 1e-9, 1e-9) {
				t.Errorf("bound %v², the largest eigenvalue is %v", value, at)
			}
			least := math.Inf(1)
			for step := range 41 {
				least = min(least, slowQuartic(t, g, float64(step)/20-1))
			}
			found := g.SelectBasis(L1L2, nil, gamma.FineOracle, 1).Criterion
			squares := mat.NewSymDense(g.X.NumColumns, nil)
			for c := range g.Outputs {
				a := slowGamma(g, c)
				var product mat.Dense
				product.Mul(a, a)
				for j := range g.X.NumColumns {
					for l := j; l < g.X.NumColumns; l++ {
						squares.SetSym(j, l, squares.At(j, l)+product.At(j, l))
					}
				}
			}
			var eig mat.EigenSym
			if !eig.Factorize(squares, false) {
				t.Fatal("eigensolver failed")
			}
			sum := math.Sqrt(max(0, eig.Values(nil)[g.X.NumColumns-1]))
			if value < found*(1-1e-9) || value > sum*(1+1e-5) || value > math.Sqrt(least)*(1+1e-3) ||
				math.Sqrt(q.Reached) > found*(1+1e-9) {
				t.Errorf("bound %v, found %v and %v, by two parts %v, sum of squares %v", value, found,
					math.Sqrt(q.Reached), math.Sqrt(least), sum)
			}
			if value*value < 0.96*least {
				gains++
			}
			t.Logf("after %d products: %.4f, found %.4f and %.4f, by two parts %.4f, sum of squares %.4f",
				q.Products, value, found, math.Sqrt(q.Reached), math.Sqrt(least), sum)
		})
	}
	if gains < 3 {
		t.Errorf("only %d bounds were much better than those by two parts", gains)
	}
}

// TestQuarticByLanczos compares the bound by Lanczos, for features beyond the eigensolver, with the largest eigenvalue.
func TestQuarticByLanczos(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 74))
	g := randomGamma(rng, Homogeneous, 400, 30, 3, 1)
	g.Prepare()
	q := quarticOf(g)
	value, failure, ok := q.Bound(rng, gamma.BoundFailure)
	if most := gamma.QuarticMost*gamma.QuarticRound + gamma.QuarticBoundSteps; !ok || failure != gamma.BoundFailure ||
		q.Products > most {
		t.Fatalf("failure %v after %d products of %d, ok %v", failure, q.Products, most, ok)
	}
	checkQuartic(t, g, q, rng)
	top, found := math.Sqrt(largestOf(t, q)), g.SelectBasis(L1L2, nil, gamma.FineOracle, 1).Criterion
	if value < top*(1-1e-12) || value > top*1.001 || found > value {
		t.Errorf("bound %v, largest eigenvalue %v, found %v", value, top, found)
	}
}

// TestQuarticByWorkers: the bound does not depend on how many goroutines share the work.
func TestQuarticByWorkers(t *testing.T) {
	g := randomGamma(rand.New(rand.NewPCG(77, 78)), Homogeneous, 200, 20, 3, 1)
	g.Prepare()
	var bounds [3]float64
	for size := range bounds {
		g.Workers = solvertest.TestWorkers(size + 1)
		bounds[size], _, _ = quarticOf(g).Bound(rand.New(rand.NewPCG(79, 80)), gamma.BoundFailure)
	}
	if bounds[0] != bounds[1] || bounds[0] != bounds[2] || !(bounds[0] > 0) {
		t.Errorf("bounds %v", bounds)
	}
}

// TestFlattenings compares the bound on rows of two fields with the two flattenings of dense blocks.
func TestFlattenings(t *testing.T) {
	tier.NotUnderRace(t)
	rng := rand.New(rand.NewPCG(75, 76))
	const users, items, m = 150, 70, 4
	g := oneHotGamma(rng, 3000, users, items, m)
	for i := range g.X.Value {
		g.X.Value[i] = 0.5 + rng.Float64()
	}
	g.Prepare()
	if g.Split() != users {
		t.Fatalf("split at %d", g.Split())
	}
	wide, tall := mat.NewDense(users, items*m, nil), mat.NewDense(items, users*m, nil)
	for c := range m {
		a := slowGamma(g, c)
		for u := range users {
			for i := range items {
				wide.Set(u, c*items+i, a.At(u, users+i))
				tall.Set(i, c*users+u, a.At(u, users+i))
			}
		}
	}
	norm := func(a *mat.Dense) float64 {
		var svd mat.SVD
		if !svd.Factorize(a, mat.SVDNone) {
			t.Fatal("no singular values")
		}
		return svd.Values(nil)[0]
	}
	want, other := norm(wide), norm(tall)
	if want > other {
		want, other = other, want
	}
	bound := g.BoundDual(L1L2, 1e-3, 3, nil)
	found := g.SelectBasis(L1L2, nil, gamma.FineOracle, 1).Criterion
	if bound.Kind != Flattenings || bound.Value < want*(1-1e-12) || bound.Value > 1.01*want || bound.Value < found ||
		other < 1.05*want {
		t.Errorf("bound %v (%s), flattenings %v and %v, found %v", bound.Value, bound.Kind, want, other, found)
	}
	// A third feature that is of either field takes the fields away.
	g.X.Index[1], g.X.Index[2*g.X.NumRows()-2] = users-1, users
	if g.X.Index[0] == users-1 {
		g.X.Index[0] = 0
	}
	if g.Split() != 0 {
		t.Errorf("split at %d of rows without two fields", g.Split())
	}
}
