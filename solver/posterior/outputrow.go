package posterior

import "math"

// OutputEvidence is what examples say about the row of one feature under separate outputs: the precision, as far as it
// is not zero, and the right side. The blocks are laid out like a covariance.
type OutputEvidence struct {
	linear []float64 // m, the diagonal of the linear weights
	cross  []float64 // m×k
	basis  []float64 // packed k×k
	right  []float64 // m+k
}

// NewOutputEvidence returns the evidence in the given storage.
func NewOutputEvidence(precision, right []float64, m, k int) OutputEvidence {
	return OutputEvidence{linear: precision[:m], cross: precision[m : m+m*k], basis: precision[m+m*k:], right: right}
}

// OutputSolver turns evidence and prior into a row's posterior: the linear weights are eliminated first (their block is
// diagonal), so that the cost is O(m·k² + k³) instead of O((m+k)³).
type OutputSolver struct {
	m, k   int
	factor []float64 // packed k×k
	spare  []float64 // packed k×k
	y      []float64 // k
}

func NewOutputSolver(m, k int) *OutputSolver {
	return &OutputSolver{
		m:      m,
		k:      k,
		factor: make([]float64, PackedSize(k)),
		spare:  make([]float64, PackedSize(k)),
		y:      make([]float64, k),
	}
}

// Finish stores the posterior mean, unless covariance is nil the covariance, and unless logDet is nil the covariance's
// log determinant.
// What rounding spoils is dealt with as in RowSolver.finish.
func (s *OutputSolver) Finish(a *OutputEvidence, prior, mean, covariance []float64, logDet *float64) {
	m, k := s.m, s.k
	h := mean[m:]
	copy(s.factor, a.basis)
	copy(mean, a.right)
	for r := range k {
		s.factor[r*(r+1)/2+r] += prior[m+r]
	}
	for c, v := range a.linear {
		scale, cross := 1/(v+prior[c]), a.cross[c*k:c*k+k]
		AddOuter(s.factor, -scale, cross)
		for r, w := range cross {
			h[r] -= scale * w * a.right[c]
		}
	}
	if !s.factorise() {
		mean[0] = math.NaN()
		return
	}
	SolveCholesky(s.factor, k, h)
	for c, v := range a.linear {
		for r, w := range a.cross[c*k : c*k+k] {
			mean[c] -= w * h[r]
		}
		mean[c] /= v + prior[c]
	}
	if logDet != nil {
		*logDet = -LogDetCholesky(s.factor, k)
		for c, v := range a.linear {
			*logDet -= math.Log(v + prior[c])
		}
	}
	if covariance == nil {
		return
	}
	basis := covariance[m+m*k:]
	InvertCholesky(basis, s.factor, k)
	for c, v := range a.linear {
		scale, cross := 1/(v+prior[c]), a.cross[c*k:c*k+k]
		Multiply(s.y, basis, cross)
		covariance[c] = scale
		to := covariance[m+c*k:]
		for r, w := range s.y {
			to[r] = -scale * w
			covariance[c] += scale * scale * w * cross[r]
		}
	}
}

// factorise replaces factor by its Cholesky factor, raising the diagonal if rounding defeats it.
func (s *OutputSolver) factorise() bool {
	copy(s.spare, s.factor)
	for lift := 1e-12; !Cholesky(s.factor, s.k); lift *= 100 {
		if lift > 1 {
			return false
		}
		for r := range s.k {
			i := r*(r+1)/2 + r
			s.spare[i] += lift * (1 + math.Abs(s.spare[i]))
		}
		copy(s.factor, s.spare)
	}
	return true
}

// Restore is the inverse of finish: it stores the evidence that led from the prior to a posterior, or zero for
// a covariance at the edge of rounding.
func (s *OutputSolver) Restore(a *OutputEvidence, prior, mean, covariance []float64) {
	m, k := s.m, s.k
	copy(s.factor, covariance[m+m*k:])
	ok := Cholesky(s.factor, k)
	if ok {
		// With the precision (A_ww, A_wh; A_hw, A_hh) of a posterior, C_hh⁻¹ = A_hh − A_hw A_ww⁻¹ A_wh and C_wh
		// = −A_ww⁻¹ A_wh C_hh.
		InvertCholesky(a.basis, s.factor, k)
	}
	for c := 0; ok && c < m; c++ {
		cross := covariance[m+c*k : m+c*k+k]
		Multiply(s.y, a.basis, cross)
		left := covariance[c]
		for r, w := range s.y {
			left -= w * cross[r]
		}
		if ok = left > 0; ok {
			a.linear[c] = 1 / left
			for r, w := range s.y {
				a.cross[c*k+r] = -w / left
			}
		}
	}
	if !ok {
		clear(a.linear)
		clear(a.cross)
		clear(a.basis)
		clear(a.right)
		return
	}
	for c, v := range a.linear {
		AddOuter(a.basis, 1/v, a.cross[c*k:c*k+k])
	}
	Multiply(a.right[m:], a.basis, mean[m:])
	for c, v := range a.linear {
		a.right[c] = v * mean[c]
		for r, w := range a.cross[c*k : c*k+k] {
			a.right[c] += w * mean[m+r]
			a.right[m+r] += w * mean[c]
		}
		a.linear[c] -= prior[c]
	}
	for r := range k {
		a.basis[r*(r+1)/2+r] -= prior[m+r]
	}
}
