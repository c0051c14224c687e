package cycle

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/snapshot"
)

// means are the baselines that a refit fits on its sample: the mean label, or the most frequent class.
type means struct {
	global      float64
	byName      map[string]float64 // mean label by name of the baseline field
	majority    int                // class index, for binary 0 or 1
	frequencies []float64          // of the classes, of a binary label that of the positive one; nil of a champion that was kept without
	outputs     []float64          // that predict the frequencies, or the majority alone
	binary      [2]outcome         // of a binary label 0 and 1
}

// fitMeans computes the means of the parts of a sample, one after the other. weights nil counts every event once; field is the categorical field of the
// item mean, or -1.
func fitMeans(t *Target, weights []float64, field int, parts ...[]event.Event) *means {
	m := &means{byName: make(map[string]float64)}
	total, sum := 0.0, 0.0
	type named struct{ count, sum float64 }
	byName := make(map[string]*named)
	classes, present := make([]float64, max(2, t.Outputs())), make([]float64, t.Outputs())
	targets := make([]float64, t.Outputs())
	add := func(ev *event.Event, w float64) {
		if t.IsNumeric() {
			total += w
			sum += w * ev.Label
			if field >= 0 && ev.Categorical[field] != "" {
				n := byName[ev.Categorical[field]]
				if n == nil {
					n = &named{}
					byName[ev.Categorical[field]] = n
				}
				n.count += w
				n.sum += w * ev.Label
			}
			return
		}
		if t.Encode(targets, ev) {
			total += w
			classes[t.class(targets)] += w
			for c, v := range targets {
				if v > t.threshold() {
					present[c] += w
				}
			}
		}
	}
	for _, events := range parts {
		for i := range events {
			w := 1.0
			if weights != nil {
				w = weights[i]
			}
			add(&events[i], w)
		}
		if weights != nil {
			weights = weights[len(events):]
		}
	}
	if total > 0 && t.IsNumeric() {
		m.global = sum / total
	}
	for name, n := range byName {
		if n.count > 0 {
			m.byName[name] = n.sum / n.count
		}
	}
	m.majority = argmax(classes)
	if !t.IsNumeric() {
		prior := t.classPrior()
		for c := range present {
			present[c] = (present[c] + prior) / (total + 1)
		}
		m.frequencies = present
	}
	m.predict(t)
	return m
}

// What a loss counts as at least where models are compared: leastShare of that of the means, which is a hundredth of the deviation of numbers, and
// roundingShare of the mean square of labels. Without, labels that are all alike but a few are predicted by their mean without an error: whatever a
// model has to round would be shown to be worse, for ever.
const (
	leastShare    = 1e-4
	roundingShare = 1e-9
)

// leastLoss returns that of the rows that the means are of, with their weights.
func (m *means) leastLoss(weights []float64, events []event.Event) float64 {
	if m.frequencies != nil {
		spread := 0.0
		for _, p := range m.frequencies {
			spread += p * (1 - p)
		}
		return leastShare * spread
	}
	spread, square := weightedSum{weights: weights}, weightedSum{weights: weights}
	for i := range events {
		e := events[i].Label - m.global
		spread.add(i, e*e)
		square.add(i, events[i].Label*events[i].Label)
	}
	if !(spread.total > 0) {
		return 0
	}
	return leastShare*spread.mean() + roundingShare*square.mean()
}

// classPrior is what counts of a class beside the events: one event of no class in particular.
func (t *Target) classPrior() float64 {
	if t.Task == event.Multiclass {
		return 1 / float64(t.Outputs())
	}
	return 0.5
}

// predict sets the outputs of classes.
func (m *means) predict(t *Target) {
	if t.IsNumeric() {
		return
	}
	m.outputs = make([]float64, t.Outputs())
	switch {
	case m.frequencies == nil && t.Task == event.Binary:
		m.outputs[0] = float64(2*m.majority-1) + t.threshold()
	case m.frequencies == nil:
		m.outputs[m.majority] = 1
	default:
		for c, p := range m.frequencies {
			switch t.Link {
			case snapshot.Softmax:
				p = math.Log(p)
			case snapshot.Logistic:
				p = math.Log(p) - math.Log1p(-p)
			}
			m.outputs[c] = p
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

// outcome is that of the majority class and of the frequencies, if there are any and outputs are probabilities.
func (m *means) outcome(t *Target, ev *event.Event, targets []float64) outcome {
	if t.Task == event.Binary {
		return m.binary[t.class(targets)]
	}
	return m.outcomeOf(t, ev, targets)
}

func (m *means) outcomeOf(t *Target, ev *event.Event, targets []float64) outcome {
	o := t.outcome(ev, m.outputs, targets)
	o.lossy = m.frequencies != nil && t.hasProbabilities()
	return o
}

// sgdBias is the online baseline of rating tasks: global, user and item biases by stochastic gradient steps.
type sgdBias struct {
	global float64
	fields int // the first categorical ones, two at most
	index  slotIndex
	items  []slot
	bias   []float64 // by slot
	room   []int     // per field, for so many more names
	of     []int32   // slots of the event that predict was called with last, -1 where it has none
}

// The steps of the sgd_bias baseline; they are part of its definition.
const (
	sgdStep      = 0.05
	sgdShrinkage = 0.02
)

func newSGDBias(t *Target, fields, limit int) *sgdBias {
	fields = min(fields, 2)
	s := &sgdBias{fields: fields, index: newSlotIndex(), room: make([]int, fields), of: make([]int32, fields)}
	for f := range fields {
		s.room[f], s.of[f] = limit, -1
	}
	if t.Low < t.High {
		s.global = (t.Low + t.High) / 2
	}
	return s
}

func (s *sgdBias) predict(ev *event.Event) float64 {
	for f, name := range ev.Categorical[:s.fields] {
		s.of[f], _ = s.index.find(s.items, int32(f), name)
	}
	return s.value()
}

func (s *sgdBias) value() float64 {
	v := s.global
	for _, at := range s.of {
		if at >= 0 {
			v += s.bias[at]
		}
	}
	return v
}

func (s *sgdBias) number() float64 { return s.value() }

func (s *sgdBias) constant() float64 { return s.global }

func (s *sgdBias) weight(field int, name string) float64 {
	if field < s.fields {
		if at, _ := s.index.find(s.items, int32(field), name); at >= 0 {
			return s.bias[at]
		}
	}
	return 0
}

// learn takes a step towards the label of the event that predict was called with last, in what counts of it.
func (s *sgdBias) learn(ev *event.Event, counts *counted) {
	e := ev.Label - s.value()
	if counts.isShared() {
		s.global += sgdStep * e
	}
	for f, at := range s.of {
		if counts.holds(f) {
			continue
		}
		if at < 0 {
			name := ev.Categorical[f]
			if s.room[f] <= 0 || name == "" {
				continue // a baseline, too, is bounded
			}
			s.room[f]--
			at = int32(len(s.items))
			s.items, s.bias = append(s.items, slot{name: name, field: int32(f)}), append(s.bias, 0)
			s.index.add(s.items, at)
		}
		b := &s.bias[at]
		*b += sgdStep * (e - sgdShrinkage**b)
	}
}
