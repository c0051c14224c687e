package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/report"
)

// Calibration compares, over the window, what was predicted with what came: of numbers the mean prediction with the
// mean label, of a binary label the probability of 1 with its frequency, of several classes the probability of the
// predicted class with how often it was right. It is empty of tasks without numbers and probabilities. O(window log
// window), of which the learning waits for O(window).
func (p *progress) Calibration() report.Calibration {
	pairs := p.pairs()
	return report.Calibration{
		Published: evaluate.Calibrated(pairs[evaluate.Published]),
		Live:      evaluate.Calibrated(pairs[evaluate.Live]),
	}
}

// pairs returns what predictors said of the events of the window.
func (p *progress) pairs() (pairs [evaluate.NumReported][]evaluate.Pair) {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	for r := range pairs {
		pairs[r] = p.progressive.Pairs(r)
	}
	return pairs
}
