package cycle

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// How a model is shown to be worse than another one. Both are scored on the same rows, the excess of a row being its loss under the first model less
// (1 + publish.gate.tolerance) times its loss under the second. What is tested is that the mean excess, each row's bounded by clipQuantile of those on
// the select rows, is at most 0. A gambler who stakes shares of what is had on positive excesses, a mean over bets, has more than 1/gateError times
// the first stake at any time with a probability of at most gateError if that is so (Ville): whenever a refit comes to look, and however many rows
// there are by then. A row is at most 1.9 times what there was, so that seven decide nothing.
const (
	gateError    = 0.05
	clipQuantile = 0.99
	clipRows     = 100 // select rows, below which the rows that are compared bound themselves
)

// bets are the shares of the capital that are staked. With the smallest, 50,000 rows tell an excess of a hundredth of the bound.
var bets = []float64{0.9, 0.6, 0.3, 0.15, 0.08, 0.04, 0.02, 0.01}

// comparison is the paired test of one model against another.
type comparison struct {
	rows     int
	loss     float64 // mean of the first model, NaN without rows
	against  float64 // mean of the second
	evidence float64 // capital of the gambler: that the first is worse
}

// isWorse reports whether the first model was shown to be worse in one of a number of tests, all of which together err with a probability of gateError.
func (c *comparison) isWorse(tests int) bool { return c.evidence >= float64(tests)/gateError }

// scores are the losses of two models on the same rows, and the weights of these, nil for equal ones.
type scores struct {
	loss, against, weights []float64
}

// excess returns the excess of each row; where a loss is no number, the side that it is on loses.
func (s *scores) excess(tolerance float64) []float64 {
	out := make([]float64, len(s.loss))
	for i, a := range s.loss {
		b := (1 + tolerance) * s.against[i]
		switch bad, other := !(a < math.MaxFloat64), !(b < math.MaxFloat64); {
		case bad && !other:
			out[i] = math.MaxFloat64
		case other && !bad:
			out[i] = -math.MaxFloat64
		case !bad:
			out[i] = a - b
		}
	}
	return out
}

// clipOf returns the bound of excesses.
func clipOf(excess []float64) float64 {
	if len(excess) == 0 {
		return 0
	}
	size := make([]float64, len(excess))
	for i, x := range excess {
		size[i] = math.Abs(x)
	}
	slices.Sort(size)
	return size[int(clipQuantile*float64(len(size)-1))]
}

// compare tests whether the first model is worse on the rows of the given numbers. The bound of an excess is that of the rows in
// bounding, or of the compared ones if those are few.
func (s *scores) compare(on []int, tolerance float64, bounding *scores) comparison {
	excess := s.excess(tolerance)
	c := comparison{rows: len(on), evidence: 1}
	mine, theirs := weightedSum{weights: s.weights}, weightedSum{weights: s.weights}
	compared, heaviest := make([]float64, len(on)), 0.0
	for e, i := range on {
		mine.add(i, s.loss[i])
		theirs.add(i, s.against[i])
		compared[e] = excess[i]
		heaviest = max(heaviest, s.weight(i))
	}
	c.loss, c.against = mine.mean(), theirs.mean()
	clip := 0.0
	if len(bounding.loss) >= clipRows {
		clip = clipOf(bounding.excess(tolerance))
	}
	if clip == 0 {
		clip = clipOf(compared)
	}
	if clip == 0 || heaviest == 0 {
		return c
	}
	logs := make([]float64, len(bets))
	for e, x := range compared {
		x = min(max(x/clip, -1), 1) * s.weight(on[e]) / heaviest
		for b, share := range bets {
			logs[b] += math.Log1p(share * x)
		}
	}
	c.evidence = math.Exp(min(floats.LogSumExp(logs)-math.Log(float64(len(bets))), maxLogEvidence))
	return c
}

// maxLogEvidence keeps the capital finite.
const maxLogEvidence = 100

func (s *scores) weight(i int) float64 {
	if s.weights == nil {
		return 1
	}
	return s.weights[i]
}

// all returns the numbers of all rows.
func (s *scores) all() []int {
	out := make([]int, len(s.loss))
	for i := range out {
		out[i] = i
	}
	return out
}

// with returns the scores of two sets of rows together.
func (s *scores) with(more *scores) *scores {
	out := &scores{loss: slices.Concat(s.loss, more.loss), against: slices.Concat(s.against, more.against)}
	if s.weights != nil || more.weights != nil {
		for i := range s.loss {
			out.weights = append(out.weights, s.weight(i))
		}
		for i := range more.loss {
			out.weights = append(out.weights, more.weight(i))
		}
	}
	return out
}
