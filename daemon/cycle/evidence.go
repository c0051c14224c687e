package cycle

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// How a model is shown to be worse than another one. Both are scored on the same rows, the excess of a row being its loss under the first model less
// (1 + publish.gate.tolerance) times its loss under the second. What is tested is that the mean excess, each row's bounded by clipQuantile of those on
// the select rows, of a binary label of those of the same label, is at most 0. A gambler who stakes shares of what is had on positive excesses, a mean
// over bets, has more than 1/gateError times the first stake at any time with a probability of at most gateError if that is so (Ville): whenever a refit
// comes to look, and however many rows there are by then. A row is at most 1.9 times what there was, so that seven decide nothing.
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

// scores are the losses of two models on the same rows, and the weights of these, nil for equal ones. ones says which rows have the binary label 1; nil of
// other labels.
type scores struct {
	loss, against, weights []float64
	ones                   []bool
	least                  float64 // what a loss counts as at least
}

// excess returns the excess of each row; where a loss is no number, the side that it is on loses.
func (s *scores) excess(tolerance float64) []float64 {
	out := make([]float64, len(s.loss))
	for i, a := range s.loss {
		a = max(a, s.least)
		b := (1 + tolerance) * max(s.against[i], s.least)
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

// leastOfLabel is how many rows of either binary label tell something by themselves.
const leastOfLabel = 5

// bounds returns the bounds of the excesses of rows of label 0 and of 1. Of a label that one in a hundred rows or fewer have the excesses would be beyond
// the bound of all rows together: what is shown to be worse would be the model that says more of it.
func (s *scores) bounds(on []int, excess []float64) (of [2]float64) {
	var all []float64
	var by [2][]float64
	for _, i := range on {
		all = append(all, excess[i])
		by[s.label(i)] = append(by[s.label(i)], excess[i])
	}
	if min(len(by[0]), len(by[1])) < leastOfLabel {
		by = [2][]float64{all, all}
	}
	return [2]float64{clipOf(by[0]), clipOf(by[1])}
}

// label returns 1 for rows of the binary label 1, and 0.
func (s *scores) label(i int) int {
	if s.ones != nil && s.ones[i] {
		return 1
	}
	return 0
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
	heaviest := 0.0
	for _, i := range on {
		mine.add(i, s.loss[i])
		theirs.add(i, s.against[i])
		heaviest = max(heaviest, s.weight(i))
	}
	c.loss, c.against = mine.mean(), theirs.mean()
	var clip [2]float64
	if len(bounding.loss) >= clipRows {
		clip = bounding.bounds(bounding.all(), bounding.excess(tolerance))
	}
	if min(clip[0], clip[1]) == 0 {
		clip = s.bounds(on, excess)
	}
	most := max(clip[0], clip[1])
	if most == 0 || heaviest == 0 {
		return c
	}
	logs := make([]float64, len(bets))
	for _, i := range on {
		bound := clip[s.label(i)]
		x := min(max(excess[i], -bound), bound) / most * s.weight(i) / heaviest
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
	out := &scores{loss: slices.Concat(s.loss, more.loss), against: slices.Concat(s.against, more.against), ones: slices.Concat(s.ones, more.ones),
		least: more.least}
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
