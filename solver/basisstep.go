package solver

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/linear"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

const (
	// movedVectors is how many basis vectors a step of Settings.MoveBasis moves: those of the largest weights. All
	// twenty of a model of ML-1M gain twice as much as five, in three times the time.
	movedVectors = 5
	// stepHalvings bounds how often a step that does not lower the objective is halved.
	stepHalvings = 3
)

// moveBasis takes a step on the basis vectors of largest weights, down the slope of the loss in them along the sphere
// of their length, each coordinate scaled by a bound of its curvature: weights and penalty stay. It takes what score
// has left, and leaves the same of the point it moves to. A step that does not lower the loss is halved, then dropped.
// It does nothing for kernels of degree 3 and for eigenvectors of a ConvexFM.
func (r *refits) moveBasis() {
	if r.k == 0 || r.s.Kernel.Degree() != 2 || r.spectrum != nil || r.workers.Cancelled() {
		return
	}
	step := newBasisStep(&r.current)
	if step.slopes(); r.workers.Cancelled() {
		return
	}
	pred := make([]float64, len(r.pred))
	for halving := range stepHalvings {
		loss := step.try(pred, math.Exp2(-float64(halving)))
		if r.workers.Cancelled() {
			return
		}
		if loss < r.loss {
			for c, b := range step.chosen {
				r.basis[b], r.output.Phi[b] = step.moved[c], step.phi[c]
			}
			r.pred, r.loss = pred, loss
			r.total()
			return
		}
	}
	linear.RowLosses(r.workers, r.p, r.pred, r.gamma.Grad)
}

// basisStep is one step on some basis vectors. Rows of its matrices are features, columns the vectors chosen.
type basisStep struct {
	*current
	chosen []int
	from   Model       // the vectors before the step, with their weights
	slope  []float64   // d×c: of the loss along the sphere
	bound  []float64   // d×c: of its curvature
	moved  [][]float64 // c vectors of length d, after the step that was tried last
	phi    [][]float64 // their activations, n each
}

func newBasisStep(r *current) *basisStep {
	s := &basisStep{current: r}
	for b := range r.k {
		s.chosen = append(s.chosen, b)
	}
	slices.SortStableFunc(s.chosen, func(a, b int) int { return cmp.Compare(r.weight(b), r.weight(a)) })
	s.chosen = s.chosen[:min(r.k, movedVectors)]
	s.from = Model{
		Kernel:     r.s.Kernel,
		NumBasis:   len(s.chosen),
		NumOutputs: r.m,
		Basis:      turned(r.basis, s.chosen, r.p.X.NumColumns),
	}
	for _, b := range s.chosen {
		s.from.Weights = append(s.from.Weights, r.v[b*r.m:b*r.m+r.m]...)
		s.phi = append(s.phi, make([]float64, r.p.X.NumRows()))
	}
	return s
}

// weight is the length of the weights of a basis vector.
func (r *current) weight(b int) float64 { return dense.Norm2(r.v[b*r.m : b*r.m+r.m]) }

// turned returns the d×c matrix of some vectors of length d.
func turned(vectors [][]float64, chosen []int, d int) []float64 {
	out := make([]float64, d*len(chosen))
	for c, b := range chosen {
		for j, x := range vectors[b] {
			out[j*len(chosen)+c] = x
		}
	}
	return out
}

// slopes sets slope and bound. With the gradients G (n×m) of the loss in the predictions and a_j = h_j x_ij, the slope
// in h_j is Σ_i G_i·v ∂K_i/∂h_j, where ∂K_i/∂h_j is 2 x_ij Σ_l a_l (homogeneous) or x_ij (Σ_l a_l − a_j) (ANOVA); its
// curvature is at most ‖v‖² Σ_i w_i κ (∂K_i/∂h_j)², where κ bounds that of the loss. At the best weights the slope
// points out of the sphere by a multiple of h, 2λ‖v‖ of it with ℓ1/ℓ2: what the sphere pulls back is taken off the
// slope and adds to the curvature, so that features of few rows take no long steps. O(nnz·c + n·c·m).
func (s *basisStep) slopes() {
	x, k, m := s.p.X, len(s.chosen), s.m
	n, d := x.NumRows(), x.NumColumns
	size := max(gamma.MinGammaBlock, (n+gamma.GammaBlocks-1)/gamma.GammaBlocks)
	parts := make([][]float64, (n+size-1)/size)
	s.workers.Blocks(n, size, func(_, b, lo, hi int) {
		part := make([]float64, 2*d*k)
		back, sum := make([]float64, k), make([]float64, k)
		for i := lo; i < hi; i++ {
			index, value := x.Row(i)
			grad, weight := s.gamma.Grad[i*m:i*m+m], s.p.Weight(i)
			for c := range back {
				back[c] = floats.Dot(grad, s.from.Weights[c*m:c*m+m])
			}
			clear(sum)
			for e, j := range index {
				for c, h := range s.from.Basis[int(j)*k : int(j)*k+k] {
					sum[c] += h * value[e]
				}
			}
			for e, j := range index {
				v := value[e]
				at := part[2*int(j)*k : 2*int(j)*k+2*k]
				slope, bound := at[:k], at[k:]
				for c, h := range s.from.Basis[int(j)*k : int(j)*k+k] {
					slip := v * (sum[c] - h*v)
					if s.from.Kernel == Homogeneous {
						slip = 2 * v * sum[c]
					}
					slope[c] += back[c] * slip
					bound[c] += weight * slip * slip
				}
			}
		}
		parts[b] = part
	})
	total := make([]float64, 2*d*k)
	parallel.SumInto(total, parts)
	curvature := s.p.Loss.Curvature(m)
	s.slope, s.bound = make([]float64, d*k), make([]float64, d*k)
	for c, b := range s.chosen {
		along, square := 0.0, 0.0
		for j, h := range s.basis[b] {
			along += total[2*j*k+c] * h
			square += h * h
		}
		if square == 0 {
			continue
		}
		pull := max(0, -along/square)
		for j, h := range s.basis[b] {
			s.slope[j*k+c] = total[2*j*k+c] + pull*h
			s.bound[j*k+c] = curvature*s.weight(b)*s.weight(b)*total[(2*j+1)*k+c] + pull
		}
	}
}

// try stores the predictions after a step of a length in trial and returns their loss, with its gradients in
// gamma.grad.
func (s *basisStep) try(trial []float64, length float64) float64 {
	d, k, m := s.p.X.NumColumns, len(s.chosen), s.m
	s.moved = make([][]float64, k)
	to := Model{Kernel: s.from.Kernel, NumBasis: k, Basis: make([]float64, d*k)}
	for c, b := range s.chosen {
		h := slices.Clone(s.basis[b])
		for j := range h {
			if bound := s.bound[j*k+c]; bound > 0 {
				h[j] -= length * s.slope[j*k+c] / bound
			}
		}
		if norm := dense.Norm2(h); norm > 0 && !math.IsInf(norm, 1) {
			floats.Scale(dense.Norm2(s.basis[b])/norm, h)
		}
		s.moved[c] = h
		for j, x := range h {
			to.Basis[j*k+c] = x
		}
	}
	s.workers.Blocks(s.p.X.NumRows(), problem.RowBlock(s.p.X.NumRows()), func(_, _, lo, hi int) {
		work := make([]float64, 2*k)
		for i := lo; i < hi; i++ {
			index, value := s.p.X.Row(i)
			to.Activations(work[:k], work[k:], index, value)
			at := trial[i*m : i*m+m]
			copy(at, s.pred[i*m:i*m+m])
			for c, phi := range work[:k] {
				s.phi[c][i] = phi
				floats.AddScaled(at, phi-s.output.Phi[s.chosen[c]][i], s.from.Weights[c*m:c*m+m])
			}
		}
	})
	return linear.RowLosses(s.workers, s.p, trial, s.gamma.Grad)
}
