package encode

import (
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// ClassPrior is what is added to the events of a class: its share of one event of no class in particular.
func (t *Target) ClassPrior() float64 {
	if t.Task == event.Multiclass {
		return 1 / float64(t.Outputs())
	}
	return 0.5
}

// Target turns labels into the m targets of a loss, and outputs into predictions. It is read-only.
type Target struct {
	config.Objective
	Levels  int
	Classes []string // in output order
	Low     float64  // range of the label for clipping; Low ≥ High does not clip
	High    float64

	Positive, Negative string // of a binary label that is a name, see config.Schema
}

// NewTarget returns the target of a model. classes replaces the schema's when the schema lists none.
func NewTarget(m *config.Model, classes []string) (*Target, error) {
	objective, err := m.Objective()
	if err != nil {
		return nil, err
	}
	s := &m.Schema
	t := &Target{Objective: objective, Levels: s.Levels, Classes: s.Classes, Low: s.LabelMin, High: s.LabelMax,
		Positive: s.Positive, Negative: s.Negative}
	// A schema without classes takes those of the first sample.
	if len(t.Classes) == 0 {
		t.Classes = classes
	}
	if t.Task == event.Ordinal {
		t.Low, t.High = 1, float64(s.Levels)
	}
	if t.Task.HasClasses() && len(t.Classes) < 2 {
		return nil, fmt.Errorf("cycle: model %s: a %s model needs its classes: list them in schema.classes", m.Name,
			t.Task)
	}
	return t, nil
}

// Outputs returns m.
func (t *Target) Outputs() int {
	switch {
	case t.Task.HasClasses():
		return len(t.Classes)
	case t.Link == format.OrdinalLink:
		return t.Levels - 1
	}
	return 1
}

// IsNumeric reports whether predictions are numbers on the scale of the label, rather than classes.
func (t *Target) IsNumeric() bool { return t.Task.IsNumeric() }

// Encode stores the targets of an event in dst (length m). It reports false for a class that the model does not have,
// and for a label that decoders do not accept any more: a sample may hold rows of an earlier build.
func (t *Target) Encode(dst []float64, ev *event.Event) bool {
	if !(math.Abs(ev.Label) <= event.MaxLabel) { // NaN, too
		return false
	}
	switch {
	case t.Task.HasClasses():
		off := 0.0
		// Independent labels are ±1, exclusive classes 0 and 1.
		if t.Link == format.Logistic {
			off = -1
		}
		for c := range dst {
			dst[c] = off
		}
		for _, name := range ev.Classes {
			c := slices.Index(t.Classes, name)
			if c < 0 {
				return false
			}
			dst[c] = 1
		}
	case t.Link == format.OrdinalLink:
		solver.EncodeLevel(dst, int(ev.Label))
	case t.Link == format.Logistic:
		dst[0] = 2*ev.Label - 1 // 0 and 1 become −1 and 1
	default:
		dst[0] = ev.Label
	}
	return true
}

// Threshold is where an output's class is as likely as not: losses of the identity link learn targets 0 and 1.
func (t *Target) Threshold() float64 {
	if t.Link == format.Identity {
		return 0.5
	}
	return 0
}

// Value returns the number that outputs predict: the label of a regression, the expected level, or for a binary label
// the class.
func (t *Target) Value(outputs []float64) float64 {
	switch {
	case t.Link == format.OrdinalLink:
		return solver.ExpectedLevel(outputs)
	case t.Task != event.Binary:
		return outputs[0]
	case outputs[0] > t.Threshold():
		return 1
	}
	return 0
}

// Correct reports whether the predicted class, or set of classes, is the one that targets hold.
func (t *Target) Correct(outputs, targets []float64) bool {
	if t.Task == event.Multiclass {
		return targets[Argmax(outputs)] > 0
	}
	// A set of labels is right if each of them is.
	for c, o := range outputs {
		if (o > t.Threshold()) != (targets[c] > t.Threshold()) {
			return false
		}
	}
	return true
}

// Clip limits a number to the range of the label.
func (t *Target) Clip(v float64) float64 {
	if t.Low < t.High {
		return min(max(v, t.Low), t.High)
	}
	return v
}

// Judged returns the loss by which models are compared: the squared error of the clipped prediction for numeric labels,
// else the training loss.
func (t *Target) Judged(ev *event.Event, outputs, targets []float64) float64 {
	if !t.IsNumeric() {
		return t.Loss.Eval(nil, outputs, targets)
	}
	e := t.Clip(t.Value(outputs)) - ev.Label
	return e * e
}

func Argmax(v []float64) int {
	best, at := math.Inf(-1), 0
	for i, x := range v {
		if x > best {
			best, at = x, i
		}
	}
	return at
}

// One returns 1 of the target of a class that holds, else 0.
func One(target float64) float64 {
	if target > 0 {
		return 1
	}
	return 0
}
