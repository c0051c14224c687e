package dense

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// singles returns n float32s, special ones among them in one series of four where they are wanted.
func singles(random *rand.Rand, n int, special bool) []float32 {
	odd := []float32{
		0,
		float32(math.Copysign(0, -1)),
		float32(math.Inf(1)),
		float32(math.NaN()),
		math.MaxFloat32,
		1e-45,
		-1e-45,
		1e-20,
		-3e-39,
	}
	special = special && random.IntN(4) == 0
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
		if special && random.IntN(20) == 0 {
			x[i] = odd[random.IntN(len(odd))]
		}
	}
	return x
}

// TestSingle compares every level with the form in Go, bit by bit, and that with sums of float64s, within what sums of
// n/16 float32s may be off.
func TestSingle(t *testing.T) {
	forEachLevel(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(7, 1))
		for round := range 500 {
			k, m, n, lo := random.IntN(41), 1+random.IntN(27), SingleLanes*random.IntN(17), random.IntN(20)
			stride := n + random.IntN(5)
			special := round%2 == 1
			a := make([][]float32, k)
			for r := range a {
				a[r] = singles(random, lo+n+random.IntN(3), special)
			}
			b, dst := singles(random, m*stride+8, special), ordinary(random, k*m+8)
			got, want := slices.Clone(dst), slices.Clone(dst)
			DotAddSingle(got, a, lo, n, b, stride, m)
			dotAddSinglePortable(want, a, lo, n, b, stride, m)
			wantBits(t, "DotAddSingle", got, want)
			if !special {
				for r := range a {
					for c := range m {
						sum, size := dst[r*m+c], math.Abs(dst[r*m+c])
						for i := range n {
							term := float64(a[r][lo+i]) * float64(b[c*stride+i])
							sum, size = sum+term, size+math.Abs(term)
						}
						if off := math.Abs(got[r*m+c] - sum); off > 1e-6*size {
							t.Fatalf("DotAddSingle: %g off, of terms that add up to %g", off, size)
						}
					}
				}
			}
			wide := values(random, n)
			x, y := make([]float32, n), make([]float32, n)
			Narrow(x, wide)
			narrowPortable(y, wide)
			sameSingles(t, "Narrow", x, y)
			z, product := singles(random, n, special), make([]float32, n)
			ProductSingle(x, y, z)
			productSinglePortable(product, y, z)
			sameSingles(t, "ProductSingle", x, product)
		}
	})
}

func sameSingles(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, g := range got {
		if math.Float32bits(g) != math.Float32bits(want[i]) && g == g {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, want[i])
		}
	}
}

// TestOneRounding: x·y + z is rounded once, also where float64 has to round it first, to what is half of two float32s.
func TestOneRounding(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	for range 200_000 {
		x, y := float32(random.NormFloat64()), float32(random.NormFloat64())
		z := float32(math.Ldexp(random.NormFloat64(), random.IntN(100)-50))
		if random.IntN(3) == 0 { // a sum next to the middle of two float32s
			x, y = 1+float32(random.IntN(8))/(1<<23), 1+float32(random.IntN(8))/(1<<23)
			z = float32(math.Ldexp(1, 24+random.IntN(3)))
		}
		exact := new(big.Float).SetPrec(300).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		want, _ := exact.Add(exact.SetPrec(300), big.NewFloat(float64(z))).Float32()
		if got := fma32(x, y, z); got != want {
			t.Fatalf("%b · %b + %b is %b, want %b", x, y, z, got, want)
		}
	}
}

func TestSingleShapesThatDoNotFit(t *testing.T) {
	x, wide := make([]float32, 16), make([]float64, 16)
	for i, call := range []func(){
		func() { DotAddSingle(wide, [][]float32{x}, 0, 8, x, 8, 1) },
		func() { DotAddSingle(wide, [][]float32{x}, 8, 16, x, 16, 1) },
		func() { DotAddSingle(wide, [][]float32{x}, 0, 16, x, 16, 2) },
		func() { DotAddSingle(wide[:0], [][]float32{x}, 0, 16, x, 16, 1) },
		func() { Narrow(x, wide[:15]) }, func() { Narrow(x[:15], wide[:15]) },
		func() { ProductSingle(x, x, x[:15]) }, func() { ProductSingle(x[:4], x[:4], x[:4]) },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			call()
		})
	}
}

// BenchmarkDotAddSingle measures the products of blocks of a Gram matrix: 150 columns with so many, over one tile, by
// float32s and float64s.
func BenchmarkDotAddSingle(b *testing.B) {
	random := rand.New(rand.NewPCG(9, 1))
	for _, m := range []int{1, 3, 8} {
		const k = 150
		single, double := make([][]float32, k), make([][]float64, k)
		for r := range k {
			single[r], double[r] = singles(random, benchTile, false), ordinary(random, benchTile)
		}
		x, y, sums := singles(random, m*benchTile, false), ordinary(random, m*benchTile), make([]float64, k*m)
		b.Run(fmt.Sprintf("m=%d/single", m), func(b *testing.B) {
			for b.Loop() {
				DotAddSingle(sums, single, 0, benchTile, x, benchTile, m)
			}
			rate(b, 2*k*m*benchTile)
		})
		b.Run(fmt.Sprintf("m=%d/double", m), func(b *testing.B) {
			for b.Loop() {
				DotAdd(sums, double, 0, benchTile, y, benchTile, m)
			}
			rate(b, 2*k*m*benchTile)
		})
	}
}
