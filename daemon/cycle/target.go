package cycle

import (
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/solver"
)

// Target turns labels into the m targets of a loss, and outputs into predictions. It is read-only.
type Target struct {
	Task    event.Task
	Loss    solver.Loss
	Levels  int
	Classes []string // in output order
	Low     float64  // range of the label for clipping; Low ≥ High does not clip
	High    float64
	squared bool // one output that is the label itself
	margin  bool // outputs of classes are compared, they are no probabilities: the multi-class hinge losses
}

// NewTarget returns the target of a model. classes replaces the schema's when the schema lists none.
func NewTarget(m *config.Model, classes []string) (*Target, error) {
	loss, err := solver.ParseLoss(m.Train.Loss)
	if err != nil {
		return nil, err
	}
	s := &m.Schema
	t := &Target{Task: event.Task(s.Task), Loss: loss, Levels: s.Levels, Classes: s.Classes, Low: s.LabelMin, High: s.LabelMax}
	if len(t.Classes) == 0 {
		t.Classes = classes
	}
	_, t.squared = loss.(solver.Squared)
	switch loss.(type) {
	case solver.SmoothedHinge, solver.SquaredHinge:
		t.margin = true
	}
	switch t.Task {
	case event.Ordinal:
		t.Low, t.High = 1, float64(s.Levels)
	case event.Multiclass, event.Multilabel:
		if len(t.Classes) < 2 {
			return nil, fmt.Errorf("cycle: model %s: a %s model needs its classes: list them in schema.classes", m.Name, t.Task)
		}
	}
	return t, nil
}

// Outputs returns m.
func (t *Target) Outputs() int {
	switch {
	case t.Task == event.Multiclass || t.Task == event.Multilabel:
		return len(t.Classes)
	case t.Task == event.Ordinal && !t.squared:
		return t.Levels - 1
	}
	return 1
}

// Link names the step from outputs to predictions, as manifests do.
func (t *Target) Link() string {
	switch {
	case t.squared || t.margin:
		return "identity"
	case t.Task == event.Ordinal:
		return "ordinal"
	case t.Task == event.Multiclass:
		if _, ok := t.Loss.(solver.MultinomialLogistic); ok {
			return "softmax"
		}
	}
	return "logistic"
}

// IsNumeric reports whether predictions are numbers on the scale of the label, rather than classes.
func (t *Target) IsNumeric() bool { return t.Task == event.Regression || t.Task == event.Ordinal }

// Encode stores the targets of an event in dst (length m). It reports false for a class that the model does not have.
func (t *Target) Encode(dst []float64, ev *event.Event) bool {
	switch t.Task {
	case event.Regression:
		dst[0] = ev.Label
	case event.Binary:
		dst[0] = 2*ev.Label - 1
		if t.squared {
			dst[0] = ev.Label
		}
	case event.Ordinal:
		if t.squared {
			dst[0] = ev.Label
			return true
		}
		solver.EncodeLevel(dst, int(ev.Label))
	default:
		off := -1.0
		if t.Link() == "softmax" || t.squared || t.margin {
			off = 0
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
	}
	return true
}

// Value returns the number that outputs predict: the label of a regression, the expected level, or for a binary label the class.
func (t *Target) Value(outputs []float64) float64 {
	switch {
	case t.Task == event.Ordinal && !t.squared:
		return solver.ExpectedLevel(outputs)
	case t.Task == event.Binary:
		threshold := 0.0
		if t.squared {
			threshold = 0.5
		}
		if outputs[0] > threshold {
			return 1
		}
		return 0
	}
	return outputs[0]
}

// Correct reports whether the predicted class, or set of classes, is the one that targets hold.
func (t *Target) Correct(outputs, targets []float64) bool {
	if t.Task == event.Multiclass {
		return targets[argmax(outputs)] > 0
	}
	threshold := 0.0
	if t.squared {
		threshold = 0.5
	}
	for c, o := range outputs {
		if (o > threshold) != (targets[c] > threshold) {
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

// Judged returns the loss by which models are compared: the squared error of the clipped prediction for numeric labels, else the
// training loss.
func (t *Target) Judged(ev *event.Event, outputs, targets []float64) float64 {
	if !t.IsNumeric() {
		return t.Loss.Eval(nil, outputs, targets)
	}
	e := t.Clip(t.Value(outputs)) - ev.Label
	return e * e
}

func argmax(v []float64) int {
	best, at := math.Inf(-1), 0
	for i, x := range v {
		if x > best {
			best, at = x, i
		}
	}
	return at
}
