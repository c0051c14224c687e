package rowmath

import (
	"math"
	"slices"
)

// Lanes is how many outputs of a candidate, and how many candidates, are computed at once: four sums hide the latency
// of additions.
const Lanes = 4

// Dots stores Σ_r h_r w_r of each of so many rows, which begin stride numbers after one another. Four rows are taken
// at a time, so that additions wait for each other less; each is added up in the same order at every position.
func Dots(dst, rows []float64, stride int, w []float64) {
	k, at, i := len(w), 0, 0
	for ; i+Lanes <= len(dst); i, at = i+Lanes, at+Lanes*stride {
		a, b, c, d := rows[at:at+k], rows[at+stride:at+stride+k], rows[at+2*stride:at+2*stride+k], rows[at+3*stride:at+
			3*stride+k]
		var a0, b0, c0, d0, a1, b1, c1, d1 float64
		v := w
		for len(v) >= 2 && len(a) >= 2 && len(b) >= 2 && len(c) >= 2 && len(d) >= 2 {
			x, y := v[0], v[1]
			a0 += a[0] * x
			b0 += b[0] * x
			c0 += c[0] * x
			d0 += d[0] * x
			a1 += a[1] * y
			b1 += b[1] * y
			c1 += c[1] * y
			d1 += d[1] * y
			v, a, b, c, d = v[2:], a[2:], b[2:], c[2:], d[2:]
		}
		if len(v) == 1 {
			x := v[0]
			a0 += a[0] * x
			b0 += b[0] * x
			c0 += c[0] * x
			d0 += d[0] * x
		}
		*(*[Lanes]float64)(dst[i:]) = [Lanes]float64{a0 + a1, b0 + b1, c0 + c1, d0 + d1}
	}
	for ; i < len(dst); i, at = i+1, at+stride {
		var a0, a1 float64
		a, v := rows[at:at+k], w
		for ; len(v) >= 2 && len(a) >= 2; v, a = v[2:], a[2:] {
			a0 += a[0] * v[0]
			a1 += a[1] * v[1]
		}
		if len(v) == 1 {
			a0 += a[0] * v[0]
		}
		dst[i] = a0 + a1
	}
}

// SquareDots is dots for Σ_r h_r (w_r + h_r v_r).
func SquareDots(dst, rows []float64, stride int, w, v []float64) {
	k, at, i := len(w), 0, 0
	v = v[:k]
	for ; i+Lanes <= len(dst); i, at = i+Lanes, at+Lanes*stride {
		a, b, c, d := rows[at:at+k], rows[at+stride:at+stride+k], rows[at+2*stride:at+2*stride+k], rows[at+3*stride:at+
			3*stride+k]
		var sa, sb, sc, sd float64
		for r, x := range w {
			y, ha, hb, hc, hd := v[r], a[r], b[r], c[r], d[r]
			sa += ha * (x + ha*y)
			sb += hb * (x + hb*y)
			sc += hc * (x + hc*y)
			sd += hd * (x + hd*y)
		}
		*(*[Lanes]float64)(dst[i:]) = [Lanes]float64{sa, sb, sc, sd}
	}
	for ; i < len(dst); i, at = i+1, at+stride {
		sum, a := 0.0, rows[at:at+k]
		for r, x := range w {
			sum += a[r] * (x + a[r]*v[r])
		}
		dst[i] = sum
	}
}

// Cubes4 stores Σ_r h_r (w_r + h_r (q_r + h_r v_r)) of four outputs.
func Cubes4(out, row, cross, square, cube []float64) {
	var a0, a1, a2, a3 float64
	for _, h := range row {
		w, q, v := (*[Lanes]float64)(cross), (*[Lanes]float64)(square), (*[Lanes]float64)(cube)
		a0 += h * (w[0] + h*(q[0]+h*v[0]))
		a1 += h * (w[1] + h*(q[1]+h*v[1]))
		a2 += h * (w[2] + h*(q[2]+h*v[2]))
		a3 += h * (w[3] + h*(q[3]+h*v[3]))
		cross, square, cube = cross[Lanes:], square[Lanes:], cube[Lanes:]
	}
	*(*[Lanes]float64)(out) = [Lanes]float64{a0, a1, a2, a3}
}

// CubeDots is dots for Σ_r h_r (w_r + h_r (q_r + h_r v_r)).
func CubeDots(dst, rows []float64, stride int, w, q, v []float64) {
	k, at := len(w), 0
	q, v = q[:k], v[:k]
	for i := range dst {
		even, odd, row := 0.0, 0.0, rows[at:at+k]
		r := 0
		for ; r+2 <= k; r += 2 { // two sums, so that additions wait for each other less
			h, g := row[r], row[r+1]
			even += h * (w[r] + h*(q[r]+h*v[r]))
			odd += g * (w[r+1] + g*(q[r+1]+g*v[r+1]))
		}
		if r < k {
			h := row[r]
			even += h * (w[r] + h*(q[r]+h*v[r]))
		}
		dst[i] = even + odd
		at += stride
	}
}

// RateLanes are the same number of three rates: they are worked on side by side, which hides the latency of additions.
type RateLanes = [LaneCount]float64

const LaneCount = 3

// Resized returns a slice of length n, in the memory of s if that is enough. Its contents do not matter.
func Resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// LogSumExp returns log Σ exp(v) without overflow.
func LogSumExp(v []float64) float64 {
	top, total := slices.Max(v), 0.0
	for _, x := range v {
		total += math.Exp(x - top)
	}
	return top + math.Log(total)
}

// Dot returns Σ h_r w_r.
func Dot(row, w []float64) float64 {
	var a0, a1, a2, a3 float64
	for len(row) >= 4 && len(w) >= 4 {
		a0 += row[0] * w[0]
		a1 += row[1] * w[1]
		a2 += row[2] * w[2]
		a3 += row[3] * w[3]
		row, w = row[4:], w[4:]
	}
	for r, h := range row {
		a0 += h * w[r]
	}
	return (a0 + a1) + (a2 + a3)
}

// CloseTo reports whether numbers agree within a tolerance relative to 1 + |want|.
func CloseTo(got, want []float64, tolerance float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= tolerance*(1+math.Abs(w))) {
			return false
		}
	}
	return true
}

// AddRow adds the linear weights of a column of value x to dst, its coordinates to sum and their squares to squares.
func AddRow(dst, sum, squares, basis, linear []float64, x float64) {
	AddLinear(dst, linear, x)
	sum, squares = sum[:len(basis)], squares[:len(basis)]
	for r, h := range basis {
		a := h * x
		sum[r] += a
		squares[r] += a * a
	}
}

func AddLinear(dst, linear []float64, x float64) {
	dst = dst[:len(linear)]
	for o, w := range linear {
		dst[o] += w * x
	}
}

// AddKernels adds Σ_r V[r,c] kern_r to each output, r ascending, several outputs at a time: sums in registers are
// quicker than in memory.
func AddKernels(dst, kern, weights []float64) {
	numOut, o := len(dst), 0
	for ; o+4 <= numOut && o+5 != numOut; o += 4 {
		a, at := (*[4]float64)(dst[o:]), o
		a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
		for _, v := range kern {
			w := (*[4]float64)(weights[at:])
			a0 += w[0] * v
			a1 += w[1] * v
			a2 += w[2] * v
			a3 += w[3] * v
			at += numOut
		}
		a[0], a[1], a[2], a[3] = a0, a1, a2, a3
	}
	if o+5 == numOut { // one alone takes as long as four
		a, at := (*[5]float64)(dst[o:]), o
		a0, a1, a2, a3, a4 := a[0], a[1], a[2], a[3], a[4]
		for _, v := range kern {
			w := (*[5]float64)(weights[at:])
			a0 += w[0] * v
			a1 += w[1] * v
			a2 += w[2] * v
			a3 += w[3] * v
			a4 += w[4] * v
			at += numOut
		}
		a[0], a[1], a[2], a[3], a[4] = a0, a1, a2, a3, a4
		return
	}
	for ; o < numOut; o++ {
		a, at := dst[o], o
		for _, v := range kern {
			a += weights[at] * v
			at += numOut
		}
		dst[o] = a
	}
}

// Softmax returns exp(o_c) / Σ exp(o); largest is the largest o and keeps exp from overflowing.
func Softmax(o []float64, largest float64) []float64 {
	p, total := slices.Clone(o), 0.0
	for c, v := range p {
		p[c] = math.Exp(v - largest)
		total += p[c]
	}
	for c := range p {
		p[c] /= total
	}
	return p
}

// Sigmoid returns 1/(1 + exp(−x)) without overflow.
func Sigmoid(x float64) float64 {
	e := math.Exp(-math.Abs(x))
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

// Cross4 stores Σ_r h_r w_r of four outputs.
func Cross4(out, row, cross []float64) {
	var a0, a1, a2, a3 float64
	for _, h := range row {
		w := (*[Lanes]float64)(cross)
		a0 += h * w[0]
		a1 += h * w[1]
		a2 += h * w[2]
		a3 += h * w[3]
		cross = cross[Lanes:]
	}
	*(*[Lanes]float64)(out) = [Lanes]float64{a0, a1, a2, a3}
}

// Squares4 stores Σ_r h_r (w_r + h_r v_r) of four outputs.
func Squares4(out, row, cross, square []float64) {
	var a0, a1, a2, a3 float64
	for _, h := range row {
		w, v := (*[Lanes]float64)(cross), (*[Lanes]float64)(square)
		a0 += h * (w[0] + h*v[0])
		a1 += h * (w[1] + h*v[1])
		a2 += h * (w[2] + h*v[2])
		a3 += h * (w[3] + h*v[3])
		cross, square = cross[Lanes:], square[Lanes:]
	}
	*(*[Lanes]float64)(out) = [Lanes]float64{a0, a1, a2, a3}
}

// Largest returns the largest magnitude of numbers.
func Largest(v []float64) float64 {
	most := 0.0
	for _, x := range v {
		most = max(most, math.Abs(x))
	}
	return most
}
