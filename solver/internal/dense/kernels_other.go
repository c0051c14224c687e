//go:build !amd64

package dense

func mulAdd(dst []float64, stride int, a [][]float64, lo, n int, coef []float64, m int) {
	mulAddPortable(dst, stride, a, lo, n, coef, m)
}

func dotAdd(dst []float64, a [][]float64, lo, n int, b []float64, stride, m int) {
	dotAddPortable(dst, a, lo, n, b, stride, m)
}

func addScaled(dst []float64, f float64, x []float64) { addScaledPortable(dst, f, x) }

func scaleAdd(dst []float64, f float64, x []float64) { scaleAddPortable(dst, f, x) }

func addScaledProduct(dst []float64, f float64, x, y []float64) {
	addScaledProductPortable(dst, f, x, y)
}

func dot(x, y []float64) float64 { return 0 + dotPortable(x, y) }

func exp(dst, src []float64) { expPortable(dst, src) }

func sweep(a []float64, stride int, pivots []float64) { sweepPortable(a, stride, pivots) }

func solvePair(x, a, b [2][]float64, d, work []float64) float64 {
	return solvePairPortable(x, a, b, d, work)
}

func dotAddSingle(dst []float64, a [][]float32, lo, n int, b []float32, stride, m int) {
	dotAddSinglePortable(dst, a, lo, n, b, stride, m)
}

func narrow(dst []float32, src []float64) { narrowPortable(dst, src) }

func productSingle(dst, x, y []float32) { productSinglePortable(dst, x, y) }
