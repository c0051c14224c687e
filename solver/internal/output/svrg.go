package output

import (
	"math/rand/v2"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/eigen"
	"gonum.org/v1/gonum/floats"
)

// svrgStep is the step over 1/(2 L), L the expected smoothness of a minibatch gradient. Eight times the step that is
// proved to converge still does; at that one epochs gain ten times less (letter, ML-100k).
const svrgStep = 8

// Svrg runs epochs of minibatch proximal SVRG (Xiao and Zhang 2014) on v (k×m) and returns the epochs run and whether
// the objective fell; if it did not, or the solve is cancelled, v is unchanged. An epoch starts with the full gradient
// at a snapshot, which every batch gradient is corrected by, and is dropped, with the step halved, if it raised the
// objective. It costs four passes. The order of the rows comes from rng; batches use one goroutine, so the result
// depends on nothing else.
func (f *OutputFit) Svrg(v []float64, epochs int, rng *rand.Rand) (used int, fell bool) {
	n, k, m := f.P.X.NumRows(), len(f.Phi), f.P.Outputs
	if k == 0 || f.Workers.Cancelled() {
		return 0, k == 0
	}
	smooth := f.batchSmoothness()
	if f.Workers.Cancelled() || smooth == 0 {
		return 0, !f.Workers.Cancelled()
	}
	step := svrgStep / (2 * smooth)
	f.TakeOffset()
	value, _, full := f.Pass(v, 0)
	if f.Workers.Cancelled() {
		return 0, false
	}
	objective := value + f.Form.Term(v, k, m)
	before := objective
	z, snapshot, gradient := append([]float64(nil), v...), append([]float64(nil), v...), make([]float64, k*m)
	batch := NewMinibatch(f)
	for used < epochs {
		order := rng.Perm(n)
		for lo := 0; lo < n; lo += StochasticBatch {
			if !f.Workers.Yield() {
				return used, false
			}
			batch.Gather(order[lo:min(n, lo+StochasticBatch)])
			copy(gradient, full)
			batch.AddGradient(gradient, z, batch.Factor())
			batch.AddGradient(gradient, snapshot, -batch.Factor())
			dense.AddScaled(z, -step, gradient)
			f.Form.Step(z, k, m, step)
		}
		used++
		value, _, next := f.Pass(z, 0)
		if f.Workers.Cancelled() {
			return used, false
		}
		if reached := value + f.Form.Term(z, k, m); reached <= objective {
			objective, full = reached, next
			copy(snapshot, z)
		} else {
			step /= 2
			copy(z, snapshot)
		}
	}
	if !(objective < before) {
		return used, false
	}
	copy(v, snapshot)
	return used, true
}

// batchSmoothness bounds the expected smoothness of the gradient of a minibatch, scaled up to the sample: that of the
// sample and that of its worst row, in the proportion in which a batch shows them. It costs n·k² flops.
func (f *OutputFit) batchSmoothness() float64 {
	n, k := f.P.X.NumRows(), len(f.Phi)
	heaviest := 1.0
	if f.P.Weights != nil {
		heaviest = floats.Max(f.P.Weights)
	}
	squares := make([]float64, n)
	gram := eigen.NewSymmetric(k)
	top := 0.0 // the trace: a bound, should the decomposition fail
	for r, a := range f.Phi {
		if !f.Workers.Yield() {
			return 0
		}
		for i, x := range a {
			squares[i] += x * x
		}
		for s, b := range f.Phi[:r+1] {
			gram.Data[s*k+r] = dense.Dot(a, b)
		}
		top += gram.Data[r*k+r]
	}
	if e, ok := eigen.Decompose(gram); ok {
		top = e.Values[k-1]
	}
	size := float64(min(StochasticBatch, n))
	whole := (size - 1) / size * float64(n) / max(1, float64(n-1))
	return heaviest * f.P.Loss.Curvature(f.P.Outputs) * (whole*top + float64(n)/size*floats.Max(squares))
}
