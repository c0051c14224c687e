package penalty

import (
	"fmt"
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
)

// Penalty is the sparsity-inducing norm Ω over the rows of the output weights V (Blondel et al. 2017, table 1). Row r
// of V belongs to basis vector r, so a row of zeros removes that vector.
type Penalty uint8

const (
	// L1 is Σ|v|, the lasso: basis vectors serve single outputs.
	L1 Penalty = iota + 1
	// L1L2 is Σ_r ‖v_r‖₂, the group lasso: basis vectors are shared by the outputs.
	L1L2
	// L1Linf is Σ_r ‖v_r‖∞: shared, with weights of like magnitude.
	L1Linf
)

// String returns the name used in configuration, flags and manifests.
func (p Penalty) String() string {
	switch p {
	case L1:
		return "l1"
	case L1L2:
		return "l1l2"
	case L1Linf:
		return "l1linf"
	}
	return fmt.Sprintf("penalty(%d)", uint8(p))
}

// Norm returns Ω(V) of the k×m row-major matrix v.
func (p Penalty) Norm(v []float64, k, m int) float64 {
	sum := 0.0
	for r := range k {
		sum += p.RowNorm(v[r*m : r*m+m])
	}
	return sum
}

// DualNorm returns Ω*(G) of the k×m row-major matrix g: the largest dual norm of a row.
func (p Penalty) DualNorm(g []float64, k, m int) float64 {
	largest := 0.0
	for r := range k {
		largest = max(largest, p.RowDual(g[r*m:r*m+m]))
	}
	return largest
}

// RowNorm returns the norm of one row of V: the penalty of that basis vector.
func (p Penalty) RowNorm(row []float64) float64 {
	switch p {
	case L1:
		return dense.Norm1(row)
	case L1L2:
		return dense.Norm2(row)
	}
	return dense.NormInf(row)
}

// RowDual returns the dual norm of one row: max|q| for L1, ‖q‖₂ for L1L2, Σ|q| for L1Linf. It is the criterion of basis
// selection, equation (4), at the row q of gradients of a basis vector.
func (p Penalty) RowDual(row []float64) float64 {
	switch p {
	case L1:
		return dense.NormInf(row)
	case L1L2:
		return dense.Norm2(row)
	}
	return dense.Norm1(row)
}

// Prox replaces the k×m row-major matrix v by argmin_Z ½‖Z − V‖² + t Ω(Z), t ≥ 0. Rows and entries that
// vanish become exactly 0.
func (p Penalty) Prox(v []float64, k, m int, t float64) {
	for r := range k {
		p.ProxRow(v[r*m:r*m+m], t)
	}
}

func (p Penalty) ProxRow(row []float64, t float64) {
	switch p {
	case L1:
		softThreshold(row, t)
	case L1L2:
		norm := dense.Norm2(row)
		if norm <= t {
			clear(row)
			return
		}
		scale := 1 - t/norm
		for c := range row {
			row[c] *= scale
		}
	case L1Linf:
		// Moreau: v − P(v) with P the projection onto the ℓ1 ball of radius t clips |v| at the threshold of that
		// projection.
		level := l1BallThreshold(row, t)
		for c, v := range row {
			row[c] = math.Copysign(min(math.Abs(v), level), v)
		}
		if level == 0 {
			clear(row)
		}
	}
}

// ProjectL1Ball replaces v by its Euclidean projection onto {‖v‖₁ ≤ radius}.
func ProjectL1Ball(v []float64, radius float64) {
	if dense.Norm1(v) > radius {
		softThreshold(v, l1BallThreshold(v, radius))
	}
}

// l1BallThreshold returns θ ≥ 0 with Σ max(|v| − θ, 0) = radius, or 0 if ‖v‖₁ ≤ radius. Michelot 1986: the candidate
// set only shrinks, so it ends after at most len(v) passes and needs no memory.
func l1BallThreshold(v []float64, radius float64) float64 {
	theta, count := 0.0, -1
	if dense.Norm1(v) <= radius {
		return 0
	}
	for {
		sum, above := 0.0, 0
		for _, x := range v {
			if a := math.Abs(x); a > theta || count < 0 {
				sum += a
				above++
			}
		}
		// Above is 0 only if radius is 0 and rounding lifted theta to the largest entry: the threshold is then that
		// entry. Rounding may also lower theta by a hair and let an entry in again, for ever if that did not end it.
		if count >= 0 && above >= count || above == 0 {
			return theta
		}
		theta, count = max(0, (sum-radius)/float64(above)), above
	}
}

func softThreshold(v []float64, t float64) {
	for c, x := range v {
		switch {
		case x > t:
			v[c] = x - t
		case x < -t:
			v[c] = x + t
		default:
			v[c] = 0
		}
	}
}
