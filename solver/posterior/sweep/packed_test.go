package sweep

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refitd/refitd/solver/posterior"
	"gonum.org/v1/gonum/mat"
)

func randomPositive(r *rand.Rand, q int) []float64 {
	a := make([]float64, posterior.PackedSize(q))
	v := make([]float64, q)
	for range q + 2 {
		for i := range v {
			v[i] = r.NormFloat64()
		}
		posterior.AddOuter(a, 0.5, v)
	}
	for i := range q {
		a[i*(i+1)/2+i] += 0.3
	}
	return a
}

func symmetric(a []float64, q int) *mat.SymDense {
	s := mat.NewSymDense(q, nil)
	for i := range q {
		for j := 0; j <= i; j++ {
			s.SetSym(i, j, a[i*(i+1)/2+j])
		}
	}
	return s
}

func TestPackedAgainstGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, q := range []int{1, 2, 3, 9, 21} {
		a := randomPositive(r, q)
		v := make([]float64, q)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		da, dv := symmetric(a, q), mat.NewVecDense(q, append([]float64(nil), v...))
		near := func(name string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-10*(1+math.Abs(want)) {
				t.Errorf("order %d: %s = %.15g, gonum %.15g", q, name, got, want)
			}
		}
		near("quadratic", posterior.Quadratic(a, v), mat.Inner(dv, da, dv))
		var av mat.VecDense
		av.MulVec(da, dv)
		dst := make([]float64, q)
		posterior.Multiply(dst, a, v)
		var c mat.Cholesky
		if !c.Factorize(da) {
			t.Fatal("gonum cannot factorise")
		}
		var inv mat.SymDense
		if err := c.InverseTo(&inv); err != nil {
			t.Fatal(err)
		}
		l := append([]float64(nil), a...)
		if !posterior.Cholesky(l, q) {
			t.Fatalf("order %d: not positive definite", q)
		}
		near("logDet", posterior.LogDetCholesky(l, q), c.LogDet())
		x := append([]float64(nil), v...)
		posterior.SolveCholesky(l, q, x)
		var want mat.VecDense
		if err := c.SolveVecTo(&want, dv); err != nil {
			t.Fatal(err)
		}
		got := make([]float64, posterior.PackedSize(q))
		posterior.InvertCholesky(got, l, q)
		for i := range q {
			near("multiply", dst[i], av.AtVec(i))
			near("solve", x[i], want.AtVec(i))
			for j := 0; j <= i; j++ {
				near("inverse", got[i*(i+1)/2+j], inv.At(i, j))
			}
		}
	}
}
