package dense

import "math"

// SingleLanes is what lengths of DotAddSingle, Narrow and ProductSingle are multiples of: sixteen lanes of float32.
const SingleLanes = 16

// DotAddSingle is DotAdd of float32s: it adds to dst (k×m, row-major) the products of rows lo … lo+n−1 of the k
// columns a with the m columns of b,
//
//	dst[r·m+c] += Σ_i a[r][lo+i] · b[c·stride+i],  0 ≤ i < n
//
// where n is a multiple of SingleLanes. Element i goes to lane i mod 16 by a fused multiply-add of float32s; the
// lanes l0 … l15 are added as float64s, l_j + l_{j+8} in lane j of eight, and these as those of DotAdd. The caller
// keeps n short enough for sums of n/16 terms of float32. dst must not overlap a or b. Cost: 2·k·m·n flops, of which
// a register holds twice as many.
func DotAddSingle(dst []float64, a [][]float32, lo, n int, b []float32, stride, m int) {
	checkColumns(a, lo, n)
	checkTile(b, stride, n, m)
	checkLanes(n)
	if len(dst) < len(a)*m {
		panic("dense: dst is shorter than k×m")
	}
	if m > 0 && len(a) > 0 && n > 0 {
		dotAddSingle(dst, a, lo, n, b, stride, m)
	}
}

// Narrow stores src in dst, rounded to float32; what is too large for one is infinite. The length is a multiple of
// SingleLanes.
func Narrow(dst []float32, src []float64) {
	if len(dst) != len(src) {
		panic("dense: Narrow of slices of unequal length")
	}
	if checkLanes(len(src)); len(src) > 0 {
		narrow(dst, src)
	}
}

// ProductSingle stores x·y in dst, element by element. dst may be x or y. The length is a multiple of SingleLanes.
func ProductSingle(dst, x, y []float32) {
	if len(dst) != len(x) || len(dst) != len(y) {
		panic("dense: ProductSingle of slices of unequal length")
	}
	if checkLanes(len(dst)); len(dst) > 0 {
		productSingle(dst, x, y)
	}
}

func checkLanes(n int) {
	if n%SingleLanes != 0 {
		panic("dense: a number of float32s that does not fill sixteen lanes")
	}
}

func dotAddSinglePortable(dst []float64, a [][]float32, lo, n int, b []float32, stride, m int) {
	for c := range m {
		column := b[c*stride : c*stride+n]
		for r, phi := range a {
			dst[r*m+c] += dotSinglePortable(phi[lo:lo+n], column)
		}
	}
}

func dotSinglePortable(x, y []float32) float64 {
	var l [SingleLanes]float32
	for i := range x {
		l[i%SingleLanes] = fma32(x[i], y[i], l[i%SingleLanes])
	}
	var s [SingleLanes / 2]float64
	for j := range s {
		s[j] = float64(l[j]) + float64(l[j+SingleLanes/2])
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// fma32 returns x·y + z, rounded once. The product is exact in float64; the sum is rounded to odd there, so that
// rounding it again does no harm (Boldo and Melquiond, 2008).
func fma32(x, y, z float32) float32 {
	product, addend := float64(x)*float64(y), float64(z)
	sum := product + addend
	part := sum - product
	if rest := (product - (sum - part)) + (addend - part); rest != 0 && !math.IsNaN(rest) {
		if bits := math.Float64bits(sum); bits&1 == 0 {
			if (rest > 0) == (sum > 0) {
				bits++
			} else {
				bits--
			}
			sum = math.Float64frombits(bits)
		}
	}
	return float32(sum)
}

func narrowPortable(dst []float32, src []float64) {
	for i, x := range src {
		dst[i] = float32(x)
	}
}

func productSinglePortable(dst, x, y []float32) {
	for i := range dst {
		dst[i] = x[i] * y[i]
	}
}
