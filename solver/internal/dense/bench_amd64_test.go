package dense

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
)

// BenchmarkPeak measures what the kernels could reach: multiply-adds of registers, and a triad dst += f·x over memory
// that no cache holds (three passes: two reads and a write).
func BenchmarkPeak(b *testing.B) {
	const rounds, perRound = 1 << 16, 12
	for l, loop := range [...]struct {
		run   func(rounds int)
		width int
	}{avx2: {multiplyAddsAVX2, 4}, avx512: {multiplyAddsAVX512, 8}} {
		if loop.run == nil || level(l) > inUse {
			continue
		}
		b.Run("FMA/"+levelNames[l], func(b *testing.B) {
			for b.Loop() {
				loop.run(rounds)
			}
			rate(b, 2*rounds*perRound*loop.width)
		})
	}
	b.Run("triad", func(b *testing.B) {
		x, y := make([]float64, 1<<24), make([]float64, 1<<24)
		for b.Loop() {
			AddScaled(y, 1, x)
		}
		b.ReportMetric(3*8*float64(len(x))*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GB/s")
	})
}

// BenchmarkShare measures what share of the machine's peak the two products of a refit reach over all rows. What is
// done elsewhere on the machine should not count: the time of a pass is the sum over its tiles of the shortest of many,
// taken in turn with those of the peak.
func BenchmarkShare(b *testing.B) {
	const rounds, perRound = 1 << 12, 12
	if inUse == portable {
		b.Skip("the kernels are in Go")
	}
	peak, width := multiplyAddsAVX2, 4
	if inUse == avx512 {
		peak, width = multiplyAddsAVX512, 8
	}
	for _, shape := range [][2]int{{150, 26}, {352, 26}, {150, 11}, {150, 1}, {20, 4}} {
		s := newTiles(shape[0], shape[1])
		b.Run(fmt.Sprintf("k=%d/m=%d", s.k, s.m), func(b *testing.B) {
			var least [3][]float64 // nanoseconds: of the peak, and of each tile by either product
			for i := range least {
				least[i] = slices.Repeat([]float64{math.Inf(1)}, (benchRows+benchTile-1)/benchTile)
			}
			shortest := func(product, tile int, f func()) {
				began := time.Now()
				f()
				least[product][tile] = min(least[product][tile], float64(time.Since(began).Nanoseconds()))
			}
			for b.Loop() {
				shortest(0, 0, func() { peak(rounds) })
				s.each(func(lo, n int) {
					clear(s.tile)
					shortest(1, lo/benchTile, func() { MulAdd(s.tile, benchTile, s.a, lo, n, s.coef, s.m) })
					shortest(2, lo/benchTile, func() { DotAdd(s.sums, s.a, lo, n, s.tile, benchTile, s.m) })
				})
			}
			top := float64(2*rounds*perRound*width) / least[0][0]
			b.ReportMetric(top, "peak-GFLOP/s")
			b.ReportMetric(100*float64(s.flops())/floats.Sum(least[1])/top, "MulAdd-%")
			b.ReportMetric(100*float64(s.flops())/floats.Sum(least[2])/top, "DotAdd-%")
		})
	}
}
