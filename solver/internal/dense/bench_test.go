package dense

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

const (
	benchRows = 7500 // half of the letter data set, as in Table 2 of Blondel et al. 2017
	benchTile = 256  // rows that the solver takes at a time
)

// tiles is Φ in k columns, coefficients k×m, and m columns of one tile: a pass over all tiles does what a refit does.
type tiles struct {
	k, m        int
	a           [][]float64
	coef, tile  []float64
	sums        []float64
	packed, out []float64 // Φ row-major and Φ·V, for Dgemm
}

func newTiles(k, m int) *tiles {
	random := rand.New(rand.NewPCG(5, 1))
	s := &tiles{k: k, m: m, coef: ordinary(random, k*m), tile: make([]float64, m*benchTile), sums: make([]float64, k*m),
		packed: ordinary(random, benchRows*k), out: make([]float64, benchRows*m)}
	for range k {
		s.a = append(s.a, ordinary(random, benchRows))
	}
	return s
}

func (s *tiles) each(f func(lo, n int)) {
	for lo := 0; lo < benchRows; lo += benchTile {
		f(lo, min(benchTile, benchRows-lo))
	}
}

func (s *tiles) flops() int { return 2 * benchRows * s.k * s.m }

// rate reports flops (a multiply-add is two) per nanosecond: GFLOP/s.
func rate(b *testing.B, flops int) {
	b.ReportMetric(float64(flops)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
}

// BenchmarkPasses measures the two products of a refit by these kernels, by gonum's vector functions and by gonum's
// Dgemm.
func BenchmarkPasses(b *testing.B) {
	for _, shape := range [][2]int{{150, 26}, {20, 4}, {20, 1}} {
		s := newTiles(shape[0], shape[1])
		name := fmt.Sprintf("k=%d/m=%d/", s.k, s.m)
		b.Run(name+"MulAdd/dense", func(b *testing.B) {
			for b.Loop() {
				s.each(func(lo, n int) {
					clear(s.tile)
					MulAdd(s.tile, benchTile, s.a, lo, n, s.coef, s.m)
				})
			}
			rate(b, s.flops())
		})
		b.Run(name+"MulAdd/floats", func(b *testing.B) {
			for b.Loop() {
				s.each(func(lo, n int) {
					clear(s.tile)
					for c := range s.m {
						for r, phi := range s.a {
							floats.AddScaled(s.tile[c*benchTile:c*benchTile+n], s.coef[r*s.m+c], phi[lo:lo+n])
						}
					}
				})
			}
			rate(b, s.flops())
		})
		b.Run(name+"MulAdd/Dgemm", func(b *testing.B) {
			for b.Loop() {
				blas64.Gemm(blas.NoTrans, blas.NoTrans, 1,
					blas64.General{Rows: benchRows, Cols: s.k, Stride: s.k, Data: s.packed},
					blas64.General{Rows: s.k, Cols: s.m, Stride: s.m, Data: s.coef}, 0,
					blas64.General{Rows: benchRows, Cols: s.m, Stride: s.m, Data: s.out})
			}
			rate(b, s.flops())
		})
		b.Run(name+"DotAdd/dense", func(b *testing.B) {
			for b.Loop() {
				clear(s.sums)
				s.each(func(lo, n int) { DotAdd(s.sums, s.a, lo, n, s.tile, benchTile, s.m) })
			}
			rate(b, s.flops())
		})
		b.Run(name+"DotAdd/floats", func(b *testing.B) {
			for b.Loop() {
				clear(s.sums)
				s.each(func(lo, n int) {
					for r, phi := range s.a {
						for c := range s.m {
							s.sums[r*s.m+c] += floats.Dot(phi[lo:lo+n], s.tile[c*benchTile:c*benchTile+n])
						}
					}
				})
			}
			rate(b, s.flops())
		})
		b.Run(name+"DotAdd/Dgemm", func(b *testing.B) {
			for b.Loop() {
				blas64.Gemm(blas.Trans, blas.NoTrans, 1,
					blas64.General{Rows: benchRows, Cols: s.k, Stride: s.k, Data: s.packed},
					blas64.General{Rows: benchRows, Cols: s.m, Stride: s.m, Data: s.out}, 0,
					blas64.General{Rows: s.k, Cols: s.m, Stride: s.m, Data: s.sums})
			}
			rate(b, s.flops())
		})
		b.Run(name+"both/dense", func(b *testing.B) {
			for b.Loop() {
				clear(s.sums)
				s.each(func(lo, n int) {
					clear(s.tile)
					MulAdd(s.tile, benchTile, s.a, lo, n, s.coef, s.m)
					DotAdd(s.sums, s.a, lo, n, s.tile, benchTile, s.m)
				})
			}
			rate(b, 2*s.flops())
		})
	}
}

// BenchmarkExp measures a tile of exponentials.
func BenchmarkExp(b *testing.B) {
	src, dst := ordinary(rand.New(rand.NewPCG(6, 1)), benchTile), make([]float64, benchTile)
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchTile, "ns/element")
	}
	b.Run("dense", func(b *testing.B) {
		for b.Loop() {
			Exp(dst, src)
		}
		report(b)
	})
	b.Run("math", func(b *testing.B) {
		for b.Loop() {
			for i, x := range src {
				dst[i] = math.Exp(x)
			}
		}
		report(b)
	})
}

// BenchmarkVectors measures AddScaled and Dot against gonum's.
func BenchmarkVectors(b *testing.B) {
	for _, n := range []int{16, 64, 256, 1024} {
		random := rand.New(rand.NewPCG(7, 1))
		x, y := ordinary(random, n), ordinary(random, n)
		for _, f := range []struct {
			name string
			call func()
		}{
			{"AddScaled/dense", func() { AddScaled(y, 1e-9, x) }},
			{"AddScaled/floats", func() { floats.AddScaled(y, 1e-9, x) }},
			{"Dot/dense", func() { Dot(x, y) }},
			{"Dot/floats", func() { floats.Dot(x, y) }},
		} {
			b.Run(fmt.Sprintf("%s/n=%d", f.name, n), func(b *testing.B) {
				for b.Loop() {
					f.call()
				}
				rate(b, 2*n)
			})
		}
	}
}
