package penalty

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
)

// proxCurved replaces row by argmin_z Σ_c ½ a_c (z_c − row_c)² + t ‖z‖, the proximal operator with a separate metric
// for each output, a > 0. before is a guess of z, of which L1L2 takes the length to begin with.
func (p Penalty) ProxCurved(row, a []float64, t float64, before []float64) {
	a = a[:len(row)]
	dual := 0.0 // the dual norm of a∘row: the row vanishes up to t
	switch p {
	case L1:
		for c, x := range row {
			if size := math.Abs(x) - t/a[c]; size > 0 {
				row[c] = math.Copysign(size, x)
			} else {
				row[c] = 0
			}
		}
		return
	case L1L2:
		steepest := 0.0
		for c, x := range row {
			dual += (a[c] * x) * (a[c] * x)
			steepest = max(steepest, a[c])
		}
		if dual = math.Sqrt(dual); dual > t {
			length := curvedLength(row, a, t, (dual-t)/steepest, min(dense.Norm2(before), dense.Norm2(row)))
			for c, x := range row {
				row[c] = x * (a[c] * length / (a[c]*length + t))
			}
			return
		}
	case L1Linf:
		for c, x := range row {
			dual += a[c] * math.Abs(x)
		}
		if dual > t {
			level := curvedLevel(row, a, t)
			for c, x := range row {
				row[c] = math.Copysign(min(math.Abs(x), level), x)
			}
			return
		}
	}
	clear(row)
}

// curvedLength returns the length of the minimum for L1L2, which solves Σ (a_c u_c / (a_c length + t))² = 1. Newton's
// method on the inverse root of the left side, which is concave and nearly linear (as for trust regions), rises to it
// from below; a step from above lands there. The length is at least low.
func curvedLength(u, a []float64, t, low, guess float64) float64 {
	const most = 50 // two or three do
	length := max(low, guess)
	for range most {
		sum, slope := 0.0, 0.0
		for c, x := range u {
			d := 1 / (a[c]*length + t)
			q := a[c] * x * d
			sum += q * q
			slope += q * q * a[c] * d
		}
		step := sum * (math.Sqrt(sum) - 1) / slope
		length = max(low, length+step)
		if !(math.Abs(step) > 1e-7*length) { // the next step would be about the square of this one
			break
		}
	}
	return length
}

// curvedLevel returns the largest magnitude of the minimum for L1Linf, which solves Σ a_c (|u_c| − level)₊ = t: the set
// of outputs above the level only shrinks, as in l1BallThreshold.
func curvedLevel(u, a []float64, t float64) float64 {
	level := 0.0
	for range len(u) {
		sum, total := -t, 0.0
		for c, x := range u {
			if size := math.Abs(x); size > level {
				sum += a[c] * size
				total += a[c]
			}
		}
		next := sum / total
		if !(next > level) {
			break
		}
		level = next
	}
	return level
}
