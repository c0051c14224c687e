package loss

import (
	"math"
	"testing"
)

func BenchmarkEvalRows(b *testing.B) {
	const n, m = 4096, 4
	pred, target, grad := make([]float64, n*m), make([]float64, n*m), make([]float64, n*m)
	for i := range pred {
		pred[i] = 3 * math.Sin(float64(i))
		target[i] = 1 - 2*float64(i%2)
	}
	for name, g := range map[string][]float64{"value": nil, "gradient": grad} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				EvalRows(BinaryLogistic{}, g, pred, target, nil, m)
			}
		})
	}
}
