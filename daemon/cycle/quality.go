package cycle

import (
	"cmp"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// Quality accumulates METRICS of one predictor over labelled events, in their order.
type Quality struct {
	target    *Target
	group     func(*event.Event) string
	errors    *quality.Accumulator
	ranking   *quality.Ranking
	lossless  bool // a predictor without the outputs that the loss takes
	reference *reference
	compared  tally
	classes   *quality.Classes
	scores    *quality.Scores
}

// NewQuality returns an empty one. Group, if not nil, gives the ranking group of every event, for numeric and binary labels only.
func NewQuality(t *Target, group func(*event.Event) string) *Quality {
	q := &Quality{target: t, group: group, ranking: quality.NewRanking()}
	if t.IsNumeric() {
		q.errors = quality.NewNumberAccumulator(t.Low, t.High)
		return q
	}
	q.errors, q.reference = quality.NewClassAccumulator(), newReference(t)
	q.classes, q.scores = quality.NewClasses(len(t.classNames())), quality.NewScores(t.hasProbabilities())
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
	q.compared.add(&outcome{present: true, lossy: true, loss: loss, correct: correct, place: t.place(outputs, targets)}, q.reference.next(targets))
	switch t.Task {
	case event.Binary:
		score := t.score(outputs, 0)
		q.classes.Add(t.predicted(outputs), t.class(targets))
		q.scores.Add(score, ev.Label > 0)
		if q.group != nil {
			q.ranking.Add(q.group(ev), score, ev.Label)
		}
	case event.Multiclass:
		predicted := t.predicted(outputs)
		q.classes.Add(predicted, t.class(targets))
		if t.hasProbabilities() {
			q.scores.Add(t.score(outputs, predicted), correct)
		}
	default:
		for c, o := range outputs {
			predicted, actual := -1, -1
			if o > t.threshold() {
				predicted = c
			}
			if targets[c] > t.threshold() {
				actual = c
			}
			q.classes.Add(predicted, actual)
		}
	}
}

// AddNumber adds the prediction of a number by something that has no outputs, for numeric labels only.
func (q *Quality) AddNumber(ev *event.Event, value float64) {
	loss, ok := q.target.lossOf([]float64{value}, []float64{ev.Label})
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
	q.classes.AddTo(&m, t.classNames())
	q.compared.compare(&m, t)
	if t.Task != event.Multilabel {
		m.ECE = some(q.scores.ECE())
	}
	if t.Task == event.Binary {
		m.AUC = some(q.scores.AUC())
	}
	return &m
}

// some returns v for a report, nil if it is no number.
func some(v float64) *report.Number {
	if math.IsNaN(v) {
		return nil
	}
	return report.Some(v)
}

// classNames returns the names of the classes, by which recalls are told; those of a binary label are 0 and 1, or the names that it has.
func (t *Target) classNames() []string {
	switch {
	case t.Task == event.Binary && t.Positive != "":
		return []string{cmp.Or(t.Negative, "not "+t.Positive), t.Positive}
	case t.Task == event.Binary:
		return []string{"0", "1"}
	}
	return t.Classes
}

// hasProbabilities reports whether outputs are log odds or logarithms of probabilities.
func (t *Target) hasProbabilities() bool {
	return t.Link == snapshot.Logistic || t.Link == snapshot.Softmax
}

// predicted returns the class that outputs predict, as an index: 0 or 1 for binary labels. Not for multi-label tasks.
func (t *Target) predicted(outputs []float64) int {
	if t.Task == event.Binary {
		return int(t.Value(outputs))
	}
	return argmax(outputs)
}

// place returns the place of the label's class in the ranking of several classes by outputs, from 1 and at most 255, and 0 where every class is among the
// first.
func (t *Target) place(outputs, targets []float64) uint8 {
	if t.Task != event.Multiclass || len(outputs) <= quality.LeastTop {
		return 0
	}
	return uint8(min(quality.Place(outputs, t.class(targets)), math.MaxUint8))
}

// marginUnit is what the outputs of a binary label without log odds count times as scores: they are between 0 and 1.
const marginUnit = 16

// score returns the log odds of the positive class, or of the predicted one of several, whose index is given. It is a function of the outputs alone: what
// rounding made of the label in it would tell events with equal outputs apart.
func (t *Target) score(outputs []float64, predicted int) float64 {
	switch t.Link {
	case snapshot.Softmax:
		others := 0.0
		for c, o := range outputs {
			if c != predicted {
				others += math.Exp(o - outputs[predicted])
			}
		}
		return -math.Log(others)
	case snapshot.Identity:
		return marginUnit * (outputs[predicted] - t.threshold())
	}
	return outputs[predicted]
}

// lossOf returns the training loss of a predicted number, if numbers are what the loss takes.
func (t *Target) lossOf(value, targets []float64) (loss float64, ok bool) {
	if t.Link != snapshot.Identity {
		return 0, false
	}
	return t.Loss.Eval(nil, value, targets), true
}

// class returns the class that targets hold, as an index: 0 or 1 for binary labels.
func (t *Target) class(targets []float64) int {
	if t.Task != event.Binary {
		return argmax(targets)
	}
	if targets[0] > t.threshold() {
		return 1
	}
	return 0
}
