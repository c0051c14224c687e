package eigen

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestDecompose: what calls LAPACK directly gives the same bits as package mat, and looks at the upper triangle alone.
func TestDecompose(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for n := 1; n <= 70; n++ {
		a, slow := NewSymmetric(n), mat.NewSymDense(n, nil)
		scale := math.Pow(10, float64(n%25-12))
		for j := range n {
			for l := range n {
				x := scale * rng.NormFloat64()
				if n%3 == 0 && l > j+1 {
					x = 0 // tridiagonal
				}
				if a.Data[j*n+l] = x; l >= j {
					slow.SetSym(j, l, x)
				} else {
					a.Data[j*n+l] = math.NaN()
				}
			}
		}
		before := slices.Clone(a.Data[:n])
		e, ok := Decompose(a)
		var want mat.EigenSym
		if !ok || !want.Factorize(slow, true) {
			t.Fatalf("order %d: not decomposed", n)
		}
		if !slices.Equal(a.Data[:n], before) {
			t.Fatalf("order %d: decompose changes its argument", n)
		}
		var vectors mat.Dense
		want.VectorsTo(&vectors)
		if !slices.Equal(e.Values, want.Values(nil)) || !slices.Equal(e.Vectors, vectors.RawMatrix().Data) {
			t.Fatalf("order %d: another decomposition than that of package mat", n)
		}
		column := make([]float64, 2*n)
		e.Vector(column[1:], 2, n-1)
		for j := range n {
			if column[2*j+1] != vectors.At(j, n-1) || column[2*j] != 0 {
				t.Fatalf("order %d: entry %d of the last vector is %g, want %g", n, j, column[2*j+1],
					vectors.At(j, n-1))
			}
		}
	}
}
