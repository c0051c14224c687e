package encode

import (
	"math"

	"github.com/refitd/refitd/daemon/report"
)

// Open is what is known of rows whose label is not final: which share of the outcomes that come at all have come at the
// age of a row. It is 1 of rows that have one, and of those whose window is over.
type Open struct {
	Train  []float64 // by row
	Select []float64
	Rate   float64 // share of the events that have an outcome at all, as estimated
}

// SetOutcomes says how events and outcomes met. open is nil where every label is final.
func (s *Sample) SetOutcomes(joined *report.Outcomes, open *Open) { s.joined, s.open = joined, open }

// Outcomes returns how events and outcomes met, nil where labels come with events.
func (s *Sample) Outcomes() *report.Outcomes { return s.joined }

// HasOpen reports whether there are rows whose label is not final.
func (s *Sample) HasOpen() bool { return s.open != nil }

// WeighOpen multiplies the weights of open rows by OpenWeight and has the training rows' mean 1 again. rate returns the
// probability that an event has an outcome at all, of its row, and is asked about open rows alone; nil is the estimated
// share of all. The gate's rows have final labels.
func (s *Sample) WeighOpen(rate func(payload []byte) float64) {
	if s.open == nil {
		return
	}
	of := func(payload []byte) float64 {
		if rate == nil {
			return s.open.Rate
		}
		return rate(payload)
	}
	weigh := func(weights []float64, rows [][]byte, come []float64) {
		for i, share := range come {
			if share < 1 {
				weights[i] *= OpenWeight(share, of(rows[i]))
			}
		}
	}
	s.Weights = ones(s.Weights, len(s.Train))
	s.HeldOutWeights = ones(s.HeldOutWeights, len(s.Select)+len(s.Gate))
	weigh(s.Weights, s.Train, s.open.Train)
	weigh(s.HeldOutWeights, s.Select, s.open.Select)
	sum := 0.0
	for _, w := range s.Weights {
		sum += w
	}
	by := float64(len(s.Weights)) / max(sum, math.SmallestNonzeroFloat64)
	for _, list := range [][]float64{s.Weights, s.HeldOutWeights} {
		for i := range list {
			list[i] *= by
		}
	}
	s.open = nil
}

// ones returns weights, or n times 1 for nil.
func ones(weights []float64, n int) []float64 {
	if weights != nil {
		return weights
	}
	weights = make([]float64, n)
	for i := range weights {
		weights[i] = 1
	}
	return weights
}

// leastOpenWeight keeps a row that has just come a row: the solver's weights are positive. Chosen by hand.
const leastOpenWeight = 1e-3

// OpenWeight is what an event counts that has no outcome yet, where a share come of the outcomes have come at its age
// and its outcome comes at all with probability rate. With it the rows like it of one age, each with an outcome
// counting 1, have the right share of outcomes, and count come together:
//
//	rate·come / (rate·come + (1 - rate·come)·w) = rate
//
// It is the probability that an outcome would have come by now, but for what is known by its absence: come times the
// posterior of "none will come" of Chapelle 2014. Without that, come alone gives rate / (1 + rate·(1 - come)).
func OpenWeight(come, rate float64) float64 {
	w := come * (1 - rate) / max(1-rate*come, math.SmallestNonzeroFloat64)
	if !(w > leastOpenWeight) {
		return leastOpenWeight
	}
	return min(w, 1)
}
