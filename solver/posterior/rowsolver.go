package posterior

import "math"

// rowSolver accumulates the normal equations of one feature's posterior row and solves them. It is reused from feature to feature.
type rowSolver struct {
	precision []float64 // packed q×q
	right     []float64 // q
	q         int
}

func newSolver(q int) *rowSolver {
	return &rowSolver{precision: make([]float64, packedSize(q)), right: make([]float64, q), q: q}
}

// start begins with the prior precision d.
func (s *rowSolver) start(d []float64) {
	clear(s.precision)
	clear(s.right)
	for i, v := range d {
		s.precision[i*(i+1)/2+i] = v
	}
}

// finish stores the posterior mean and packed covariance and, unless logDet is nil, the covariance's log determinant. The precision is a
// positive diagonal plus a sum of positive semidefinite terms; if rounding still defeats the factorisation the diagonal is raised,
// which only makes the update more cautious. Numbers that are not finite come out as NaN, which the caller reports.
func (s *rowSolver) finish(mean, covariance []float64, logDet *float64) {
	factor := covariance // factor in place, then invert into the precision's storage and copy back
	copy(factor, s.precision)
	for lift := 1e-12; !cholesky(factor, s.q); lift *= 100 {
		if lift > 1 {
			mean[0], covariance[0] = math.NaN(), math.NaN()
			return
		}
		copy(factor, s.precision)
		for i := range s.q {
			k := i*(i+1)/2 + i
			s.precision[k] += lift * (1 + s.precision[k])
			factor[k] = s.precision[k]
		}
	}
	if logDet != nil {
		*logDet = -logDetCholesky(factor, s.q)
	}
	copy(mean, s.right)
	solveCholesky(factor, s.q, mean)
	invertCholesky(s.precision, factor, s.q)
	copy(covariance, s.precision)
}
