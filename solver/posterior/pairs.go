package posterior

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"
)

// pairs is the fast path for samples in which every row has two features of value 1, the first of one field and the second of another: a
// user and an item. What a feature's posterior needs from a row is then a fixed list of expectations of the partner's, its block; a feature
// adds up the blocks of its partners and solves once. For Gaussian outputs the weight of a row is the noise precision times the row's own
// weight, so the sums are plain, and the residual, θ and the noise follow from them: no pass over the rows is needed at all.
//
// The block of a feature with row (w, h) and signed coordinates y = (1, s∘h), seen by a partner, is
//
//	E[y]  E[w y]  E[w²]  E[y_a y_b] for 1 ≤ b ≤ a          q + q + 1 + k(k+1)/2 numbers, padded to whole cache lines
type pairs struct {
	refit   *Refit
	sides   [2]side
	blocks  []float64 // of one side at a time
	stride  int       // length of a block
	squares []float64 // Gaussian: per feature of the second side, its share of the expected squared residuals
	errors  []float64 // and of the residuals
}

// side is one of the two fields.
type side struct {
	field    int
	features []int32   // the field's features that occur, ascending
	start    []int     // len(features)+1: the places of a feature's rows in partner and rows
	partner  []int32   // the other feature of the row, as its place in the other side's features
	rows     []int32   // the rows
	weighted []float64 // Gaussian: weight times target of the rows, in the same order
	weight   []float64 // Gaussian: weights of the rows; nil when all are 1
}

// featureBlock is how many features a goroutine takes at a time: few enough that frequent features do not make one goroutine wait.
const featureBlock = 32

// partnerBlock is how many partners' blocks are added by one call.
const partnerBlock = 128

// newPairs returns nil unless the sample is made of pairs.
func newPairs(r *Refit) *pairs {
	x, field := r.problem.X, r.state.Field
	if x.NumRows() == 0 || len(x.Index) != 2*x.NumRows() {
		return nil
	}
	a, b := field[x.Index[0]], field[x.Index[min(1, len(x.Index)-1)]]
	for i := range x.NumRows() {
		index, value := x.Row(i)
		if len(index) != 2 || value[0] != 1 || value[1] != 1 || field[index[0]] != a || field[index[1]] != b {
			return nil
		}
	}
	if a >= b {
		return nil
	}
	k := r.state.NumBasis
	p := &pairs{refit: r, stride: (2*(k+1) + 1 + k*(k+1)/2 + 7) &^ 7}
	local := make([]int32, x.NumColumns)
	for n, f := range []int32{a, b} {
		s := &p.sides[n]
		s.field = int(f)
		for j, g := range field {
			if rows, _ := r.columns.column(j); g == f && len(rows) > 0 {
				local[j] = int32(len(s.features))
				s.features = append(s.features, int32(j))
			}
		}
	}
	for n := range p.sides {
		p.sides[n].gather(r, 1-n, local)
	}
	p.blocks = make([]float64, p.stride*max(len(p.sides[0].features), len(p.sides[1].features)))
	if r.state.Likelihood == Gaussian {
		p.squares, p.errors = make([]float64, len(p.sides[1].features)), make([]float64, len(p.sides[1].features))
	}
	return p
}

// gather orders the rows by the side's features; other is the place of the partner in a row.
func (s *side) gather(r *Refit, other int, local []int32) {
	n := r.problem.X.NumRows()
	s.start = append(s.start, 0)
	s.partner, s.rows = make([]int32, 0, n), make([]int32, 0, n)
	gaussian := r.state.Likelihood == Gaussian
	if gaussian {
		s.weighted = make([]float64, 0, n)
	}
	for _, j := range s.features {
		rows, _ := r.columns.column(int(j))
		s.rows = append(s.rows, rows...)
		for _, i := range rows {
			s.partner = append(s.partner, local[r.problem.X.Index[2*int(i)+other]])
			if gaussian {
				s.weighted = append(s.weighted, r.problem.Weight(int(i))*r.problem.Targets[i])
				if r.problem.Weights != nil {
					s.weight = append(s.weight, r.problem.Weights[i])
				}
			}
		}
		s.start = append(s.start, len(s.rows))
	}
}

// sweepField updates the features of one field; fields that do not occur are left to the caller.
func (p *pairs) sweepField(ctx context.Context, field int) error {
	for n := range p.sides {
		if p.sides[n].field == field {
			p.share(1 - n)
			p.each(len(p.sides[n].features), func() func(lo, hi int) {
				w := p.newWork()
				return func(lo, hi int) {
					for t := lo; t < hi && ctx.Err() == nil; t++ {
						w.update(n, t)
					}
				}
			})
			return ctx.Err()
		}
	}
	return nil
}

// share fills the blocks with the expectations of a side's features. O(features·k²).
func (p *pairs) share(n int) {
	s := p.refit.state
	k, q := s.NumBasis, s.NumBasis+1
	features := p.sides[n].features
	p.each(len(features), func() func(lo, hi int) {
		return func(lo, hi int) {
			for t := lo; t < hi; t++ {
				mean, cov := s.Row(int(features[t]))
				b := p.blocks[t*p.stride : (t+1)*p.stride]
				y, offset, second := b[:q], b[q:2*q], b[2*q+1:]
				y[0], offset[0] = 1, mean[0]
				b[2*q] = mean[0]*mean[0] + cov[0]
				for a := 1; a <= k; a++ {
					sign := s.Sign[a-1]
					row := cov[a*(a+1)/2 : a*(a+1)/2+a+1]
					y[a] = sign * mean[a]
					offset[a] = sign * (mean[0]*mean[a] + row[0])
					out := second[:a]
					second = second[a:]
					for c := range out {
						out[c] = y[a]*y[c+1] + sign*s.Sign[c]*row[c+1]
					}
				}
			}
		}
	})
}

// pairWork is the scratch of one goroutine.
type pairWork struct {
	*pairs
	sum    []float64 // stride: Σ weight·block
	target []float64 // q+1: Σ weight·target·(y, w)
	blocks [][]float64
	head   [][]float64
	weight []float64
	right  []float64
	solve  *rowSolver
}

func (p *pairs) newWork() *pairWork {
	q := p.refit.state.NumBasis + 1
	w := &pairWork{pairs: p, sum: make([]float64, p.stride), target: make([]float64, q+1), solve: newSolver(q),
		blocks: make([][]float64, 0, partnerBlock), weight: make([]float64, partnerBlock), right: make([]float64, partnerBlock)}
	for i := range w.weight {
		w.weight[i] = 1
	}
	return w
}

// update solves for the posterior of a feature of side n. 2·stride flops per row and about q³ for the solution.
func (w *pairWork) update(n, t int) {
	r, side := w.refit, &w.sides[n]
	s := r.state
	q := s.NumBasis + 1
	clear(w.sum)
	clear(w.target)
	for lo := side.start[t]; lo < side.start[t+1]; lo += partnerBlock {
		w.add(side, lo, min(lo+partnerBlock, side.start[t+1]))
	}
	j := int(side.features[t])
	prior := s.precision(side.field)
	noise := 1.0
	if s.Likelihood == Gaussian {
		noise = s.Noise
	}
	// The precision is D + noise·Σ E[y yᵀ], the right side noise·Σ E[y (t − θ − w)]; for Logistic θ is in the targets.
	a, b := w.solve.precision, w.solve.right
	sum, offset, second := w.sum[:q], w.sum[q:2*q], w.sum[2*q+1:]
	for row, c := 0, 0; c < q; row, c = row+c+1, c+1 {
		a[row] = noise * sum[c]
		for e, v := range second[:c] {
			a[row+1+e] = noise * v
		}
		second = second[c:]
		a[row+c] += prior[c]
		b[c] = w.target[c] - offset[c]
		if s.Likelihood == Gaussian {
			b[c] = noise * (b[c] - s.Bias[0]*sum[c])
		}
	}
	mean, cov := s.Row(j)
	w.solve.finish(mean, cov, &r.logDet[j])
	if n == 1 && s.Likelihood == Gaussian {
		w.residual(t, mean, cov, prior)
	}
}

// add adds the blocks of the partners at the places [lo, hi).
func (w *pairWork) add(side *side, lo, hi int) {
	weight, right := w.weight[:hi-lo], w.right[:hi-lo]
	if w.refit.state.Likelihood == Gaussian {
		right = side.weighted[lo:hi]
		if side.weight != nil {
			weight = side.weight[lo:hi]
		}
	} else {
		for e, i := range side.rows[lo:hi] {
			weight[e], right[e] = w.refit.omega[i], w.refit.right[i]
		}
	}
	w.blocks = w.blocks[:0]
	for _, l := range side.partner[lo:hi] {
		w.blocks = append(w.blocks, w.pairs.blocks[int(l)*w.stride:int(l+1)*w.stride])
	}
	for e, b := range w.blocks {
		floats.AddScaled(w.sum, weight[e], b)
	}
	for e, b := range w.blocks {
		floats.AddScaled(w.target, right[e], b[:len(w.target)])
	}
}

// residual keeps Σ weight·(t − θ − E z) and Σ weight·E(t − θ − z)² over the rows of a feature of the second side, whose posterior has
// just been solved for. With A v̄ = b and (A − D)C = I − DC the second is
//
//	Σ weight·E(t − θ − w)² + (q − v̄ᵀb − Σ_a D_a E[v_a²]) / noise
//
// where w is the partner's linear weight, v the feature's row.
func (w *pairWork) residual(t int, mean, cov, prior []float64) {
	s := w.refit.state
	q := len(mean)
	side := &w.sides[1]
	squares, gain := 0.0, float64(q)
	for _, i := range side.rows[side.start[t]:side.start[t+1]] {
		e := w.refit.problem.Targets[i] - s.Bias[0]
		squares += w.refit.problem.Weight(int(i)) * e * e
	}
	// Σ weight·(t − θ)·w
	squares += w.sum[2*q] - 2*(w.target[q]-s.Bias[0]*w.sum[q])
	errors := w.target[0] - s.Bias[0]*w.sum[0] - w.sum[q]
	for a, m := range mean {
		gain -= m*w.solve.right[a] + prior[a]*(m*m+cov[a*(a+1)/2+a])
		errors -= m * w.sum[a]
	}
	w.squares[t] = squares + gain/s.Noise
	w.errors[t] = errors
}

// residuals returns Σ weight·E(t − θ − z)², Σ weight·(t − θ − E z) and Σ weight as of the last update of the second side. Gaussian only.
func (p *pairs) residuals() (squares, errors, n float64) {
	for t, v := range p.squares {
		squares += v
		errors += p.errors[t]
	}
	for i := range p.refit.problem.X.NumRows() {
		n += p.refit.problem.Weight(i)
	}
	return squares, errors, n
}

// predict refreshes the mean and variance of z for every row: one dot product with the partner's block, whose terms are
//
//	E z² = E w² + E w'² + 2 w w' + 2 E[w y]ᵀ…
func (p *pairs) predict() {
	r := p.refit
	s := r.state
	if s.Likelihood == Gaussian {
		return
	}
	k, q := s.NumBasis, s.NumBasis+1
	first := &p.sides[0]
	p.share(1)
	p.each(len(first.features), func() func(lo, hi int) {
		own := make([]float64, p.stride)
		return func(lo, hi int) {
			for t := lo; t < hi; t++ {
				mean, cov := s.Row(int(first.features[t]))
				y, offset, second := own[:q], own[q:2*q], own[2*q+1:]
				y[0], offset[0], own[2*q] = mean[0]*mean[0]+cov[0], 2*mean[0], 1
				for a := 1; a <= k; a++ {
					row := cov[a*(a+1)/2 : a*(a+1)/2+a+1]
					y[a] = 2 * (mean[0]*mean[a] + row[0])
					offset[a] = 2 * mean[a]
					out := second[:a]
					second = second[a:]
					for c := range out {
						out[c] = 2 * (mean[a]*mean[c+1] + row[c+1])
					}
					out[a-1] *= 0.5
				}
				for e := first.start[t]; e < first.start[t+1]; e++ {
					l := int(first.partner[e])
					block := p.blocks[l*p.stride : (l+1)*p.stride]
					z := mean[0] + block[q]
					for a, v := range mean[1:] {
						z += v * block[a+1]
					}
					i := first.rows[e]
					r.mean[i] = z
					r.spread[i] = max(0, floats.Dot(own, block)-z*z)
				}
			}
		}
	})
}

// each runs f over [0, n) on the workers and waits; start makes the f of one worker.
func (p *pairs) each(n int, start func() func(lo, hi int)) {
	count := (n + featureBlock - 1) / featureBlock
	workers := p.refit.workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	run := func() {
		f := start()
		for b := int(next.Add(1)) - 1; b < count; b = int(next.Add(1)) - 1 {
			f(b*featureBlock, min(n, (b+1)*featureBlock))
		}
	}
	if workers = min(workers, count); workers <= 1 {
		run()
		return
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(run)
	}
	running.Wait()
}
