package dense

import "math"

// The forms in Go, which state what the others must compute. math.FMA is one instruction where the processor has it.

func mulAddPortable(dst []float64, stride int, a [][]float64, lo, n int, coef []float64, m int) {
	for c := range m {
		column := dst[c*stride : c*stride+n]
		for r, phi := range a {
			addScaledPortable(column, coef[r*m+c], phi[lo:lo+n])
		}
	}
}

func dotAddPortable(dst []float64, a [][]float64, lo, n int, b []float64, stride, m int) {
	for c := range m {
		column := b[c*stride : c*stride+n]
		for r, phi := range a {
			dst[r*m+c] += dotPortable(phi[lo:lo+n], column)
		}
	}
}

func addScaledPortable(dst []float64, f float64, x []float64) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = math.FMA(f, v, dst[i])
	}
}

func scaleAddPortable(dst []float64, f float64, x []float64) {
	for i, v := range x {
		dst[i] = math.FMA(f, dst[i], v)
	}
}

func addScaledProductPortable(dst []float64, f float64, x, y []float64) {
	for i := range dst {
		dst[i] = math.FMA(f, x[i]*y[i], dst[i])
	}
}

func dotPortable(x, y []float64) float64 {
	var s [lanes]float64
	for len(x) >= lanes {
		p, q := (*[lanes]float64)(x), (*[lanes]float64)(y)
		for j := range s {
			s[j] = math.FMA(p[j], q[j], s[j])
		}
		x, y = x[lanes:], y[lanes:]
	}
	if len(x) > 0 {
		var p, q [lanes]float64
		copy(p[:], x)
		copy(q[:], y)
		for j := range s {
			s[j] = math.FMA(p[j], q[j], s[j])
		}
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// lanes is the number of partial sums of a dot product: the float64s of an AVX-512 register.
const lanes = 8
