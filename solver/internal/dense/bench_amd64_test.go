package dense

import "testing"

// BenchmarkTriad measures what memory allows the kernels: dst += f·x over memory that no cache holds (three passes: two
// reads and a write).
func BenchmarkTriad(b *testing.B) {
	x, y := make([]float64, 1<<24), make([]float64, 1<<24)
	for b.Loop() {
		AddScaled(y, 1, x)
	}
	b.ReportMetric(3*8*float64(len(x))*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GB/s")
}
