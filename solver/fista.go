package solver

import "github.com/refitd/refitd/solver/internal/dense"

// outputFit refits the output weights V with the basis fixed: min_V Σ_i w_i ℓ(t_i, offset_i + (ΦV)_i) + λ Ω(V), a convex problem
// (Blondel et al. 2017, section 4 and appendix D). Φ is kept as k columns of length n, so that a basis vector is added or dropped
// without moving the others.
type outputFit struct {
	p       *Problem
	form    form
	workers workers

	phi    [][]float64 // k columns of K(h_r, x_i), n each
	offset []float64   // n×m: linear term and bias
	smooth float64     // Lipschitz estimate carried over from refit to refit; 0 at first
	gram   *gramMatrices

	// In tiles, see toTiles:
	base    []float64 // n×m: offset
	target  []float64 // n×m
	current []float64 // n×m predictions at the last point
	next    []float64 // n×m predictions at the trial point

	scratch []fitScratch
	parts   [][]float64 // per block: loss at the trial point, loss at the extrapolated point, gradient k×m
}

// fitScratch belongs to one worker.
type fitScratch struct {
	tile   []float64 // m×fitTile: extrapolated predictions, then gradients
	target []float64 // m×fitTile where targets are not kept in tiles, else nil
	row    []float64 // m
	loss   *lossTile
}

func newFitScratch(p *Problem, workers int) []fitScratch {
	scratch := make([]fitScratch, workers)
	for w := range scratch {
		scratch[w] = fitScratch{tile: make([]float64, p.Outputs*fitTile), row: make([]float64, p.Outputs), loss: newLossTile(p.Loss, p.Outputs)}
	}
	return scratch
}

// Passes over rows take them in blocks, each with a separate partial result: passBlocks to twice as many, so that few
// workers have nearly equal shares of them, but none of more than fitBlock rows. Both are multiples of fitTile.
const (
	fitBlock   = 16 * fitTile
	passBlocks = 16
)

// rowBlock returns the number of rows of a block of n. It depends on n alone, so that results do not depend on the number of workers.
func rowBlock(n int) int {
	return min(fitBlock, max(1, n/(passBlocks*fitTile))*fitTile)
}

// numBlocks returns how many blocks n rows make.
func numBlocks(n int) int { return (n + rowBlock(n) - 1) / rowBlock(n) }

func newOutputFit(p *Problem, form form, workers workers) *outputFit {
	n, m := p.X.NumRows(), p.Outputs
	f := &outputFit{p: p, form: form, workers: workers}
	f.offset = make([]float64, n*m)
	f.base = make([]float64, n*m)
	f.target = make([]float64, n*m)
	f.current = make([]float64, n*m)
	f.next = make([]float64, n*m)
	toTiles(f.target, p.Targets, m, 0, n)
	f.parts = make([][]float64, numBlocks(n))
	f.scratch = newFitScratch(p, workers.size)
	return f
}

// fitLimits says when a refit ends: at iterations, or when the objective falls by less than tolerance of itself over span iterations.
// The size of steps or parameter changes would stop far too early on ill-conditioned features.
type fitLimits struct {
	tolerance        float64
	span, iterations int
}

// minimize improves v (k×m) by FISTA, see accelerated, and returns the iterations used.
func (f *outputFit) minimize(v []float64, limits fitLimits) int {
	if len(f.phi) == 0 || f.workers.cancelled() {
		return 0
	}
	f.takeOffset()
	return accelerated(f, f.workers, &f.smooth, v, limits)
}

func (f *outputFit) accept() { f.current, f.next = f.next, f.current }

func (f *outputFit) term(v []float64) float64 { return f.form.term(v, len(f.phi), f.p.Outputs) }

func (f *outputFit) step(v []float64, t float64) { f.form.step(v, len(f.phi), f.p.Outputs, t) }

// initialSmoothness is ‖Φ‖_F² · curvature / 16: the estimate ends 13 to 50 times below the bound, and a value too small is doubled.
func (f *outputFit) initialSmoothness() float64 {
	sum := 0.0
	for _, column := range f.phi {
		for i, a := range column {
			sum += a * a * f.p.Weight(i)
		}
	}
	return max(sum*f.p.Loss.Curvature(f.p.Outputs)/16, 1e-12)
}

// pass stores the predictions of v in f.next and evaluates the loss there and at the point extrapolated from f.current by momentum, with
// the gradient of the latter in V (k×m).
func (f *outputFit) pass(v []float64, momentum float64) (value, valueY float64, gradient []float64) {
	k, m := len(f.phi), f.p.Outputs
	f.workers.blocks(f.p.X.NumRows(), rowBlock(f.p.X.NumRows()), func(worker, b, lo, hi int) {
		f.parts[b] = room(f.parts[b], 2+k*m)
		for a := lo; a < hi; a += fitTile {
			f.tile(f.parts[b], v, momentum, &f.scratch[worker], a, min(hi, a+fitTile))
		}
	})
	total := make([]float64, 2+k*m)
	sumInto(total, f.parts)
	return total[0], total[1], total[2:]
}

func (f *outputFit) tile(part, v []float64, momentum float64, work *fitScratch, lo, hi int) {
	m, size := f.p.Outputs, hi-lo
	at := f.next[lo*m : hi*m]
	f.predict(at, v, lo, hi)
	y, target := work.tile[:size*m], f.target[lo*m:hi*m]
	weight := f.weightsOf(lo, hi)
	var value, valueY float64
	if momentum == 0 {
		value = work.loss.eval(y, at, target, weight, size)
		valueY = value
	} else {
		value = work.loss.eval(nil, at, target, weight, size)
		for i, last := range f.current[lo*m : hi*m] {
			y[i] = at[i] + momentum*(at[i]-last)
		}
		valueY = work.loss.eval(y, y, target, weight, size)
	}
	part[0] += value
	part[1] += valueY
	dense.DotAdd(part[2:], f.phi, lo, size, y, size, m)
}

// weightsOf returns the weights of rows lo..hi−1, nil for weights of 1.
func (f *outputFit) weightsOf(lo, hi int) []float64 {
	if f.p.Weights == nil {
		return nil
	}
	return f.p.Weights[lo:hi]
}

// predict stores base + ΦV of the tile of rows lo..hi−1 in dst.
func (f *outputFit) predict(dst, v []float64, lo, hi int) {
	m := f.p.Outputs
	copy(dst, f.base[lo*m:hi*m])
	dense.MulAdd(dst, hi-lo, f.phi, lo, hi-lo, v, m)
}

// takeOffset lays offset out in tiles.
func (f *outputFit) takeOffset() {
	f.workers.blocks(f.p.X.NumRows(), rowBlock(f.p.X.NumRows()), func(_, _, lo, hi int) {
		toTiles(f.base, f.offset, f.p.Outputs, lo, hi)
	})
}

// activate stores ΦV in dst (n×m, in tiles).
func (f *outputFit) activate(dst, v []float64) {
	m := f.p.Outputs
	f.workers.blocks(f.p.X.NumRows(), fitTile, func(_, _, lo, hi int) {
		clear(dst[lo*m : hi*m])
		dense.MulAdd(dst[lo*m:hi*m], hi-lo, f.phi, lo, hi-lo, v, m)
	})
}

// predictions stores offset + ΦV in dst (n×m).
func (f *outputFit) predictions(dst, v []float64) {
	f.takeOffset()
	m := f.p.Outputs
	f.workers.blocks(f.p.X.NumRows(), fitTile, func(worker, _, lo, hi int) {
		tile := f.scratch[worker].tile[:(hi-lo)*m]
		f.predict(tile, v, lo, hi)
		fromTile(dst[lo*m:hi*m], tile, m, hi-lo)
	})
}
