// Package dense holds the dense kernels of the solver's hot loops: products of a few columns of Φ with a small matrix,
// dot products, the exponential, and the solution of small positive definite systems. They have an AVX-512, an AVX2 and
// a pure-Go form; the widest one that the processor and the operating system support is chosen when the program starts.
//
// All forms give the same bits, so that a model does not depend on the machine it was trained on. The order of every
// operation is therefore part of each function's contract: an element-wise update is one fused multiply-add per term,
// in the order of the terms; a dot product has eight lanes that start at 0, element i goes to lane i mod 8 by a fused
// multiply-add, a tail is treated as if it were padded with zeros, and the lanes s0 … s7 are reduced as ((s0+s4) +
// (s2+s6)) + ((s1+s5) + (s3+s7)). Only the sign and payload of a NaN may differ.
//
// Functions panic on shapes that do not fit. They keep no state; concurrent calls are safe as long as they write to
// different memory.
// The package knows nothing of losses, models or rows, and starts no goroutines.
package dense

// MulAdd adds to m columns of n numbers the product of rows lo … lo+n−1 of the columns a with coef:
//
//	dst[c·stride+i] += Σ_r a[r][lo+i] · coef[r·m+c],  0 ≤ c < m, 0 ≤ i < n
//
// where a holds k columns and coef is k×m, row-major. The terms are added in the order r = 0 … k−1, one fused
// multiply-add each. A zero in coef is not skipped, since 0·∞ is NaN. dst must not overlap a or coef. Cost: 2·k·m·n
// flops; the rows of a come from memory once.
func MulAdd(dst []float64, stride int, a [][]float64, lo, n int, coef []float64, m int) {
	checkColumns(a, lo, n)
	checkTile(dst, stride, n, m)
	if len(coef) < len(a)*m {
		panic("dense: coef is shorter than k×m")
	}
	if n > 0 && m > 0 && len(a) > 0 {
		mulAdd(dst, stride, a, lo, n, coef, m)
	}
}

// DotAdd adds to dst (k×m, row-major) the products of rows lo … lo+n−1 of the k columns a with the m columns of b:
//
//	dst[r·m+c] += Σ_i a[r][lo+i] · b[c·stride+i],  0 ≤ i < n
//
// Each sum is formed in eight lanes as the package comment says, then added. dst must not overlap a or b. Cost:
// 2·k·m·n flops.
func DotAdd(dst []float64, a [][]float64, lo, n int, b []float64, stride, m int) {
	checkColumns(a, lo, n)
	checkTile(b, stride, n, m)
	if len(dst) < len(a)*m {
		panic("dense: dst is shorter than k×m")
	}
	if m > 0 && len(a) > 0 {
		dotAdd(dst, a, lo, n, b, stride, m)
	}
}

// AddScaled adds f·x to dst, element by element with one fused multiply-add. dst may be x.
func AddScaled(dst []float64, f float64, x []float64) {
	if len(dst) != len(x) {
		panic("dense: AddScaled of slices of unequal length")
	}
	if len(x) > 0 {
		addScaled(dst, f, x)
	}
}

// ScaleAdd stores f·dst + x in dst, element by element with one fused multiply-add. dst may be x.
func ScaleAdd(dst []float64, f float64, x []float64) {
	if len(dst) != len(x) {
		panic("dense: ScaleAdd of slices of unequal length")
	}
	if len(x) > 0 {
		scaleAdd(dst, f, x)
	}
}

// AddScaledProduct adds f·(x·y) to dst, element by element: the product is rounded, then comes one fused
// multiply-add. dst may be x or y.
func AddScaledProduct(dst []float64, f float64, x, y []float64) {
	if len(dst) != len(x) || len(dst) != len(y) {
		panic("dense: AddScaledProduct of slices of unequal length")
	}
	if len(x) > 0 {
		addScaledProduct(dst, f, x, y)
	}
}

// Dot returns Σ_i x[i]·y[i], formed in eight lanes as the package comment says.
func Dot(x, y []float64) float64 {
	if len(x) != len(y) {
		panic("dense: Dot of slices of unequal length")
	}
	if len(x) == 0 {
		return 0
	}
	return dot(x, y)
}

func checkColumns[T float32 | float64](a [][]T, lo, n int) {
	if lo < 0 || n < 0 {
		panic("dense: negative range of rows")
	}
	for _, column := range a {
		if len(column)-lo < n {
			panic("dense: column ends before the range of rows")
		}
	}
}

func checkTile[T float32 | float64](tile []T, stride, n, m int) {
	if m < 0 || m > 1 && stride < n {
		panic("dense: columns of the tile overlap")
	}
	if m > 0 && len(tile) < (m-1)*stride+n {
		panic("dense: tile is shorter than its columns")
	}
}
