package output

import (
	"math"

	"github.com/refitd/refitd/solver/loss"
	"github.com/refitd/refitd/solver/problem"
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

// SearchAlong returns the length in [0, 1] of a step from weights v (k×m) toward v + direction that is best among
// those tried, for the loss and a part of the objective that changes by slope times the length. The function is
// convex. The first trial takes the bound of the loss's curvature and ends where it still falls. The next ones are
// zeros of secants of the derivative, kept between the longest length at which the function falls and the shortest at
// which it rises.
func (f *OutputFit) SearchAlong(v, direction []float64, slope float64) float64 {
	f.TakeOffset()
	start, bend := f.Along(v, direction)
	if f.Workers.Cancelled() {
		return 0
	}
	first := start
	first.slope += slope
	if bend *= f.P.Loss.Curvature(f.P.Outputs); !(first.slope < 0) || !(bend < math.MaxFloat64) {
		return 0
	}
	best, falls, rises := first, 0.0, math.Inf(1)
	before, length := first, 1.0
	if bend > 0 {
		length = min(1, -first.slope/bend)
	}
	for range lineTrials {
		now := f.Trial(length)
		if f.Workers.Cancelled() {
			return 0
		}
		now.Value += slope * length
		now.slope += slope
		if now.Value < best.Value {
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
type linePoint struct{ length, Value, slope float64 }

// Along prepares trials of steps from v toward v + direction and returns the point of length 0, and the weighted sum
// of the squares of what predictions change by. The predictions are kept in current, their changes in next.
func (f *OutputFit) Along(v, direction []float64) (start linePoint, square float64) {
	f.Activate(f.Next, direction)
	m := f.P.Outputs
	sums := make([]float64, problem.NumBlocks(f.P.X.NumRows()))
	f.Workers.Blocks(f.P.X.NumRows(), problem.RowBlock(f.P.X.NumRows()), func(_, b, lo, hi int) {
		for ; lo < hi; lo += loss.FitTile {
			to := min(hi, lo+loss.FitTile)
			f.predict(f.Current[lo*m:to*m], v, lo, to)
			for at, x := range f.Next[lo*m : to*m] {
				sums[b] += f.P.Weight(lo+at%(to-lo)) * x * x
			}
		}
	})
	return f.Trial(0), floats.Sum(sums)
}

// Trial evaluates the loss at a length of a step that along has prepared, and its derivative in the length.
func (f *OutputFit) Trial(length float64) linePoint {
	m := f.P.Outputs
	values, slopes := make([]float64, problem.NumBlocks(f.P.X.NumRows())), make([]float64,
		problem.NumBlocks(f.P.X.NumRows()))
	f.Workers.Blocks(f.P.X.NumRows(), problem.RowBlock(f.P.X.NumRows()), func(worker, b, lo, hi int) {
		work := &f.Scratch[worker]
		for ; lo < hi; lo += loss.FitTile {
			to := min(hi, lo+loss.FitTile)
			tile, move := work.Tile[:(to-lo)*m], f.Next[lo*m:to*m]
			floats.AddScaledTo(tile, f.Current[lo*m:to*m], length, move)
			values[b] += work.Loss.Eval(tile, tile, f.Target[lo*m:to*m], f.weightsOf(lo, to), to-lo)
			slopes[b] += floats.Dot(tile, move)
		}
	})
	return linePoint{length, floats.Sum(values), floats.Sum(slopes)}
}
