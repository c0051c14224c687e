package sweep

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/refitd/refitd/solver/internal/dense"
	"github.com/refitd/refitd/solver/internal/parallel"
	"github.com/refitd/refitd/solver/posterior"
)

// pairs is the fast path for samples in which every row is a pair of units: of two features of value 1, the first of
// one field and the second of another, such as a user and an item, or of two groups (units.go). What a unit's posterior
// needs from a row is then a fixed list of expectations of the partner's, its block; a unit adds up the blocks of its
// partners and solves once. For Gaussian outputs the weight of a row is the noise precision times the row's own weight,
// so the sums are plain, and the residual, θ and the noise follow from them: no pass over the rows is needed at all.
//
// The block of a feature with row (w, h) and signed coordinates y = (1, s∘h), seen by a partner, is
//
//	E[y]  E[w y]  E[w²]  E[y_a y_b] for 1 ≤ b ≤ a          q + q + 1 + k(k+1)/2 numbers, padded to whole cache lines
type pairs struct {
	refit   *Refit
	sides   [2]pairSide // the lower field first; rows are in the order of the first side
	blocks  []float64   // of one side at a time
	stride  int         // length of a block
	summed  bool        // Gaussian outputs and no other fields: sums over the rows are all that is needed of them
	squares []float64   // summed: per feature of the second side, its share of the expected squared residuals
	errors  []float64   // and of the residuals
	total   [3]float64  // summed: Σ weight·target^e, e = 0, 1, 2
	right   []float64   // not summed: Refit.right without what other fields explain
	// where there are other fields: the mean and variance of what their linear weights add to z in every row
	offset []float64
	spread []float64
}

// A goroutine takes chunkBytes of sums at a time and adds to them the blocks of tileBytes of partners after another, so
// that both stay in a core's second cache (1 MB) while they meet. A feature's partners come in the same order for any
// size. Small samples are shared out in chunkShares chunks per goroutine. Derived: the sizes, from that cache. The
// shares are chosen by hand.
const (
	chunkBytes  = 512 << 10
	tileBytes   = 256 << 10
	chunkShares = 4
)

// blockSize is the length of a block for k basis vectors.
func blockSize(k int) int { return (2*(k+1) + 1 + k*(k+1)/2 + 7) &^ 7 }

// newPairs returns nil unless the sample is made of pairs.
func newPairs(r *Refit) *pairs {
	if r.state.Group != nil {
		return newUnitPairs(r)
	}
	x, field := r.problem.X, r.state.Field
	if x.NumRows() == 0 || r.state.MainOnly == nil && len(x.Index) != 2*x.NumRows() {
		return nil
	}
	first, second := make([]int32, x.NumRows()), make([]int32, x.NumRows())
	a, b := int32(0), int32(0)
	for i := range first {
		j, l := r.state.PairOf(x.Row(i))
		if l < 0 {
			return nil
		}
		if i == 0 {
			a, b = field[j], field[l]
		}
		if field[j] != a || field[l] != b {
			return nil
		}
		first[i], second[i] = j, l
	}
	// Fields come in ascending order in a row, so this is a sample of one field.
	if a >= b {
		return nil
	}
	p := &pairs{refit: r}
	// A side numbers its features without those that do not occur: blocks and sums are dense in that number.
	local := make([]int32, x.NumColumns)
	for n, f := range []int32{a, b} {
		s := &p.sides[n]
		s.field = int(f)
		s.start = []int{0}
		for j, g := range field {
			if rows := r.columns.count(j); g == f && rows > 0 {
				local[j] = int32(len(s.features))
				s.features = append(s.features, int32(j))
				s.start = append(s.start, s.start[len(s.features)-1]+rows)
			}
		}
	}
	for i := range first {
		first[i], second[i] = local[first[i]], local[second[i]]
	}
	p.prepare(first, second)
	return p
}

// prepare orders the rows, whose units of the first and second side are given, and makes room for the sums.
func (p *pairs) prepare(first, second []int32) {
	r := p.refit
	k := r.state.NumBasis
	p.stride = blockSize(k)
	p.summed = r.state.Likelihood == posterior.Gaussian && r.state.MainOnly == nil
	p.order(first, second)
	// One side is swept given the other, so one array serves both.
	p.blocks = make([]float64, p.stride*max(p.sides[0].size(), p.sides[1].size()))
	if r.state.MainOnly != nil {
		n := r.problem.X.NumRows()
		p.right, p.offset, p.spread = make([]float64, n), make([]float64, n), make([]float64, n)
	}
	if p.summed {
		p.squares, p.errors = make([]float64, p.sides[1].size()), make([]float64, p.sides[1].size())
		for i, t := range r.problem.Targets {
			w := r.problem.Weight(i)
			p.total[0] += w
			p.total[1] += w * t
			p.total[2] += w * t * t
		}
	}
}

// takeOffsets sets what the other fields add to every row.
func (p *pairs) takeOffsets() {
	r := p.refit
	if p.offset == nil {
		return
	}
	r.parallel(len(p.offset), func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			p.offset[i], p.spread[i] = r.state.MainEffects(r.problem.X.Row(i))
			p.right[i] = r.right[i] - r.omega[i]*p.offset[i]
		}
	})
}

// sweepField updates a field that is a side. Other fields are main effects, which have been swept. Features without
// rows return to their prior first.
func (p *pairs) sweepField(ctx context.Context, field int) error {
	for j, f := range p.refit.state.Field {
		if int(f) == field && p.refit.columns.count(j) == 0 {
			p.refit.reset(j)
		}
	}
	for n := range p.sides {
		if p.sides[n].field == field {
			return p.sweepSide(ctx, n)
		}
	}
	return nil
}

// sweepSide updates the features of a side.
func (p *pairs) sweepSide(ctx context.Context, n int) error {
	p.share(1 - n)
	// A chunk of sums stays in the cache, and there are enough chunks that no worker waits long for the last.
	size := max(1,
		min(chunkBytes/(8*p.stride), (p.sides[n].size()+chunkShares*p.workers()-1)/(chunkShares*p.workers())))
	p.each(p.sides[n].size(), size, func() func(lo, hi int) {
		w := p.newWork(size)
		return func(lo, hi int) {
			if p.refit.yield(ctx) == nil {
				w.update(n, lo, hi)
			}
		}
	})
	if u := p.sides[n].units; u != nil && ctx.Err() == nil {
		u.sweep(p, n)
	}
	return ctx.Err()
}

// row returns the mean and packed covariance of a unit.
func (p *pairs) row(n, t int) (mean, cov []float64) {
	if u := p.sides[n].units; u != nil {
		return u.row(t)
	}
	return p.refit.state.Row(int(p.sides[n].features[t]))
}

// share fills the blocks with the expectations of a side's units. O(units·k²).
func (p *pairs) share(n int) {
	s := p.refit.state
	k, q := s.NumBasis, s.NumBasis+1
	if u := p.sides[n].units; u != nil {
		u.addRows(s)
	}
	p.each(p.sides[n].size(), featureBlock, func() func(lo, hi int) {
		return func(lo, hi int) {
			for t := lo; t < hi; t++ {
				mean, cov := p.row(n, t)
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
	sums   []float64 // of a chunk of features: stride numbers Σ weight·block each
	heads  []float64 // and q+1 numbers Σ weight·target·(y, w)
	next   []int     // places up to which a feature's partners have been added
	chosen [][]float64
	weight []float64
	right  []float64
	solve  *posterior.RowSolver
}

func (p *pairs) newWork(chunk int) *pairWork {
	q := p.refit.state.NumBasis + 1
	return &pairWork{
		pairs: p,
		sums:  make([]float64, chunk*p.stride),
		heads: make([]float64, chunk*(q+1)),
		next:  make([]int, chunk),
		solve: posterior.NewSolver(q),
	}
}

// update solves for the posteriors of the features [lo, hi) of side n. 2·stride flops per row and about q³ per feature.
func (w *pairWork) update(n, lo, hi int) {
	side := &w.sides[n]
	q := w.refit.state.NumBasis + 1
	clear(w.sums)
	clear(w.heads)
	copy(w.next, side.start[lo:hi])
	// Partners come in ascending order for each feature, so next only moves on: each tile of partners is read from
	// memory once for the whole chunk. The order of additions is that of the partners, whatever tile is.
	tile := max(1, tileBytes/(8*w.stride))
	for end := tile; end < w.sides[1-n].size()+tile; end += tile {
		for t := lo; t < hi; t++ {
			from, to := w.next[t-lo], w.next[t-lo]
			for to < side.start[t+1] && int(side.partner[to]) < end {
				to++
			}
			if from < to {
				w.next[t-lo] = to
				w.add(w.sums[(t-lo)*w.stride:(t-lo+1)*w.stride], w.heads[(t-lo)*(q+1):(t-lo+1)*(q+1)], side, from, to)
			}
		}
	}
	for t := lo; t < hi; t++ {
		sums, head := w.sums[(t-lo)*w.stride:(t-lo+1)*w.stride], w.heads[(t-lo)*(q+1):(t-lo+1)*(q+1)]
		// A unit is no feature: its sums are kept, and its fields solve for theirs afterwards.
		if side.units != nil {
			side.units.keep(w.pairs, t, sums, head)
			continue
		}
		w.finish(n, t, sums, head)
	}
}

// finish solves for a feature with the given sums.
func (w *pairWork) finish(n, t int, sums, head []float64) {
	r, side := w.refit, &w.sides[n]
	s := r.state
	j := int(side.features[t])
	prior := s.PrecisionOf(side.field)
	w.evidence(w.solve.Evidence, w.solve.Right, sums, head)
	mean, cov := s.Row(j)
	w.solve.Finish(prior, mean, cov, &r.logDet[j])
	if n == 1 && w.summed {
		w.residual(t, sums, head, mean, cov, prior)
	}
}

// evidence stores the packed evidence noise·Σ E[y yᵀ] and the right side noise·Σ E[y (t − θ − w)] that the sums hold;
// where rows are not summed, noise and θ are in the pseudo-observations.
func (p *pairs) evidence(a, b, sums, head []float64) {
	s := p.refit.state
	q := len(b)
	noise := 1.0 // in pseudo-observations weights are absolute already
	if p.summed {
		noise = s.Noise
	}
	sum, offset, second := sums[:q], sums[q:2*q], sums[2*q+1:]
	for row, c := 0, 0; c < q; row, c = row+c+1, c+1 {
		a[row] = noise * sum[c]
		for e, v := range second[:c] {
			a[row+1+e] = noise * v
		}
		second = second[c:]
		// E[y w] moves the partner's own linear weight w to the other side of the equation.
		b[c] = head[c] - offset[c]
		if p.summed {
			b[c] = noise * (b[c] - s.Bias[0]*sum[c])
		}
	}
}

// add adds the blocks of the partners at the places [lo, hi).
func (w *pairWork) add(sums, head []float64, side *pairSide, lo, hi int) {
	w.chosen, w.weight, w.right = w.chosen[:0], w.weight[:0], w.right[:0]
	for _, l := range side.partner[lo:hi] {
		w.chosen = append(w.chosen, w.blocks[int(l)*w.stride:int(l+1)*w.stride])
	}
	weight, right := w.weight, w.right
	rest := w.pairs.right
	if rest == nil {
		rest = w.refit.right
	}
	switch {
	// Weights by row: the pseudo-observations, which change from sweep to sweep.
	case side.rows != nil:
		for _, i := range side.rows[lo:hi] {
			weight, right = append(weight, w.refit.omega[i]), append(right, rest[i])
		}
		w.weight, w.right = weight, right
	// Weights of the sample, which never change: ordered once, with the products weight·target.
	case side.weight != nil:
		weight, right = side.weight[lo:hi], side.weighted[lo:hi]
	default:
		for range hi - lo {
			weight = append(weight, 1)
		}
		w.weight, right = weight, side.weighted[lo:hi]
	}
	// Two small matrix products, with partners as the inner dimension: nearly all time of a sweep is here.
	dense.MulAdd(sums, len(sums), w.chosen, 0, len(sums), weight, 1)
	dense.MulAdd(head, len(head), w.chosen, 0, len(head), right, 1)
}

// residual keeps what a feature of the second side, whose posterior has just been solved for, adds to Σ weight·(E o −
// t) and to Σ weight·(E(t − o)² − (t − θ)²) over its rows. With A v̄ = b and (A − D)C = I − DC the second is
//
//	Σ weight·(E w² − 2(t − θ) w) + (q − v̄ᵀb − Σ_a D_a E[v_a²]) / noise
//
// where w is the partner's linear weight and v the feature's row.
func (w *pairWork) residual(t int, sums, head, mean, cov, prior []float64) {
	s := w.refit.state
	q := len(mean)
	gain, change := float64(q), sums[q]
	for a, m := range mean {
		gain -= m*w.solve.Right[a] + prior[a]*(m*m+cov[a*(a+1)/2+a])
		change += m * sums[a]
	}
	w.squares[t] = sums[2*q] - 2*(head[q]-s.Bias[0]*sums[q]) + gain/s.Noise
	w.errors[t] = change
}

// residuals returns Σ weight·E(t − o)², Σ weight·(t − E o) and Σ weight at the last update of the second side. Summed
// rows only.
func (p *pairs) residuals() (squares, errors, n float64) {
	bias := p.refit.state.Bias[0]
	n = p.total[0]
	errors = p.total[1] - bias*n
	// Σ w(t − θ)² = Σ w t² − θ(2 Σ w t − θ Σ w), by what the total keeps.
	squares = p.total[2] - bias*(p.total[1]+errors)
	for t, v := range p.squares {
		squares += v
		errors -= p.errors[t]
	}
	return squares, errors, n
}

// predict refreshes the mean and variance of z for every row; sums over the rows do not need them. With a feature of
// the first side and its partner (w', y'), E z² is a product of moments of the one and moments of the other, so one
// dot product of the partner's block with
//
//	E[w²], 2 E[w h]   2w, 2h   1   (2 − δ_ab) E[h_a h_b]
//
// signs being in the block. 2·stride + 2k flops per row.
func (p *pairs) predict() {
	r := p.refit
	s := r.state
	if p.summed {
		return
	}
	p.takeOffsets()
	k, q := s.NumBasis, s.NumBasis+1
	first := &p.sides[0]
	p.share(1)
	if first.units != nil {
		first.units.addRows(s)
	}
	p.each(first.size(), featureBlock, func() func(lo, hi int) {
		own := make([]float64, p.stride)
		return func(lo, hi int) {
			for t := lo; t < hi; t++ {
				mean, cov := p.row(0, t)
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
					// The diagonal occurs once, all else twice.
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
					// Var z = E z² − (E z)², of which rounding may leave less than 0.
					r.mean[i], r.spread[i] = z, max(0, dense.Dot(own, block)-z*z)
					if p.offset != nil {
						r.mean[i] += p.offset[i]
						r.spread[i] += p.spread[i]
					}
				}
			}
		}
	})
}

func (p *pairs) workers() int {
	if p.refit.workers > 0 {
		return p.refit.workers
	}
	return runtime.GOMAXPROCS(0)
}

// featureBlock is how many features a goroutine takes at a time where features are passed one by one. Chosen by hand;
// no result depends on it.
const featureBlock = 32

// each runs f over [0, n) in blocks of size on the workers and waits; start makes the f of one worker.
func (p *pairs) each(n, size int, start func() func(lo, hi int)) {
	count := (n + size - 1) / size
	workers := min(p.workers(), count)
	// Who is free takes the next block: blocks write apart from each other, so results do not depend on that.
	var next atomic.Int64
	run := func() {
		f := start()
		for b := int(next.Add(1)) - 1; b < count; b = int(next.Add(1)) - 1 {
			f(b*size, min(n, (b+1)*size))
		}
	}
	if workers <= 1 {
		run()
		return
	}
	var running parallel.Group
	for range workers {
		running.Go(run)
	}
	running.Wait()
}
