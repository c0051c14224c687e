package dense

import "testing"

// BenchmarkPeak measures what the kernels could reach: multiply-adds of registers, and a triad dst += f·x over memory that no cache holds
// (three passes: two reads and a write).
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
