package mixture

import (
	"math"
	"slices"

	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// OrdinalMixture makes the live chances of levels of an ordinal label, of which the mixture has a number alone: those
// of the fold-in, of the last promoted refit, and of that number through the champion's link, mixed threshold
// by threshold with weights by recent loss. It belongs to one goroutine.
type OrdinalMixture struct {
	// chances that the parts gave on the last event; the level is at most c + 1 with chance c
	parts   [numLevelParts][]float64
	present [numLevelParts]bool
	Excess  [numLevelParts]float64 // losses above that of the mixture, fading
	mixed   []float64
}

// The parts of a OrdinalMixture.
const (
	levelsFoldIn = iota
	levelsRefit
	levelsLinked
	numLevelParts
)

// Excess losses fade at each event, so that weights follow some 1,000 events, and are no more than levelBehind above
// the least, so that a part that comes to be the best is soon believed. Derived: levelFade, from these events. The
// other is chosen by hand.
const (
	levelFade   = 0.999
	levelBehind = 10
)

// NewOrdinalMixture returns nil where there are no chances to mix.
func NewOrdinalMixture(t *encode.Target) *OrdinalMixture {
	if _, logistic := t.Loss.(solver.BinaryLogistic); !logistic || t.Link != format.OrdinalLink {
		return nil
	}
	m := &OrdinalMixture{mixed: make([]float64, t.Outputs())}
	for k := range m.parts {
		m.parts[k] = make([]float64, t.Outputs())
	}
	return m
}

// Predict takes up an event, of which alone are the outputs of the fold-in, refit those of the last promoted
// refit, nil for none, and number what the mixture predicts, which counts where there is a link.
func (m *OrdinalMixture) Predict(alone, refit []float64, number float64, link *encode.LevelLink) {
	m.present = [numLevelParts]bool{true, refit != nil, link != nil && len(link.Threshold) == len(m.mixed)}
	for c := range m.mixed {
		m.parts[levelsFoldIn][c] = chance(alone[c])
		if m.present[levelsRefit] {
			m.parts[levelsRefit][c] = chance(refit[c])
		}
		if m.present[levelsLinked] {
			m.parts[levelsLinked][c] = chance(link.Threshold[c] - link.Slope*number)
		}
	}
	var weight [numLevelParts]float64
	least, sum := math.Inf(1), 0.0
	for k, present := range m.present {
		if present {
			least = min(least, m.Excess[k])
		}
	}
	for k, present := range m.present {
		if present {
			weight[k] = math.Exp(least - m.Excess[k])
			sum += weight[k]
		}
	}
	clear(m.mixed)
	for k, w := range weight {
		if w > 0 {
			floats.AddScaled(m.mixed, w/sum, m.parts[k])
		}
	}
}

// chance is the logistic function, kept where logarithms are finite.
func chance(output float64) float64 {
	return min(max(1/(1+math.Exp(-output)), evaluate.LeastProbability), 1-evaluate.LeastProbability)
}

// Chances returns a copy of the mixed chances, of the event that was predicted last.
func (m *OrdinalMixture) Chances() []float64 { return slices.Clone(m.mixed) }

// Loss returns the logistic loss of the mixed chances, given the targets of the event.
func (m *OrdinalMixture) Loss(targets []float64) float64 { return LossOfChances(m.mixed, targets) }

// LossOfChances returns the logistic loss of the chances to be above each level but the last.
func LossOfChances(p, targets []float64) float64 {
	loss := 0.0
	for c, t := range targets {
		if t > 0 {
			loss -= math.Log(p[c])
		} else {
			loss -= math.Log1p(-p[c])
		}
	}
	return loss
}

// Learn lets the weights follow the losses on the event that was taken up last. No event moves one by more than
// MixtureLossMax.
func (m *OrdinalMixture) Learn(targets []float64) {
	mixed := m.Loss(targets)
	for k, present := range m.present {
		if present {
			d := LossOfChances(m.parts[k], targets) - mixed
			m.Excess[k] = levelFade*m.Excess[k] + min(max(d, -MixtureLossMax), MixtureLossMax)
		}
	}
	least := slices.Min(m.Excess[:])
	for k := range m.Excess {
		m.Excess[k] = min(m.Excess[k], least+levelBehind)
	}
}
