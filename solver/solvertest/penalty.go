package solvertest

import "pgregory.net/rapid"

func DrawMatrix(t *rapid.T, k, m int, name string) []float64 {
	entry := rapid.OneOf(rapid.Float64Range(-3, 3), rapid.SampledFrom([]float64{0, 1, -1, 1e-12, 50}))
	return rapid.SliceOfN(entry, k*m, k*m).Draw(t, name)
}
