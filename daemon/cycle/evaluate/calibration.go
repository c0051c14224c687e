package evaluate

import (
	"cmp"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
)

// CalibrationBins is how many bins of equal mass Calibration has, as the calibration error has. Literature: 15 bins
// (Guo et al. 2017).
const CalibrationBins = 15

// Pair is what a predictor said of an event, and what came: a number, or a probability and 0 or 1.
type Pair struct{ predicted, observed float64 }

// Pairs returns what a predictor said of the events of the window, in no particular order.
func (p *Progressive) Pairs(role int) (pairs []Pair) {
	t := p.target
	if !t.IsNumeric() && (!HasProbabilities(t) || t.Task != event.Binary && t.Task != event.Multiclass) {
		return nil
	}
	for i := range p.filled {
		e := &p.Ring[i]
		o := &e.outcomes[role]
		if !o.Present || !t.IsNumeric() && !o.Lossy {
			continue
		}
		one := Pair{float64(o.Score), e.Base}
		if !t.IsNumeric() {
			one = Pair{predicted: 1 / (1 + math.Exp(-float64(o.Score)))}
			if t.Task == event.Binary && e.class > 0 || t.Task == event.Multiclass && o.Correct {
				one.observed = 1
			}
		}
		if !math.IsNaN(one.predicted) && !math.IsInf(one.predicted, 0) {
			pairs = append(pairs, one)
		}
	}
	return pairs
}

// Calibrated returns the means of CalibrationBins of equal mass, of fewer where there are fewer events. What was
// predicted alike is not divided.
func Calibrated(pairs []Pair) []report.CalibrationBin {
	slices.SortFunc(pairs, func(a, b Pair) int { return cmp.Compare(a.predicted, b.predicted) })
	bins, from := []report.CalibrationBin{}, 0
	for b := 1; b <= CalibrationBins; b++ {
		to := max(from, len(pairs)*b/CalibrationBins)
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
		bins = append(
			bins,
			report.CalibrationBin{
				N:         int64(to - from),
				Predicted: report.Number(predicted / n),
				Observed:  report.Number(observed / n),
			},
		)
		from = to
	}
	return bins
}
