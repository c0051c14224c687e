package cycle

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
)

// calibrationBins is how many bins of equal mass Calibration has, as the calibration error has.
const calibrationBins = 15

// pair is what a predictor said of an event, and what came: a number, or a probability and 0 or 1.
type pair struct{ predicted, observed float64 }

// Calibration compares, over the window, what was predicted with what came: of numbers the mean prediction with the mean label, of a binary label the
// probability of 1 with its frequency, of several classes the probability of the predicted class with how often it was right. It is empty of tasks
// without numbers and probabilities. O(window log window), of which the learning waits for O(window).
func (c *Cycle) Calibration() report.Calibration {
	pairs := c.pairs()
	return report.Calibration{Published: calibrated(pairs[published]), Live: calibrated(pairs[live])}
}

// pairs returns what predictors said of the events of the window.
func (c *Cycle) pairs() (pairs [told][]pair) {
	c.figures.Lock()
	defer c.figures.Unlock()
	for r := range pairs {
		pairs[r] = c.progressive.told(r)
	}
	return pairs
}

// told returns what a predictor said of the events of the window, in no particular order.
func (p *Progressive) told(role int) (pairs []pair) {
	t := p.target
	if !t.IsNumeric() && (!t.hasProbabilities() || t.Task != event.Binary && t.Task != event.Multiclass) {
		return nil
	}
	for i := range p.filled {
		e := &p.ring[i]
		o := &e.outcomes[role]
		if !o.present || !t.IsNumeric() && !o.lossy {
			continue
		}
		one := pair{float64(o.score), e.base}
		if !t.IsNumeric() {
			one = pair{predicted: 1 / (1 + math.Exp(-float64(o.score)))}
			if t.Task == event.Binary && e.class > 0 || t.Task == event.Multiclass && o.correct {
				one.observed = 1
			}
		}
		if !math.IsNaN(one.predicted) && !math.IsInf(one.predicted, 0) {
			pairs = append(pairs, one)
		}
	}
	return pairs
}

// calibrated returns the means of calibrationBins of equal mass, of fewer where there are fewer events. What was predicted alike is not divided.
func calibrated(pairs []pair) []report.CalibrationBin {
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.predicted, b.predicted) })
	bins, from := []report.CalibrationBin{}, 0
	for b := 1; b <= calibrationBins; b++ {
		to := max(from, len(pairs)*b/calibrationBins)
		for to > from && to < len(pairs) && pairs[to].predicted == pairs[to-1].predicted {
			to++
		}
		if to == from {
			continue
		}
		predicted, observed := 0.0, 0.0
		for _, p := range pairs[from:to] {
			predicted, observed = predicted+p.predicted, observed+p.observed
		}
		n := float64(to - from)
		bins = append(bins, report.CalibrationBin{N: int64(to - from), Predicted: report.Number(predicted / n), Observed: report.Number(observed / n)})
		from = to
	}
	return bins
}
