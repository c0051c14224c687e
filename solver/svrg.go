package solver

import (
	"math/rand/v2"

	"github.com/refitd/refitd/solver/internal/dense"
	"gonum.org/v1/gonum/floats"
)

// svrgStep is the step over 1/(2 L), L the expected smoothness of a minibatch gradient. Eight times the step that is proved to converge still
// does; at that one epochs gain ten times less (letter, ML-100k).
const svrgStep = 8

// svrg runs epochs of minibatch proximal SVRG (Xiao and Zhang 2014) on v (k×m) and returns the epochs run and whether the objective fell;
// if it did not, or the solve is cancelled, v is unchanged. An epoch starts with the full gradient at a snapshot, which every batch gradient is
// corrected by, and is dropped, with the step halved, if it raised the objective. It costs four passes. The order of the rows comes from
// rng; batches use one goroutine, so the result depends on nothing else.
func (f *outputFit) svrg(v []float64, epochs int, rng *rand.Rand) (used int, fell bool) {
	n, k, m := f.p.X.NumRows(), len(f.phi), f.p.Outputs
	if k == 0 || f.workers.cancelled() {
		return 0, k == 0
	}
	smooth := f.batchSmoothness()
	if f.workers.cancelled() || smooth == 0 {
		return 0, !f.workers.cancelled()
	}
	step := svrgStep / (2 * smooth)
	f.takeOffset()
	value, _, full := f.pass(v, 0)
	if f.workers.cancelled() {
		return 0, false
	}
	objective := value + f.form.term(v, k, m)
	before := objective
	z, snapshot, gradient := append([]float64(nil), v...), append([]float64(nil), v...), make([]float64, k*m)
	batch := newMinibatch(f)
	for used < epochs {
		order := rng.Perm(n)
		for lo := 0; lo < n; lo += stochasticBatch {
			if !f.workers.yield() {
				return used, false
			}
			batch.gather(order[lo:min(n, lo+stochasticBatch)])
			copy(gradient, full)
			batch.addGradient(gradient, z, batch.factor())
			batch.addGradient(gradient, snapshot, -batch.factor())
			dense.AddScaled(z, -step, gradient)
			f.form.step(z, k, m, step)
		}
		used++
		value, _, next := f.pass(z, 0)
		if f.workers.cancelled() {
			return used, false
		}
		if reached := value + f.form.term(z, k, m); reached <= objective {
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

// batchSmoothness bounds the expected smoothness of the gradient of a minibatch, scaled up to the sample: that of the sample and that of
// its worst row, in the proportion in which a batch shows them. It costs n·k² flops.
func (f *outputFit) batchSmoothness() float64 {
	n, k := f.p.X.NumRows(), len(f.phi)
	heaviest := 1.0
	if f.p.Weights != nil {
		heaviest = floats.Max(f.p.Weights)
	}
	squares := make([]float64, n)
	gram := newSymmetric(k)
	top := 0.0 // the trace: a bound, should the decomposition fail
	for r, a := range f.phi {
		if !f.workers.yield() {
			return 0
		}
		for i, x := range a {
			squares[i] += x * x
		}
		for s, b := range f.phi[:r+1] {
			gram.Data[s*k+r] = dense.Dot(a, b)
		}
		top += gram.Data[r*k+r]
	}
	if e, ok := decompose(gram); ok {
		top = e.values[k-1]
	}
	size := float64(min(stochasticBatch, n))
	whole := (size - 1) / size * float64(n) / max(1, float64(n-1))
	return heaviest * f.p.Loss.Curvature(f.p.Outputs) * (whole*top + float64(n)/size*floats.Max(squares))
}
