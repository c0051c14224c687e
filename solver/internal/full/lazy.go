package full

import (
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/output"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

// Steps of lazyEpochs as parts of the size of what they move: a feature's first step moves its row of H by RowStep of
// the root mean square of such rows, that of a basis vector its row of V by WeightStep of the largest. AdaGrad shortens
// later ones. Of 0.01, 0.03, 0.1 and 0.3 for the first and 0.003 to 0.1 for the second, these lowered the objective
// most in four epochs on ML-100k.
const (
	RowStep    = 0.1
	WeightStep = 0.1
)

// Stochastic runs epochs of minibatch proximal AdaGrad (Duchi, Hazan and Singer 2011) on V and H and returns the epochs
// run and whether the objective fell by a pass over all rows; if it did not, or the solve is cancelled, u is unchanged.
// The order of the rows comes from rng; the epochs use one goroutine, so the result depends on nothing else.
func (f *FullFit) Stochastic(u []float64, epochs int, rng *rand.Rand) (used int, fell bool) {
	n := f.P.X.NumRows()
	before := f.Pass(u, nil) + f.Term(u)
	lazy := NewLazyEpochs(f, u)
	for used < epochs && f.Workers.Yield() {
		order := rng.Perm(n)
		for lo := 0; lo < n && f.Workers.Yield(); lo += output.StochasticBatch {
			lazy.Batch(order[lo:min(n, lo+output.StochasticBatch)])
		}
		used++
		lazy.Settle()
	}
	after := f.Pass(lazy.U, nil) + f.Term(lazy.U)
	if f.Workers.Cancelled() || !(after < before) {
		return used, false
	}
	copy(u, lazy.U)
	return used, true
}

// lazyEpochs takes AdaGrad steps over minibatches in time that grows with the features that occur in them, not with d.
// There is one accumulator of squared gradients per row of V and per row of H (a feature), so that proximal steps stay
// in closed form. What a step does to the rows of H without a gradient is put off:
//
//   - the ridge divides a row by 1 + ηρ in every step, with the same η until its next gradient: settled by a power when the row is next
//     needed;
//   - the return of h_r to the unit ball scales all of column r: kept as a factor per column, with the length of h_r kept up to date.
type lazyEpochs struct {
	lazyRows
	U    []float64 // V and H; H without the factors of its columns
	step [2]float64

	sumV    []float64 // k: squared gradients of each row of V
	sumH    []float64 // d: and of each row of H
	done    []int     // d: batches up to which the ridge of the row is settled
	batches int
	square  []float64 // k: ‖h_r‖², factor included
}

// lazyRows are the rows of one batch, with their gradients in V and in those rows of H that belong to their features.
type lazyRows struct {
	f        *FullFit
	factor   []float64 // k: of the columns of H
	slot     []int32   // d: place of the feature among touched, −1 for none
	touched  []int32   // features of the batch
	gradient []float64 // V: k×m, then touched×k
	inner    []float64 // batch×k
	phi      []float64 // batch×k
	pairs    []float64 // batch×k of ANOVA3: the sums of pairs of terms of the inner products; nil of the others
	rows     []float64 // batch×m: predictions, then gradients
	target   []float64 // batch×m
	weight   []float64 // batch
	row      []float64 // 3k
}

func newLazyRows(f *FullFit) lazyRows {
	d, k, m := f.P.X.NumColumns, f.K, f.P.Outputs
	l := lazyRows{f: f, factor: make([]float64, k), slot: make([]int32, d)}
	for j := range l.slot {
		l.slot[j] = -1
	}
	for r := range l.factor {
		l.factor[r] = 1
	}
	size := min(output.StochasticBatch, f.P.X.NumRows())
	l.inner, l.phi, l.row = make([]float64, size*k), make([]float64, size*k), make([]float64, 3*k)
	if f.Kernel == problem.ANOVA3 {
		l.pairs = make([]float64, size*k)
	}
	l.rows, l.target, l.weight = make([]float64, size*m), make([]float64, size*m), make([]float64, size)
	return l
}

// touch lists the features of the chosen rows and makes room for their gradients.
func (l *lazyRows) touch(chosen []int) {
	l.touched = l.touched[:0]
	for _, i := range chosen {
		index, _ := l.f.P.X.Row(i)
		for _, j := range index {
			if l.slot[j] < 0 {
				l.slot[j] = int32(len(l.touched))
				l.touched = append(l.touched, j)
			}
		}
	}
	l.gradient = problem.Room(l.gradient, l.f.K*(l.f.P.Outputs+len(l.touched)))
}

func NewLazyEpochs(f *FullFit, u []float64) *lazyEpochs {
	d, k, m := f.P.X.NumColumns, f.K, f.P.Outputs
	l := &lazyEpochs{lazyRows: newLazyRows(f), U: append([]float64(nil), u...)}
	v, h := f.Split(l.U)
	largest := 0.0
	for r := range k {
		largest = max(largest, dense.Norm2(v[r*m:r*m+m]))
	}
	l.step = [2]float64{WeightStep * largest, RowStep * dense.Norm2(h) / math.Sqrt(float64(d))}
	l.sumV, l.sumH = make([]float64, k), make([]float64, d)
	l.done, l.square = make([]int, d), make([]float64, k)
	l.Settle()
	return l
}

// Settle applies everything put off and measures the columns anew, in O(dk).
func (l *lazyEpochs) Settle() {
	_, h := l.f.Split(l.U)
	for j := range l.sumH {
		l.shrunk(h, j)
	}
	clear(l.square)
	for j := range l.sumH {
		row := h[j*l.f.K : (j+1)*l.f.K]
		for r, x := range row {
			x *= l.factor[r]
			row[r] = x
			l.square[r] += x * x
		}
	}
	for r := range l.factor {
		l.factor[r] = 1
	}
}

// shrunk returns row j of H after the ridge of the batches since it was last settled.
func (l *lazyEpochs) shrunk(h []float64, j int) []float64 {
	k := l.f.K
	row := h[j*k : j*k+k]
	if missed := l.batches - l.done[j]; missed > 0 && l.f.Ridge > 0 && l.sumH[j] > 0 {
		shrink := math.Pow(1+l.step[1]/math.Sqrt(l.sumH[j])*l.f.Ridge, -float64(missed))
		for r, x := range row {
			x *= l.factor[r]
			l.square[r] -= x * x * (1 - shrink*shrink)
		}
		floats.Scale(shrink, row)
	}
	l.done[j] = l.batches
	return row
}

// Batch takes one step with the chosen rows, in O((nnz + size·m)·k).
func (l *lazyEpochs) Batch(chosen []int) {
	f, k, m := l.f, l.f.K, l.f.P.Outputs
	v, h := f.Split(l.U)
	l.touch(chosen)
	for _, j := range l.touched {
		l.shrunk(h, int(j))
	}
	l.forward(v, h, chosen)
	l.backward(v, h, chosen)

	for r := range k {
		g, row := l.gradient[r*m:r*m+m], v[r*m:r*m+m]
		if l.sumV[r] += floats.Dot(g, g); l.sumV[r] == 0 {
			continue
		}
		eta := l.step[0] / math.Sqrt(l.sumV[r])
		floats.AddScaled(row, -eta, g)
		if f.Form.Tau == 0 {
			f.Form.Step(row, 1, m, eta)
		}
	}
	if f.Form.Tau > 0 {
		f.Form.Step(v, k, m, 1)
	}
	l.batches++
	for t, j := range l.touched {
		l.slot[j] = -1
		l.done[j] = l.batches
		g, row := l.gradient[k*m+t*k:k*m+t*k+k], h[int(j)*k:int(j)*k+k]
		if l.sumH[j] += floats.Dot(g, g); l.sumH[j] == 0 {
			continue
		}
		eta := l.step[1] / math.Sqrt(l.sumH[j])
		shrink := 1 / (1 + eta*f.Ridge)
		for r, stored := range row {
			old := stored * l.factor[r]
			x := (old - eta*g[r]) * shrink
			l.square[r] += x*x - old*old
			row[r] = x / l.factor[r]
		}
	}
	if f.Free() {
		return
	}
	for r, square := range l.square {
		if square > 1 {
			l.factor[r] /= math.Sqrt(square)
			l.square[r] = 1
		}
		if l.factor[r] < 1e-8 { // before digits are lost
			l.Settle()
		}
	}
}

// forward leaves inner products, activations and weighted loss gradients of the chosen rows.
func (l *lazyRows) forward(v, h []float64, chosen []int) {
	f, k, m := l.f, l.f.K, l.f.P.Outputs
	sum, squares, pairs := l.row[:k], l.row[k:2*k], l.row[2*k:]
	for t, i := range chosen {
		clear(l.row)
		index, value := f.P.X.Row(i)
		for e, j := range index {
			for r, stored := range h[int(j)*k : int(j)*k+k] {
				a := value[e] * stored * l.factor[r]
				if f.Kernel == problem.ANOVA3 {
					squares[r] += a * pairs[r] // the sum of triples
					pairs[r] += a * sum[r]
				} else {
					squares[r] += a * a
				}
				sum[r] += a
			}
		}
		out := l.rows[t*m : t*m+m]
		copy(out, f.Offset[i*m:i*m+m])
		for r, p := range sum {
			a := p * p
			switch f.Kernel {
			case problem.ANOVA:
				a = 0.5 * (a - squares[r])
			case problem.Homogeneous3:
				a *= p
			case problem.ANOVA3:
				a, l.pairs[t*k+r] = squares[r], pairs[r]
			}
			l.inner[t*k+r], l.phi[t*k+r] = p, a
			for c, w := range v[r*m : r*m+m] {
				out[c] += a * w
			}
		}
		copy(l.target[t*m:t*m+m], f.P.Targets[i*m:i*m+m])
		l.weight[t] = f.P.Weight(i) * float64(
			f.P.X.NumRows(),
		) / float64(len(chosen)) // an unbiased estimate of the sum over all rows
	}
	rows := l.rows[:len(chosen)*m]
	loss.EvalRows(f.P.Loss, rows, rows, l.target[:len(rows)], l.weight[:len(chosen)], m)
}

// backward adds up the gradients in V and in the touched rows of H.
func (l *lazyRows) backward(v, h []float64, chosen []int) {
	f, k, m := l.f, l.f.K, l.f.P.Outputs
	inV, inH := l.gradient[:k*m], l.gradient[k*m:]
	back, slope := l.row[:k], l.row[k:2*k]
	for t, i := range chosen {
		g := l.rows[t*m : t*m+m]
		for r := range back {
			sum, a := 0.0, l.phi[t*k+r]
			for c, w := range v[r*m : r*m+m] {
				sum += g[c] * w
				inV[r*m+c] += g[c] * a
			}
			back[r], slope[r] = sum, sum*l.inner[t*k+r]
			switch f.Kernel {
			case problem.Homogeneous:
				slope[r] *= 2
			case problem.Homogeneous3:
				slope[r] *= 3 * l.inner[t*k+r]
			}
		}
		index, value := f.P.X.Row(i)
		if f.Kernel == problem.ANOVA3 && len(index) < 3 {
			continue // 0, which the difference of rounded sums is not
		}
		for e, j := range index {
			x, at := value[e], int(l.slot[j])*k
			for r, s := range slope {
				switch a := x * h[int(j)*k+r] * l.factor[r]; f.Kernel {
				case problem.ANOVA:
					s -= a * back[r]
				case problem.ANOVA3:
					s = back[r] * (l.pairs[t*k+r] - a*(l.inner[t*k+r]-a))
				}
				inH[at+r] += x * s
			}
		}
	}
}
