package full

import (
	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/gamma"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/penalty"
	"github.com/refitd/refitd/solver/problem"
	"gonum.org/v1/gonum/floats"
)

// FullFit refits output weights and basis together (Blondel et al. 2017, Algorithm 1, optional step):
//
//	min_{V,H} Σ_i w_i ℓ(t_i, offset_i + Σ_r V[r,·] K(h_r, x_i)) + λΩ(V) + ½ ridge ‖H‖²   or with Ω(V) ≤ τ for λΩ(V),
//
// where with ridge 0 every h_r stays in the unit ball. It is not convex. A point is one slice: V (k×m row-major), then
// H (d×k feature-major, as in Model.Basis). A FullFit is used by one goroutine at a time and spreads its passes over
// its workers.
//
// With G the weighted loss gradients and R = GV' (n×k), the gradients are Φ'G in V and, in h_r,
//
//	2 Σ_i R_ir ⟨h_r, x_i⟩ x_i                     (homogeneous)
//	Σ_i R_ir (⟨h_r, x_i⟩ x_i − h_r ∘ x_i ∘ x_i)   (ANOVA)
//	3 Σ_i R_ir ⟨h_r, x_i⟩² x_i                    (homogeneous, degree 3)
//	Σ_i R_ir x_ij (p₂ − a_j (p₁ − a_j))           (ANOVA, degree 3, entry j)
//
// with a_j = h_rj x_ij and p₁, p₂ the sums of the a and of their pairs, so that the bracket is the sum of the pairs
// without a_j.
//
// A pass with gradients takes 4k(nnz(X) + nm) + 2knm multiplications and additions, one without 2k(nnz(X) + nm).
type FullFit struct {
	P       *problem.Problem
	Kernel  problem.Kernel
	Form    penalty.Form
	Ridge   float64
	Workers parallel.Workers
	Offset  []float64 // n×m: linear term and bias

	// Columns holds the columns of X, n each, if most entries are not 0: products with them then run over contiguous
	// memory. Nil otherwise.
	Columns [][]float64
	Smooth  float64 // L of the last refit, in the metric of its scales; 0 at first

	K       int
	size    int // rows per block
	parts   [][]float64
	turned  []float64 // V' of the current pass, m×k
	scratch []fullScratch
}

// fullScratch belongs to one worker. Matrices with fullTile rows are kept by columns.
type fullScratch struct {
	inner, phi, back []float64   // ⟨h_r, x_i⟩, K(h_r, x_i), and R: k columns
	pairs            []float64   // of ANOVA3, Σ_{j<l} h_rj x_ij h_rl x_il: k columns; nil of the others
	out              []float64   // predictions, then G: m columns
	rows             []float64   // the same by rows: fullTile×m
	row              []float64   // 3k: one row of k columns at a time, three times
	phiColumns       [][]float64 // views of the columns of phi
	outColumns       [][]float64 // and of out
}

const (
	fullTile = 256 // rows of a tile: its k columns stay in the second-level cache
	// from column to column: with a power of two the entries of a row would fall into a few sets of the cache
	fullStride = fullTile + 8
	// denseShare of entries that are not 0 makes X dense for a full refit: about twice the work in contiguous products
	// is still faster.
	denseShare = 0.4
)

func NewFullFit(p *problem.Problem, kernel problem.Kernel, form penalty.Form, ridge float64, offset []float64,
	workers parallel.Workers) *FullFit {
	n, d := p.X.NumRows(), p.X.NumColumns
	f := &FullFit{P: p, Kernel: kernel, Form: form, Ridge: ridge, Workers: workers, Offset: offset}
	f.size = max(gamma.MinGammaBlock, (n+gamma.GammaBlocks-1)/gamma.GammaBlocks)
	f.parts = make([][]float64, (n+f.size-1)/f.size)
	f.scratch = make([]fullScratch, workers.Size)
	if (kernel == problem.Homogeneous || kernel == problem.Homogeneous3) &&
		float64(len(p.X.Index)) >= denseShare*float64(n)*float64(d) {
		f.Columns = make([][]float64, d)
		for j := range f.Columns {
			f.Columns[j] = make([]float64, n)
		}
		for i := range n {
			index, value := p.X.Row(i)
			for e, j := range index {
				f.Columns[j][i] = value[e]
			}
		}
	}
	return f
}

// Resize prepares for points of k basis vectors.
func (f *FullFit) Resize(k int) {
	if k == f.K {
		return
	}
	m := f.P.Outputs
	f.K = k
	f.turned = make([]float64, m*k)
	for w := range f.scratch {
		s := fullScratch{
			inner: make([]float64,
				k*fullStride), phi: make([]float64, k*fullStride), back: make([]float64, k*fullStride),
			out: make([]float64, m*fullStride), rows: make([]float64, fullTile*m), row: make([]float64, 3*k),
		}
		if f.Kernel == problem.ANOVA3 {
			s.pairs = make([]float64, k*fullStride)
		}
		for r := range k {
			s.phiColumns = append(s.phiColumns, s.phi[r*fullStride:(r+1)*fullStride])
		}
		for c := range m {
			s.outColumns = append(s.outColumns, s.out[c*fullStride:(c+1)*fullStride])
		}
		f.scratch[w] = s
	}
}

// Free reports whether basis vectors may be longer than 1. In constrained form none may: Ω bounds the weights of
// vectors in the unit ball, and longer ones would leave the ball of the model.
func (f *FullFit) Free() bool { return f.Ridge > 0 && f.Form.Tau == 0 }

// Split returns V and H of a point.
func (f *FullFit) Split(u []float64) (v, h []float64) {
	km := f.K * f.P.Outputs
	return u[:km], u[km:]
}

// Term returns what penalty and ridge add to the loss at a feasible point.
func (f *FullFit) Term(u []float64) float64 {
	v, h := f.Split(u)
	value := f.Form.Term(v, f.K, f.P.Outputs)
	if f.Ridge > 0 {
		value += 0.5 * f.Ridge * floats.Dot(h, h)
	}
	return value
}

// Pass returns the loss at u and stores its gradient unless that is nil.
func (f *FullFit) Pass(u, gradient []float64) float64 {
	m, length := f.P.Outputs, 1
	v, h := f.Split(u)
	if gradient != nil {
		length += len(u)
		for r := range f.K {
			for c := range m {
				f.turned[c*f.K+r] = v[r*m+c]
			}
		}
	}
	f.Workers.Blocks(f.P.X.NumRows(), f.size, func(worker, b, lo, hi int) {
		f.parts[b] = problem.Room(f.parts[b], length)
		part, work := f.parts[b], &f.scratch[worker]
		for a := lo; a < hi && f.Workers.Yield(); a += fullTile {
			end := min(hi, a+fullTile)
			f.forward(work, v, h, a, end)
			part[0] += f.loss(work, gradient != nil, a, end)
			if gradient != nil {
				f.backward(part[1:], work, h, a, end)
			}
		}
	})
	value := 0.0
	clear(gradient)
	for _, part := range f.parts {
		if len(part) < length {
			continue // called off
		}
		value += part[0]
		if gradient != nil {
			floats.Add(gradient, part[1:length])
		}
	}
	return value
}

// forward leaves inner products, activations and the basis' part of the predictions of rows lo..hi−1 in work.
func (f *FullFit) forward(work *fullScratch, v, h []float64, lo, hi int) {
	m, size := f.P.Outputs, hi-lo
	f.activate(work, h, lo, hi)
	for c := range m {
		clear(work.out[c*fullStride : c*fullStride+size])
	}
	dense.MulAdd(work.out, fullStride, work.phiColumns, 0, size, v, m)
}

// activate leaves inner products and activations of rows lo..hi−1 in work.
func (f *FullFit) activate(work *fullScratch, h []float64, lo, hi int) {
	k, size := f.K, hi-lo
	if f.Columns == nil {
		f.activateSparse(work, h, lo, hi)
		return
	}
	for r := range k {
		clear(work.inner[r*fullStride : r*fullStride+size])
	}
	dense.MulAdd(work.inner, fullStride, f.Columns, lo, size, h, k)
	for r := range k {
		phi := work.phi[r*fullStride : r*fullStride+size]
		for t, p := range work.inner[r*fullStride : r*fullStride+size] {
			phi[t] = p * p
			if f.Kernel == problem.Homogeneous3 {
				phi[t] *= p
			}
		}
	}
}

func (f *FullFit) activateSparse(work *fullScratch, h []float64, lo, hi int) {
	if f.Kernel == problem.ANOVA3 {
		f.activateTriples(work, h, lo, hi)
		return
	}
	k := f.K
	inner, squares := work.row[:k], work.row[k:2*k]
	for i := lo; i < hi; i++ {
		index, value := f.P.X.Row(i)
		clear(work.row)
		for e, j := range index {
			x := value[e]
			row := h[int(j)*k : int(j)*k+k]
			row = row[:len(inner)]
			if f.Kernel == problem.ANOVA {
				squares := squares[:len(inner)]
				for r := range inner {
					a := x * row[r]
					inner[r] += a
					squares[r] += a * a
				}
				continue
			}
			for r := range inner {
				inner[r] += x * row[r]
			}
		}
		half := 1.0
		if f.Kernel == problem.ANOVA {
			half = 0.5
		}
		at := i - lo
		for r, p := range inner {
			work.inner[at] = p
			work.phi[at] = half * (p*p - squares[r])
			if f.Kernel == problem.Homogeneous3 {
				work.phi[at] *= p
			}
			at += fullStride
		}
	}
}

// activateTriples is activateSparse for ANOVA3; it leaves the sums of pairs, too.
func (f *FullFit) activateTriples(work *fullScratch, h []float64, lo, hi int) {
	k := f.K
	sums, pairs, triples := work.row[:k], work.row[k:2*k], work.row[2*k:3*k]
	for i := lo; i < hi; i++ {
		index, value := f.P.X.Row(i)
		clear(work.row)
		for e, j := range index {
			x := value[e]
			for r, own := range h[int(j)*k : int(j)*k+k] {
				a := x * own
				triples[r] += a * pairs[r]
				pairs[r] += a * sums[r]
				sums[r] += a
			}
		}
		at := i - lo
		for r := range k {
			work.inner[at], work.pairs[at], work.phi[at] = sums[r], pairs[r], triples[r]
			at += fullStride
		}
	}
}

// loss returns the weighted loss of rows lo..hi−1 and, if wanted, replaces their predictions in work by its gradients.
func (f *FullFit) loss(work *fullScratch, wanted bool, lo, hi int) float64 {
	p, m, size := f.P, f.P.Outputs, hi-lo
	rows := work.rows[:size*m]
	copy(rows, f.Offset[lo*m:hi*m])
	for c := range m {
		for t, o := range work.out[c*fullStride : c*fullStride+size] {
			rows[t*m+c] += o
		}
	}
	weight := p.Weights
	if weight != nil {
		weight = weight[lo:hi]
	}
	var gradient []float64
	if wanted {
		gradient = rows
	}
	value := loss.EvalRows(p.Loss, gradient, rows, p.Targets[lo*m:hi*m], weight, m)
	if wanted {
		for c := range m {
			column := work.out[c*fullStride : c*fullStride+size]
			for t := range column {
				column[t] = rows[t*m+c]
			}
		}
	}
	return value
}

// backward adds the gradients of rows lo..hi−1 to the gradient, with what forward and loss left in work.
func (f *FullFit) backward(gradient []float64, work *fullScratch, h []float64, lo, hi int) {
	k, m, size := f.K, f.P.Outputs, hi-lo
	inV, inH := f.Split(gradient)
	dense.DotAdd(inV, work.phiColumns, 0, size, work.out, fullStride, m)
	for r := range k {
		clear(work.back[r*fullStride : r*fullStride+size])
	}
	dense.MulAdd(work.back, fullStride, work.outColumns, 0, size, f.turned, k)
	if f.Columns == nil {
		f.backwardSparse(inH, work, h, lo, hi)
		return
	}
	for r := range k {
		back := work.back[r*fullStride : r*fullStride+size]
		for t, p := range work.inner[r*fullStride : r*fullStride+size] {
			if f.Kernel == problem.Homogeneous3 {
				back[t] *= 3 * p * p
			} else {
				back[t] *= 2 * p
			}
		}
	}
	dense.DotAdd(inH, f.Columns, lo, size, work.back, fullStride, k)
}

func (f *FullFit) backwardSparse(gradient []float64, work *fullScratch, h []float64, lo, hi int) {
	if f.Kernel == problem.ANOVA3 {
		f.backwardTriples(gradient, work, h, lo, hi)
		return
	}
	k := f.K
	back, slope := work.row[:k], work.row[k:2*k]
	factor := 2.0
	switch f.Kernel {
	case problem.ANOVA:
		factor = 1
	case problem.Homogeneous3:
		factor = 3
	}
	for i := lo; i < hi; i++ {
		at := i - lo
		for r := range back {
			back[r] = work.back[at]
			slope[r] = factor * work.back[at] * work.inner[at]
			if f.Kernel == problem.Homogeneous3 {
				slope[r] *= work.inner[at]
			}
			at += fullStride
		}
		index, value := f.P.X.Row(i)
		for e, j := range index {
			x := value[e]
			row := gradient[int(j)*k : int(j)*k+k]
			slope := slope[:len(row)]
			if f.Kernel == problem.ANOVA {
				basis := h[int(j)*k : int(j)*k+k]
				back, basis := back[:len(row)], basis[:len(row)]
				for r := range row {
					row[r] += x * (slope[r] - x*basis[r]*back[r])
				}
				continue
			}
			for r := range row {
				row[r] += x * slope[r]
			}
		}
	}
}

// backwardTriples is backwardSparse for ANOVA3.
func (f *FullFit) backwardTriples(gradient []float64, work *fullScratch, h []float64, lo, hi int) {
	k := f.K
	back, sums, pairs := work.row[:k], work.row[k:2*k], work.row[2*k:3*k]
	for i := lo; i < hi; i++ {
		at := i - lo
		for r := range back {
			back[r], sums[r], pairs[r] = work.back[at], work.inner[at], work.pairs[at]
			at += fullStride
		}
		index, value := f.P.X.Row(i)
		if len(index) < 3 {
			continue // 0, which the difference of rounded sums is not
		}
		for e, j := range index {
			x := value[e]
			row, basis := gradient[int(j)*k:int(j)*k+k], h[int(j)*k:int(j)*k+k]
			for r, b := range back {
				a := x * basis[r]
				row[r] += b * x * (pairs[r] - a*(sums[r]-a))
			}
		}
	}
}

// ActivationsTo stores K(h_r, x_i) of the basis of u in the k columns phi of length n, in one pass.
func (f *FullFit) ActivationsTo(phi [][]float64, u []float64) {
	_, h := f.Split(u)
	f.Workers.Blocks(f.P.X.NumRows(), fullTile, func(worker, _, lo, hi int) {
		work := &f.scratch[worker]
		f.activate(work, h, lo, hi)
		for r := range phi {
			copy(phi[r][lo:hi], work.phi[r*fullStride:])
		}
	})
}
