package penalty

import (
	"math"
	"testing"
)

func BenchmarkProjectL1Linf(b *testing.B) {
	const k, m = 150, 26
	v, work := make([]float64, k*m), make([]float64, k*m)
	for i := range v {
		v[i] = math.Sin(float64(i)) * math.Sin(float64(i/m))
	}
	radius := 0.3 * L1Linf.Norm(v, k, m)
	b.ReportAllocs()
	for b.Loop() {
		copy(work, v)
		L1Linf.Project(work, k, m, radius)
	}
}
