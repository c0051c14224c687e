package posterior

import "math"

// Symmetric q×q matrices are stored packed: element (i, j) with j ≤ i at i(i+1)/2 + j, so the rows of a lower
// triangle are contiguous.

// PackedSize returns the length of a packed symmetric matrix of order q.
func PackedSize(q int) int { return q * (q + 1) / 2 }

// Cholesky overwrites the packed positive definite a with its lower factor L. It reports false, leaving a undefined, if
// a pivot is not positive and finite. O(q³/6).
func Cholesky(a []float64, q int) bool {
	for i, row := 0, 0; i < q; i, row = i+1, row+i+1 {
		ai := a[row : row+i+1]
		for j, rj := 0, 0; j < i; j, rj = j+1, rj+j+1 {
			aj := a[rj : rj+j+1]
			s := ai[j]
			for l, v := range aj[:j] {
				s -= v * ai[l]
			}
			ai[j] = s / aj[j]
		}
		s := ai[i]
		for _, v := range ai[:i] {
			s -= v * v
		}
		if !(s > 0) || math.IsInf(s, 1) {
			return false
		}
		ai[i] = math.Sqrt(s)
	}
	return true
}

// SolveCholesky overwrites b with (L Lᵀ)⁻¹ b.
func SolveCholesky(l []float64, q int, b []float64) {
	for i, row := 0, 0; i < q; i, row = i+1, row+i+1 {
		s := b[i]
		for j, v := range l[row : row+i] {
			s -= v * b[j]
		}
		b[i] = s / l[row+i]
	}
	for i := q - 1; i >= 0; i-- {
		row := i * (i + 1) / 2
		b[i] /= l[row+i]
		t := b[i]
		for j, v := range l[row : row+i] {
			b[j] -= v * t
		}
	}
}

// InvertCholesky stores (L Lᵀ)⁻¹ packed in dst, which must not overlap l; l is overwritten with L⁻¹. O(q³/3).
func InvertCholesky(dst, l []float64, q int) {
	for i, row := 0, 0; i < q; i, row = i+1, row+i+1 {
		li := l[row : row+i+1]
		d := 1 / li[i]
		// Row i of L⁻¹ is −(1/l_ii) Σ_{j<i} l_ij (row j of L⁻¹), accumulated from the left so that l_ij is
		// read before it is overwritten.
		for j, rj := 0, 0; j < i; j, rj = j+1, rj+j+1 {
			f := -li[j] * d
			inv := l[rj : rj+j+1]
			for c, v := range inv[:j] {
				li[c] += f * v
			}
			li[j] = f * inv[j]
		}
		li[i] = d
	}
	clear(dst[:PackedSize(q)])
	for r, row := 0, 0; r < q; r, row = r+1, row+r+1 {
		lr := l[row : row+r+1]
		for i, ri := 0, 0; i <= r; i, ri = i+1, ri+i+1 {
			f := lr[i]
			out := dst[ri : ri+i+1]
			for j, v := range lr[:i+1] {
				out[j] += f * v
			}
		}
	}
}

// LogDetCholesky returns log det(L Lᵀ).
func LogDetCholesky(l []float64, q int) float64 {
	s := 0.0
	for i, k := 0, 0; i < q; i, k = i+1, k+i+2 {
		s += math.Log(l[k])
	}
	return 2 * s
}

// Quadratic returns vᵀ a v for the packed a.
func Quadratic(a []float64, v []float64) float64 {
	s := 0.0
	for i, row := 0, 0; i < len(v); i, row = i+1, row+i+1 {
		t := 0.0
		for j, x := range a[row : row+i] {
			t += x * v[j]
		}
		s += v[i] * (2*t + a[row+i]*v[i])
	}
	return s
}

// Multiply stores a v in dst for the packed a.
func Multiply(dst, a, v []float64) {
	clear(dst[:len(v)])
	for i, row := 0, 0; i < len(v); i, row = i+1, row+i+1 {
		t := 0.0
		for j, x := range a[row : row+i] {
			t += x * v[j]
			dst[j] += x * v[i]
		}
		dst[i] += t + a[row+i]*v[i]
	}
}

// AddOuter adds w·v vᵀ to the packed a.
func AddOuter(a []float64, w float64, v []float64) {
	for i, row := 0, 0; i < len(v); i, row = i+1, row+i+1 {
		f := w * v[i]
		out := a[row : row+i+1]
		for j, x := range v[:i+1] {
			out[j] += f * x
		}
	}
}
