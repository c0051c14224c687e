package fitted

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/snapshot/format"
)

// BaselineMeans are the baselines that a refit fits on its sample: the mean label, or the most frequent class.
type BaselineMeans struct {
	Global   float64
	ByName   map[string]float64 // mean label by name of the baseline field
	Majority int                // class index, for binary 0 or 1
	// of the classes, of a binary label that of the positive one; nil of a champion that was kept without
	Frequencies []float64
	Outputs     []float64                // that predict the frequencies, or the majority alone
	binary      [2]evaluate.EventOutcome // of a binary label 0 and 1
}

// FitBaselineMeans computes the means of the parts of a sample, one after the other. weights nil counts every event
// once; field is the categorical field of the item mean, or -1.
func FitBaselineMeans(t *encode.Target, weights []float64, field int, parts ...[]event.Event) *BaselineMeans {
	m := &BaselineMeans{ByName: make(map[string]float64)}
	sums := newLabelSums(t, field)
	for _, events := range parts {
		for i := range events {
			w := 1.0
			if weights != nil {
				w = weights[i]
			}
			sums.add(&events[i], w)
		}
		if weights != nil {
			weights = weights[len(events):]
		}
	}
	if sums.total > 0 && t.IsNumeric() {
		m.Global = sums.sum / sums.total
	}
	for name, n := range sums.byName {
		if n.count > 0 {
			m.ByName[name] = n.sum / n.count
		}
	}
	m.Majority = encode.Argmax(sums.classes)
	if !t.IsNumeric() {
		prior := t.ClassPrior()
		for c := range sums.present {
			sums.present[c] = (sums.present[c] + prior) / (sums.total + 1)
		}
		m.Frequencies = sums.present
	}
	m.predict(t)
	return m
}

// labelSums adds up the labels of events.
type labelSums struct {
	target     *encode.Target
	field      int     // of the means by name, or -1
	total, sum float64 // of weights, and of labels that are numbers
	byName     map[string]*nameSum
	classes    []float64 // weight of each class
	present    []float64 // weight of each output that is positive
	targets    []float64 // of one event
}

// nameSum adds up the labels of the events with a name.
type nameSum struct{ count, sum float64 }

func newLabelSums(t *encode.Target, field int) *labelSums {
	outputs := t.Outputs()
	return &labelSums{target: t, field: field, byName: make(map[string]*nameSum),
		classes: make([]float64, max(2, outputs)), present: make([]float64, outputs), targets: make([]float64, outputs)}
}

// add adds the label of an event of weight w.
func (s *labelSums) add(ev *event.Event, w float64) {
	if s.target.IsNumeric() {
		s.addNumber(ev, w)
		return
	}
	if !s.target.Encode(s.targets, ev) {
		return
	}
	s.total += w
	s.classes[evaluate.Class(s.target, s.targets)] += w
	for c, v := range s.targets {
		if v > s.target.Threshold() {
			s.present[c] += w
		}
	}
}

// addNumber adds a label that is a number, and adds it to those of its name.
func (s *labelSums) addNumber(ev *event.Event, w float64) {
	s.total += w
	s.sum += w * ev.Label
	if s.field < 0 || ev.Categorical[s.field] == "" {
		return
	}
	n := s.byName[ev.Categorical[s.field]]
	if n == nil {
		n = &nameSum{}
		s.byName[ev.Categorical[s.field]] = n
	}
	n.count += w
	n.sum += w * ev.Label
}

// What a loss counts as at least where models are compared: leastShare of that of the means, which is a hundredth of
// the deviation of numbers, and roundingShare of the mean square of labels. Without, labels that are all alike but a
// few are predicted by their mean without an error: whatever a model has to round would be shown to be worse, for ever.
const (
	leastShare    = 1e-4
	roundingShare = 1e-9
)

// LeastLoss returns that of the rows that the means are of, with their weights.
func (m *BaselineMeans) LeastLoss(weights []float64, events []event.Event) float64 {
	if m.Frequencies != nil {
		spread := 0.0
		for _, p := range m.Frequencies {
			spread += p * (1 - p)
		}
		return leastShare * spread
	}
	spread, square := evaluate.WeightedSum{Weights: weights}, evaluate.WeightedSum{Weights: weights}
	for i := range events {
		e := events[i].Label - m.Global
		spread.Add(i, e*e)
		square.Add(i, events[i].Label*events[i].Label)
	}
	if !(spread.Total > 0) {
		return 0
	}
	return leastShare*spread.Mean() + roundingShare*square.Mean()
}

// predict sets the outputs of classes.
func (m *BaselineMeans) predict(t *encode.Target) {
	if t.IsNumeric() {
		return
	}
	m.Outputs = make([]float64, t.Outputs())
	switch {
	case m.Frequencies == nil && t.Task == event.Binary:
		m.Outputs[0] = float64(2*m.Majority-1) + t.Threshold()
	case m.Frequencies == nil:
		m.Outputs[m.Majority] = 1
	default:
		for c, p := range m.Frequencies {
			switch t.Link {
			case format.Softmax:
				p = math.Log(p)
			case format.Logistic:
				p = math.Log(p) - math.Log1p(-p)
			}
			m.Outputs[c] = p
		}
	}
	if t.Task != event.Binary {
		return
	}
	for label := range m.binary { // which spares events the work
		ev, targets := event.Event{Label: float64(label)}, []float64{0}
		t.Encode(targets, &ev)
		m.binary[label] = m.outcomeOf(t, &ev, targets)
	}
}

// Outcome is that of the majority class and of the frequencies, if there are any and outputs are probabilities.
func (m *BaselineMeans) Outcome(t *encode.Target, ev *event.Event, targets []float64) evaluate.EventOutcome {
	if t.Task == event.Binary {
		return m.binary[evaluate.Class(t, targets)]
	}
	return m.outcomeOf(t, ev, targets)
}

func (m *BaselineMeans) outcomeOf(t *encode.Target, ev *event.Event, targets []float64) evaluate.EventOutcome {
	o := evaluate.Outcome(t, ev, m.Outputs, targets)
	o.Lossy = m.Frequencies != nil && evaluate.HasProbabilities(t)
	return o
}
