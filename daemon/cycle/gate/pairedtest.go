package gate

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"gonum.org/v1/gonum/floats"
)

// How a model is shown to be worse than another one. Both are scored on the same rows. A loss counts as at most the
// largest plausible one (scores.most). The excess of a row is its loss under the first model less
// (1 + publish.gate.tolerance) times its loss under the second. The hypothesis is that the mean excess is at most 0.
//
// A gambler begins with a capital of 1. For a stake λ, a row of excess x multiplies it by 1 + min(λx, winShare). Where
// no excess is below −b and λ < 1/b, every factor is positive, and under the hypothesis its mean is at most 1. The
// capital is then a supermartingale, and so is its weighted mean over a list of stakes: it ever reaches 1/gateError
// with a probability of at most gateError, whenever refits come to look and however many rows there are by then (Ville
// 1939; Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by betting).
//
// Excesses are cut from above alone. That lowers their mean and keeps the bound on the error. Gains, which are negative
// excesses, are never cut: a class of one row in 200 that the first model has learned counts with all that it gains.
// What is cut depends on the stake: under small stakes large losses of the first model count in full, under large ones
// each wins one share and hides nothing of the other rows. Five rows win at most (1 + winShare)^5 = 14 and decide
// nothing.
//
// The bound b is the largest gain of the compared rows and of the select rows. Where a label of the training rows came
// on fewer than LeastOfLabel of these, its gains are not known, and b is what one label can lose (scores.hidden). The
// bound on the error so has a premise: gains that are larger than all of N rows, of labels that these have, do not
// decide the sign of the mean. Their probability is about 3/N at most. Literature: gateError is the 5 % level.
// Derived: winShare, from what five rows may win. The others are chosen by hand.
const (
	gateError    = 0.05
	winShare     = 0.7 // of the capital, what one row wins at most
	largestStake = 0.8 // of the capital, what a row of the largest gain loses at most
	LeastOfLabel = 5   // rows of a label that show what its rows gain or lose
)

// The stakes are largestStake/b, and each half of the one before. The nearStakes find differences of the size of gains.
// The farStakes find rare losses up to 2^farStakes times as large as the largest gain, such as those of a class that
// was forgotten.
// Their weights are chosen so that the power on 400 rows is that of a test that cuts gains, too (TestGateErrors).
// nearWeight is tuned on the simulated losses of that test. The others are chosen by hand.
const (
	nearStakes = 4
	farStakes  = 10
	nearWeight = 0.88 // of the near ones together
)

// comparison is the paired test of one model against another.
type comparison struct {
	rows     int
	loss     float64 // mean of the first model, NaN without rows
	against  float64 // mean of the second
	evidence float64 // capital of the gambler: that the first is worse
}

// isWorse reports whether the first model was shown to be worse in one of a number of tests, all of which together err
// with a probability of gateError.
func (c *comparison) isWorse(tests int) bool { return c.evidence >= float64(tests)/gateError }

// scores are the losses of two models on the same rows, and the weights of these, nil for equal ones.
type scores struct {
	loss, against, weights []float64
	most                   float64 // what a loss counts as at most; 0 for no bound
	least                  float64 // what a loss counts as at least
	hidden                 float64 // what a row of a label with too few rows may lose; 0 where there is no such label
}

// excess returns the excess of each row. A loss that is no number counts as the largest.
func (s *scores) excess(tolerance float64) []float64 {
	most := s.most
	if most == 0 {
		most = math.MaxFloat64 / 8 // of which sums and multiples are finite
	}
	bounded := func(loss float64) float64 {
		return max(encode.BoundLoss(loss, most), s.least)
	}
	out := make([]float64, len(s.loss))
	for i, a := range s.loss {
		out[i] = bounded(a) - (1+tolerance)*bounded(s.against[i])
	}
	return out
}

// compare tests whether the first model is worse on the rows of the given numbers. The bound of gains is that of all
// rows and of those in bounding.
func (s *scores) compare(on []int, tolerance float64, bounding *scores) comparison {
	excess := s.excess(tolerance)
	c := comparison{rows: len(on), evidence: 1}
	mine, theirs := evaluate.WeightedSum{Weights: s.weights}, evaluate.WeightedSum{Weights: s.weights}
	heaviest, worst := 0.0, 0.0
	for _, i := range on {
		mine.Add(i, s.loss[i])
		theirs.Add(i, s.against[i])
		heaviest, worst = max(heaviest, s.weight(i)), max(worst, excess[i])
	}
	c.loss, c.against = mine.Mean(), theirs.Mean()
	gain := (1 + tolerance) * s.hidden
	for _, x := range slices.Concat(excess, bounding.excess(tolerance)) {
		gain = max(gain, -x)
	}
	gain = max(gain, math.Ldexp(worst, 1-nearStakes-farStakes)) // the smallest stake wins no more from the worst row
	if worst == 0 || heaviest == 0 {
		return c
	}
	logs := make([]float64, nearStakes+farStakes)
	for k := range logs {
		stake := math.Ldexp(largestStake/gain, -k)
		if logs[k] = math.Log(nearWeight / nearStakes); k >= nearStakes {
			logs[k] = math.Log((1 - nearWeight) / farStakes)
		}
		for _, i := range on {
			logs[k] += math.Log1p(min(stake*excess[i]*s.weight(i)/heaviest, winShare))
		}
	}
	c.evidence = math.Exp(min(floats.LogSumExp(logs), maxLogEvidence))
	return c
}

// maxLogEvidence keeps the capital finite. Chosen by hand; decisions are made far below it.
const maxLogEvidence = 100

func (s *scores) weight(i int) float64 { return encode.WeightAt(s.weights, i) }

// all returns the numbers of all rows.
func (s *scores) all() []int { return encode.CountTo(len(s.loss)) }

// with returns the scores of two sets of rows together.
func (s *scores) with(more *scores) *scores {
	out := &scores{
		loss:    slices.Concat(s.loss, more.loss),
		against: slices.Concat(s.against, more.against),
		most:    more.most,
		least:   more.least,
		hidden:  more.hidden,
	}
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
