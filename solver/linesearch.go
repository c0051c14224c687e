package solver

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// LineSearch is the conditional gradient step of Blondel et al. 2017, section 4, without corrective refits:
//
//	U ← (1 − γ)U + γS,  S = −ρ h⊗v with v a subgradient of Ω*'s row norm at the gradient row of h,
//
// where h is the basis vector that selection finds, or one of the model that violates optimality as much. In
// constrained form ρ is τ. In penalised form the problem is min F(U) + λt over Ω(U) ≤ t ≤ ρ (Harchaoui, Juditsky and
// Nemirovski 2015). Its ρ is the objective over λ, as λΩ of the optimum is at most the objective of any point; a
// smaller one at every step leaves the optimum inside. S is 0 where no gradient row exceeds λ.
//
// The gaps are those of every solve. They are at most the gap of Frank and Wolfe, ⟨∇F, U − S⟩ + λΩ(U) − λρ: in
// penalised form gap(s) at sΩ*(∇F) = λ is, as the dual objective there is lower than at s = 1 by at most ρ(Ω*(∇F) −
// λ).

const (
	// lineTrials bounds the step lengths that a search tries. Squared losses take one.
	lineTrials = 40
	// lineAccuracy is the part of the slope at 0 that may be left where a search ends.
	lineAccuracy = 1e-4
	// lineGrowth bounds the growth of a step length from one trial to the next, for losses that hardly curve at
	// first.
	lineGrowth = 10
)

// bySteps reports whether steps by line search take the place of refits.
func (r *solve) bySteps() bool { return r.s.Refit == LineSearch && !r.s.WeightsOnly }

// refitLinearPart is the refit of a solve by line search: of the linear term and the bias, ever sharper while they
// limit the gap. At MaxBasis the vectors are brought to fewer ones, where that changes nothing but Ω, which may fall.
func (r *solve) refitLinearPart() {
	if r.prune(); r.k >= r.s.MaxBasis && r.isSpectral() && !r.workers.cancelled() {
		r.diagonalize()
	}
	r.refitLinear(r.linearShare*r.s.Tolerance, 150)
}

// sharpen makes the refits of the linear term sharper if its part of the gap is above a share of what is asked for.
func (r *solve) sharpen(terms gapTerms) {
	if part, _, _ := terms.ridge.at(1); part > settleShare*r.s.Tolerance*terms.objective {
		r.linearShare = max(0.1*r.linearShare, 1e-12)
	}
}

// goOn returns 0 if a solve by line search is to make another step, or why it ends. Now describes the current point,
// whose objective has fallen by decrease since the one before.
func (r *solve) goOn(terms gapTerms, now Step, decrease float64, limit bool) Status {
	enough := now.Gap <= r.s.Tolerance*terms.objective
	switch {
	case r.rough() && (enough || decrease <= stallFraction*r.s.Tolerance*r.objective):
		return Stalled
	case limit:
		return BasisLimit
	case enough || decrease <= 0x1p-52*r.objective:
		if r.spent() {
			return TimeBudget
		}
		if !r.concludeSteps(terms) {
			return Stalled
		}
	}
	r.sharpen(terms)
	return 0
}

// concludeSteps is conclude of a solve by line search: it searches carefully and, where that finds nothing either,
// certifies the point.
func (r *solve) concludeSteps(terms gapTerms) (goesOn bool) {
	fell := r.rounds == 0 || r.objective < r.best
	r.concluded, r.rounds, r.best = len(r.result.Steps), r.rounds+1, r.objective
	beyond := func() bool { return terms.at(r.last.criterion) > r.s.Tolerance*terms.objective }
	r.last = r.gamma.selectBasis(r.s.Penalty, r.last.eigen.vectors, r.careful(), r.s.Seed)
	if fell && beyond() {
		return true
	}
	r.certificate = r.certify(terms, false)
	if fell && r.certificate.exact && beyond() {
		r.certificate = nil
		return true
	}
	return false
}

// lineStep moves the weights toward the vertex of the last selection. The point stays what it is where no step lowers
// the objective.
func (r *solve) lineStep(terms gapTerms) {
	reach := r.s.Tau
	if reach == 0 {
		reach = max(terms.norm, min(terms.objective/r.s.Lambda, maxParameter))
	}
	gradient, row := r.last.gradient, r.k
	if terms.own >= r.last.criterion {
		for row = range r.k {
			if gradient = terms.rows[row*r.m : row*r.m+r.m]; r.s.Penalty.RowDual(gradient) >= terms.own {
				break
			}
		}
	}
	vertex, added := make([]float64, r.m), 0.0 // added is λΩ(S)
	switch {
	case r.s.Penalty.RowDual(gradient) <= r.s.Lambda:
		row = -1
	case row == r.k:
		r.append(r.last.basis)
		fallthrough
	default:
		r.s.Penalty.subgradient(vertex, gradient)
		floats.Scale(-reach, vertex)
		added = r.s.Lambda * reach
	}
	toward := make([]float64, len(r.v))
	if row >= 0 {
		copy(toward[row*r.m:], vertex)
	}
	floats.Sub(toward, r.v)
	r.linear.predictTo(r.output.offset, r.linear.theta)
	length := r.output.searchAlong(r.v, toward, added-r.output.form.term(r.v, r.k, r.m))
	if r.workers.cancelled() {
		return
	}
	floats.AddScaled(r.v, length, toward)
	if length == 1 { // exactly
		clear(r.v)
		if row >= 0 {
			copy(r.v[row*r.m:], vertex)
		}
	}
}

// subgradient stores in dst the vector of row norm 1 whose product with the row is the dual norm of the row (Blondel
// et al. 2017, table 1).
func (p Penalty) subgradient(dst, row []float64) {
	clear(dst)
	switch p {
	case L1:
		largest := 0
		for c, x := range row {
			if math.Abs(x) > math.Abs(row[largest]) {
				largest = c
			}
		}
		dst[largest] = math.Copysign(1, row[largest])
	case L1L2:
		if norm := norm2(row); norm > 0 {
			floats.ScaleTo(dst, 1/norm, row)
		}
	default:
		for c, x := range row {
			if x != 0 {
				dst[c] = math.Copysign(1, x)
			}
		}
	}
}

// searchAlong returns the length in [0, 1] of a step from weights v (k×m) toward v + direction that is best among
// those tried, for the loss and a part of the objective that changes by slope times the length. The function is
// convex. The first trial takes the bound of the loss's curvature and ends where it still falls. The next ones are
// zeros of secants of the derivative, kept between the longest length at which the function falls and the shortest at
// which it rises.
func (f *outputFit) searchAlong(v, direction []float64, slope float64) float64 {
	f.takeOffset()
	start, bend := f.along(v, direction)
	if f.workers.cancelled() {
		return 0
	}
	first := start
	first.slope += slope
	if bend *= f.p.Loss.Curvature(f.p.Outputs); !(first.slope < 0) || !(bend < math.MaxFloat64) {
		return 0
	}
	best, falls, rises := first, 0.0, math.Inf(1)
	before, length := first, 1.0
	if bend > 0 {
		length = min(1, -first.slope/bend)
	}
	for range lineTrials {
		now := f.trial(length)
		if f.workers.cancelled() {
			return 0
		}
		now.value += slope * length
		now.slope += slope
		if now.value < best.value {
			best = now
		}
		if math.Abs(now.slope) <= -lineAccuracy*first.slope || length == 1 && now.slope < 0 {
			break
		}
		if now.slope < 0 {
			falls = length
		} else {
			rises = length // NaN as well
		}
		next := length - now.slope*(length-before.length)/(now.slope-before.slope)
		switch ceiling := min(1, lineGrowth*falls); {
		case math.IsInf(rises, 1) && !(next < ceiling):
			next = ceiling
		case !math.IsInf(rises, 1) && !(next > falls && next < rises):
			next = 0.5 * (falls + rises)
		}
		if before = now; next == length || next <= falls {
			break
		}
		length = next
	}
	return best.length
}

// linePoint is what is known at one length of a step.
type linePoint struct{ length, value, slope float64 }

// along prepares trials of steps from v toward v + direction and returns the point of length 0, and the weighted sum
// of the squares of what predictions change by. The predictions are kept in current, their changes in next.
func (f *outputFit) along(v, direction []float64) (start linePoint, square float64) {
	f.activate(f.next, direction)
	m := f.p.Outputs
	sums := make([]float64, numBlocks(f.p.X.NumRows()))
	f.workers.blocks(f.p.X.NumRows(), rowBlock(f.p.X.NumRows()), func(_, b, lo, hi int) {
		for ; lo < hi; lo += fitTile {
			to := min(hi, lo+fitTile)
			f.predict(f.current[lo*m:to*m], v, lo, to)
			for at, x := range f.next[lo*m : to*m] {
				sums[b] += f.p.Weight(lo+at%(to-lo)) * x * x
			}
		}
	})
	return f.trial(0), floats.Sum(sums)
}

// trial evaluates the loss at a length of a step that along has prepared, and its derivative in the length.
func (f *outputFit) trial(length float64) linePoint {
	m := f.p.Outputs
	values, slopes := make([]float64, numBlocks(f.p.X.NumRows())), make([]float64, numBlocks(f.p.X.NumRows()))
	f.workers.blocks(f.p.X.NumRows(), rowBlock(f.p.X.NumRows()), func(worker, b, lo, hi int) {
		work := &f.scratch[worker]
		for ; lo < hi; lo += fitTile {
			to := min(hi, lo+fitTile)
			tile, move := work.tile[:(to-lo)*m], f.next[lo*m:to*m]
			floats.AddScaledTo(tile, f.current[lo*m:to*m], length, move)
			values[b] += work.loss.eval(tile, tile, f.target[lo*m:to*m], f.weightsOf(lo, to), to-lo)
			slopes[b] += floats.Dot(tile, move)
		}
	})
	return linePoint{length, floats.Sum(values), floats.Sum(slopes)}
}
