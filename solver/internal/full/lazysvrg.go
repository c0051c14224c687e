package full

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/output"
	"gonum.org/v1/gonum/floats"
)

const (
	// svrgPart of the lengths of V and of H is what the full gradient alone moves them in the first epoch, with a
	// separate step for each. An epoch that raised the objective divides both steps by svrgCut, one that did not
	// multiplies them by svrgGrowth. Of 0.03, 0.1, 0.3, 1 and 3, 1 lowered the objective most on ML-100k, with the
	// unit ball and with a ridge.
	svrgPart   = 1.0
	svrgCut    = 4
	svrgGrowth = 1.5
)

// Svrg runs epochs of minibatch proximal SVRG (Xiao and Zhang 2014) on V and H and returns the epochs run and whether
// the objective fell by a pass over all rows; if it did not, or the solve is cancelled, u is unchanged. An epoch that
// raised the objective is dropped. The order of the rows comes from rng; batches use one goroutine, so the result
// depends on nothing else.
func (f *FullFit) Svrg(u []float64, epochs int, rng *rand.Rand) (used int, fell bool) {
	n := f.P.X.NumRows()
	snapshot, full, next := append([]float64(nil), u...), make([]float64, len(u)), make([]float64, len(u))
	before := f.Pass(snapshot, full) + f.Term(snapshot)
	objective, part := before, svrgPart
	lazy := NewLazySVRG(f)
	for used < epochs && f.Workers.Yield() {
		lazy.Begin(snapshot, full, part)
		order := rng.Perm(n)
		for lo := 0; lo < n && f.Workers.Yield(); lo += output.StochasticBatch {
			lazy.Batch(order[lo:min(n, lo+output.StochasticBatch)])
		}
		used++
		lazy.Settle()
		reached := f.Pass(lazy.U, next) + f.Term(lazy.U)
		if f.Workers.Cancelled() {
			break
		}
		if reached < objective {
			objective, part = reached, part*svrgGrowth
			copy(snapshot, lazy.U)
			full, next = next, full
		} else {
			part /= svrgCut
		}
	}
	if f.Workers.Cancelled() || !(objective < before) {
		return used, false
	}
	copy(u, snapshot)
	return used, true
}

// lazySVRG takes SVRG steps in time that grows with the features of a batch, not with d: all that a step does to the
// other rows of H is alike. With μ the full gradient at the snapshot, the drift −ημ of every step adds up to a sum for
// each column, and what the ridge or the return to the unit ball scale by is kept as a factor for each column:
//
//	h_jr = factor_r (stored_jr − μ_jr drift_r).
type lazySVRG struct {
	lazyRows
	U, snapshot, full []float64  // V and H: the iterate, with H as stored; the snapshot; μ
	Step              [2]float64 // of V and of H

	drift               []float64 // k
	square, cross, pull []float64 // k: ‖h_r‖², ⟨h_r, μ_r⟩ and ‖μ_r‖²
	ones                []float64 // k
}

func NewLazySVRG(f *FullFit) *lazySVRG {
	k := f.K
	l := &lazySVRG{
		lazyRows: newLazyRows(f),
		drift:    make([]float64, k),
		square:   make([]float64, k),
		cross:    make([]float64, k),
		pull:     make([]float64, k),
	}
	l.ones = append([]float64(nil), l.factor...)
	l.U = make([]float64, (f.P.Outputs+f.P.X.NumColumns)*k)
	return l
}

// Begin starts an epoch at a snapshot, with its full gradient.
func (l *lazySVRG) Begin(snapshot, full []float64, part float64) {
	f := l.f
	l.snapshot, l.full = snapshot, full
	copy(l.U, snapshot)
	batches := float64((f.P.X.NumRows() + output.StochasticBatch - 1) / output.StochasticBatch)
	v, h := f.Split(snapshot)
	inV, inH := f.Split(full)
	for i, part := range [2]float64{part * dense.Norm2(v) / (batches * dense.Norm2(inV)),
		part * dense.Norm2(h) / (batches * dense.Norm2(inH))} {
		if l.Step[i] = part; !(part <= math.MaxFloat64) { // a gradient of 0
			l.Step[i] = 0
		}
	}
	l.Settle()
}

// Settle applies everything put off and measures the columns anew, in O(dk).
func (l *lazySVRG) Settle() {
	k := l.f.K
	_, h := l.f.Split(l.U)
	_, pull := l.f.Split(l.full)
	clear(l.square)
	clear(l.cross)
	clear(l.pull)
	for i, stored := range h {
		r, g := i%k, pull[i]
		x := l.factor[r] * (stored - g*l.drift[r])
		h[i] = x
		l.square[r] += x * x
		l.cross[r] += x * g
		l.pull[r] += g * g
	}
	clear(l.drift)
	copy(l.factor, l.ones)
}

// Batch takes one step with the chosen rows, in O((nnz + size·m)·k).
func (l *lazySVRG) Batch(chosen []int) {
	f, k, m := l.f, l.f.K, l.f.P.Outputs
	v, h := f.Split(l.U)
	inV, inH := f.Split(l.full)
	l.touch(chosen)
	for _, j := range l.touched { // rows of H without their drift, for forward and backward
		l.moveDrift(h, inH, int(j), -1)
	}
	current := l.factor
	l.factor = l.ones
	oldV, oldH := f.Split(l.snapshot)
	l.forward(oldV, oldH, chosen)
	l.backward(oldV, oldH, chosen)
	floats.Scale(-1, l.gradient)
	l.factor = current
	l.forward(v, h, chosen)
	l.backward(v, h, chosen)

	floats.AddScaled(v, -l.Step[0], l.gradient[:k*m])
	floats.AddScaled(v, -l.Step[0], inV)
	f.Form.Step(v, k, m, l.Step[0])
	eta := l.Step[1]
	for t, j := range l.touched {
		l.slot[j] = -1
		g, row, pull := l.gradient[k*m+t*k:k*m+t*k+k], h[int(j)*k:int(j)*k+k], inH[int(j)*k:int(j)*k+k]
		for r, stored := range row {
			old := stored * l.factor[r]
			x := old - eta*g[r]
			l.square[r] += x*x - old*old
			l.cross[r] += (x - old) * pull[r]
			row[r] = x / l.factor[r]
		}
		l.moveDrift(h, inH, int(j), 1)
	}
	shrink, tiny := 1/(1+eta*f.Ridge), false
	for r := range k {
		l.drift[r] += eta / l.factor[r]
		l.square[r] += eta * (eta*l.pull[r] - 2*l.cross[r])
		l.cross[r] -= eta * l.pull[r]
		scale := shrink
		if !f.Free() && shrink*shrink*l.square[r] > 1 {
			scale = 1 / math.Sqrt(l.square[r])
		}
		l.factor[r] *= scale
		l.square[r] *= scale * scale
		l.cross[r] *= scale
		tiny = tiny || l.factor[r] < 1e-8
	}
	if tiny { // before digits are lost
		l.Settle()
	}
}

// moveDrift adds the drift so far to a stored row of H, or takes it out.
func (l *lazySVRG) moveDrift(h, full []float64, j int, sign float64) {
	k := l.f.K
	row, pull := h[j*k:j*k+k], full[j*k:j*k+k]
	for r, g := range pull {
		row[r] += sign * g * l.drift[r]
	}
}
