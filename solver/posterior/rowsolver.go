package posterior

import (
	"math"

	"github.com/refitd/refitd/solver/internal/dense"
)

// RowSolver accumulates the normal equations of one feature's posterior row and solves them. It is reused from feature
// to feature.
type RowSolver struct {
	Evidence []float64 // packed q×q: the precision without the prior's
	Right    []float64 // q
	Q        int

	square []float64 // q rows of stride: the precision, the right side in the column after it, zeros
	stride int
	pivots []float64
	lifted []float64
	zero   []float64
}

func NewSolver(q int) *RowSolver {
	const eight = 8 // what rows of Sweep are multiples of
	stride := (q + eight) / eight * eight
	return &RowSolver{Evidence: make([]float64, PackedSize(q)), Right: make([]float64, q), Q: q,
		square: make([]float64,
			q*stride), stride: stride, pivots: make([]float64, q), lifted: make([]float64, q), zero: make([]float64, q)}
}

// Start forgets all evidence.
func (s *RowSolver) Start() {
	clear(s.Evidence)
	clear(s.Right)
}

// Finish is solve for what was accumulated.
func (s *RowSolver) Finish(prior, mean, covariance []float64, logDet *float64) {
	s.Solve(s.Evidence, s.Right, prior, mean, covariance, logDet)
}

// Solve stores the posterior mean, the packed covariance unless it is nil and, unless logDet is nil, the covariance's
// log determinant. The precision is the prior's positive diagonal plus evidence, a sum of positive semidefinite terms;
// if rounding still defeats the elimination the diagonal is raised, which only makes the update more cautious. Numbers
// that are not finite come out as NaN, which the caller reports.
func (s *RowSolver) Solve(evidence, right, prior, mean, covariance []float64, logDet *float64) {
	for lift := 1e-12; !s.eliminate(evidence, right, prior); lift *= 100 {
		if lift > 1 {
			mean[0] = math.NaN()
			if covariance != nil {
				covariance[0] = math.NaN()
			}
			return
		}
		for i, d := range prior {
			s.lifted[i] = d + lift*(1+d+evidence[i*(i+1)/2+i])
		}
		prior = s.lifted
	}
	if logDet != nil {
		*logDet = 0
		for _, p := range s.pivots {
			*logDet -= math.Log(p)
		}
	}
	s.read(mean, covariance)
}

// Restore is the inverse of solve: it stores the evidence and right side that lead to a mean and a packed covariance,
// zeros if the covariance is not positive definite.
func (s *RowSolver) Restore(evidence, right, prior, mean, covariance []float64) {
	if !s.eliminate(covariance, mean, s.zero) {
		clear(evidence)
		clear(right)
		return
	}
	s.read(right, evidence)
	for i, d := range prior {
		evidence[i*(i+1)/2+i] -= d
	}
}

// read stores the solution that eliminate left in square, and the packed inverse unless it is nil.
func (s *RowSolver) read(solution, inverse []float64) {
	rest := s.square
	for i := range solution {
		solution[i] = rest[s.Q]
		if inverse != nil {
			out := inverse[:i+1]
			//lint:ignore S1001 rows are too short to be worth a call of copy
			for j, v := range rest[:i+1] {
				out[j] = v
			}
			inverse = inverse[i+1:]
		}
		rest = rest[s.stride:]
	}
}

// eliminate inverts the precision in square, together with the solution. It reports false if the precision is not
// positive definite.
func (s *RowSolver) eliminate(evidence, right, prior []float64) bool {
	square, stride := s.square, s.stride
	for i, d := range prior {
		row, line, at := evidence[:i], square[i*stride:], i
		line[s.Q], line[i] = right[i], evidence[i]+d
		line = line[:i]
		for j, v := range row {
			line[j] = v
			square[at] = v
			at += stride
		}
		evidence = evidence[i+1:]
	}
	dense.Sweep(square, stride, s.pivots)
	for _, p := range s.pivots {
		if !(p > 0) || math.IsInf(p, 1) {
			clear(square) // NaN would stay in the columns after the right side
			return false
		}
	}
	return true
}
