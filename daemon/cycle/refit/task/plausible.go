package task

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/snapshot/format"
)

// plausibleReach is that of labels that a loss is believed of: of normal ones 1 in 1,000 is farther out.
const plausibleReach = 2

// Plausible returns the largest loss of a row that the gate and choices by held-out rows believe, 0 where nothing
// bounds it, and the largest of one label. Of numbers it is the squared width of their range, else of plausibleReach
// times the spread of the training labels on either side of the median. Of classes it is the loss of a model that
// predicts another label as surely as n training rows support: log odds of ln(2n+1), those of a label that none of them
// has (Krichevsky and Trofimov 1981), or, of outputs that are no log odds, the target of the other label.
//
// A noisy label far out costs both models the largest loss, and so decides nothing.
func (j *Task) Plausible() (row, label float64) {
	return PlausibleOf(j.Target, j.Rows.Train.Targets, j.Rows.Train.X.NumRows())
}

// PlausibleOf is plausible of a target whose training labels, where they are numbers, are given, and of so many rows.
func PlausibleOf(t *encode.Target, labels []float64, rows int) (row, label float64) {
	if t.IsNumeric() {
		low, high := t.Low, t.High
		if !(low < high) && len(labels) > 0 {
			low, high = encode.Fence(slices.Clone(labels), plausibleReach, 0.84)
		}
		return (high - low) * (high - low), 0
	}
	one, other := event.Event{}, event.Event{Label: 1}
	switch t.Task {
	case event.Multiclass:
		one.Classes, other.Classes = t.Classes[:1], t.Classes[1:2]
	case event.Multilabel:
		other.Classes = t.Classes
	}
	m := t.Outputs()
	target, outputs := make([]float64, m), make([]float64, m)
	t.Encode(target, &one)
	t.Encode(outputs, &other)
	if t.Link != format.Identity {
		for c := range outputs {
			outputs[c] *= math.Log(2*float64(rows) + 1)
		}
	}
	row = t.Judged(&one, outputs, target)
	if label = row; t.Task == event.Multilabel {
		label /= float64(m)
	}
	return row, label
}
