package evaluate

import (
	"cmp"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
)

// Quality accumulates METRICS of one predictor over labelled events, in their order.
type Quality struct {
	target    *encode.Target
	group     func(*event.Event) string // of rankings; nil for none
	errors    *quality.Accumulator
	ranking   *quality.Ranking
	lossless  bool             // a predictor without the outputs that the loss takes
	reference *reference       // labels so far, for comparisons; nil for numbers
	compared  Tally            // what reference is compared with
	classes   *quality.Classes // right, predicted and actual, by class; nil for numbers
	scores    *quality.Scores  // of binary labels that of 1, of classes that of the predicted one
}

// NewQuality returns an empty one. Group, if not nil, gives the ranking group of every event, for numeric and binary
// labels only.
func NewQuality(t *encode.Target, group func(*event.Event) string) *Quality {
	q := &Quality{target: t, group: group, ranking: quality.NewRanking()}
	if t.IsNumeric() {
		q.errors = quality.NewNumberAccumulator(t.Low, t.High)
		return q
	}
	q.errors, q.reference = quality.NewClassAccumulator(), NewReference(t)
	q.classes, q.scores = quality.NewClasses(len(classNames(t))), quality.NewScores(HasProbabilities(t))
	return q
}

// Add adds the outputs for one event and what was to be predicted (Target.Encode).
func (q *Quality) Add(ev *event.Event, outputs, targets []float64) {
	t := q.target
	loss := t.Loss.Eval(nil, outputs, targets)
	if t.IsNumeric() {
		q.addNumber(ev, loss, t.Value(outputs))
		return
	}
	correct := t.Correct(outputs, targets)
	q.errors.AddClass(loss, correct)
	q.compared.Add(
		&EventOutcome{Present: true, Lossy: true, Loss: loss, Correct: correct, place: place(t, outputs, targets)},
		q.reference.Next(targets))
	switch t.Task {
	case event.Binary:
		score := score(t, outputs, 0)
		q.classes.Add(predicted(t, outputs), Class(t, targets))
		q.scores.Add(score, ev.Label > 0)
		if q.group != nil {
			q.ranking.Add(q.group(ev), score, ev.Label)
		}
	case event.Multiclass:
		predicted := predicted(t, outputs)
		q.classes.Add(predicted, Class(t, targets))
		if HasProbabilities(t) {
			q.scores.Add(score(t, outputs, predicted), correct)
		}
	default:
		for c, o := range outputs {
			predicted, actual := -1, -1
			if o > t.Threshold() {
				predicted = c
			}
			if targets[c] > t.Threshold() {
				actual = c
			}
			q.classes.Add(predicted, actual)
		}
	}
}

// AddNumber adds the prediction of a number by something that has no outputs, for numeric labels only.
func (q *Quality) AddNumber(ev *event.Event, value float64) {
	loss, ok := lossOf(q.target, []float64{value}, []float64{ev.Label})
	q.lossless = q.lossless || !ok
	q.addNumber(ev, loss, value)
}

func (q *Quality) addNumber(ev *event.Event, loss, value float64) {
	q.errors.AddNumber(loss, value, ev.Label)
	if q.group != nil {
		q.ranking.Add(q.group(ev), value, ev.Label)
	}
}

// Metrics returns what has been accumulated.
func (q *Quality) Metrics() *report.Metrics {
	m := q.errors.Metrics()
	if q.lossless {
		m.Loss = nil
	}
	q.ranking.AddTo(&m)
	if q.classes == nil || m.N == 0 {
		return &m
	}
	t := q.target
	q.classes.AddTo(&m, classNames(t))
	q.compared.compare(&m, t)
	if t.Task != event.Multilabel {
		m.ECE = report.Known(q.scores.ECE())
	}
	if t.Task == event.Binary {
		m.AUC = report.Known(q.scores.AUC())
	}
	return &m
}

// classNames returns the names of the classes, by which recalls are reported; those of a binary label are 0 and 1, or
// the names that it has.
func classNames(t *encode.Target) []string {
	switch {
	case t.Task == event.Binary && t.Positive != "":
		return []string{cmp.Or(t.Negative, "not "+t.Positive), t.Positive}
	case t.Task == event.Binary:
		return []string{"0", "1"}
	}
	return t.Classes
}

// HasProbabilities reports whether outputs are log odds or logarithms of probabilities.
func HasProbabilities(t *encode.Target) bool {
	return t.Link == format.Logistic || t.Link == format.Softmax
}

// predicted returns the class that outputs predict, as an index: 0 or 1 for binary labels. Not for multi-label tasks.
func predicted(t *encode.Target, outputs []float64) int {
	if t.Task == event.Binary {
		return int(t.Value(outputs))
	}
	return encode.Argmax(outputs)
}

// place returns the place of the label's class in the ranking of several classes by outputs, from 1 and at most 255,
// and 0 where every class is among the first.
func place(t *encode.Target, outputs, targets []float64) uint8 {
	if t.Task != event.Multiclass || len(outputs) <= quality.LeastTop {
		return 0
	}
	return uint8(min(quality.Place(outputs, Class(t, targets)), math.MaxUint8))
}

// marginUnit is what the outputs of a binary label without log odds count times as scores: they are between 0 and 1.
// Chosen by hand.
const marginUnit = 16

// score returns the log odds of the positive class, or of the predicted one of several, whose index is given. It is a
// function of the outputs alone: with the label in it, rounding would give events with equal outputs different scores.
func score(t *encode.Target, outputs []float64, predicted int) float64 {
	switch t.Link {
	case format.Softmax:
		others := 0.0
		for c, o := range outputs {
			if c != predicted {
				others += math.Exp(o - outputs[predicted])
			}
		}
		return -math.Log(others)
	case format.Identity:
		return marginUnit * (outputs[predicted] - t.Threshold())
	}
	return outputs[predicted]
}

// lossOf returns the training loss of a predicted number, if numbers are what the loss takes.
func lossOf(t *encode.Target, value, targets []float64) (loss float64, ok bool) {
	if t.Link != format.Identity {
		return 0, false
	}
	return t.Loss.Eval(nil, value, targets), true
}

// Class returns the class that targets hold, as an index: 0 or 1 for binary labels.
func Class(t *encode.Target, targets []float64) int {
	if t.Task != event.Binary {
		return encode.Argmax(targets)
	}
	if targets[0] > t.Threshold() {
		return 1
	}
	return 0
}

// Metrics returns METRICS of a model on labelled events: groups, if not nil, gives the ranking group of every event.
func Metrics(t *encode.Target, v *encode.Vocabulary, model *solver.Model, events []event.Event,
	group func(*event.Event) string) *report.Metrics {
	e, _ := encode.Encode(v, t, events, nil)
	return MetricsOf(e, t, model, group)
}

func MetricsOf(e *encode.Encoded, t *encode.Target, model *solver.Model,
	group func(*event.Event) string) *report.Metrics {
	q := NewQuality(t, group)
	e.Each(t, model, func(i int, outputs, targets []float64) { q.Add(&e.Events[i], outputs, targets) })
	return q.Metrics()
}
