package cycle

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// ErrNoRows is returned by a refit whose sample has no rows to train on.
var ErrNoRows = errors.New("cycle: the sample has no rows to train on yet")

// Sample is what a refit is made of: the rows of a consistent cut, as AppendEvent wrote them.
type Sample struct {
	Train          [][]byte
	Select         [][]byte
	Gate           [][]byte
	Weights        []float64 // of the training rows, mean 1; nil counts every row once
	HeldOutWeights []float64 // of the select rows, then the gate rows, in units of Weights; nil counts every row once
	WeightLimit    float64   // what the weight of an event counts as at most, in these too; 0 for no limit
	Limited        int       // rows whose weight is beyond it
	TrainAge       []float64 // of the rows, in events that were applied since; nil if not known
	SelectAge      []float64
	GateAge        []float64
	Cut            []report.Cut
	Digest         string
	Lineage        string
	Watermark      int64           // newest event time, milliseconds since 1970
	Events         snapshot.Counts // what became of the records before the cut
}

// heaviest returns what the weight of an event counts as at most.
func (s *Sample) heaviest() float64 {
	if s.WeightLimit == 0 {
		return math.Inf(1)
	}
	return s.WeightLimit
}

// encoded is a part of a sample as the solver wants it.
type encoded struct {
	events  []event.Event
	x       *solver.Rows
	targets []float64 // n×m
	vocab   *Vocabulary
	numeric []float64 // n×p numbers of the training rows, for a feature map
	names   []string  // entities of the training rows, for the same
	most    float64   // what a loss of a row counts as at most; 0 for no bound
}

// decodeBlock is how many events share an array of the names of their fields: each names its own in it. One that outlives the others keeps them, so it is
// small.
const decodeBlock = 256

// decodeRows decodes rows; names is shared by the parts of a sample.
func decodeRows(rows [][]byte, names interner) ([]event.Event, error) {
	events := make([]event.Event, len(rows))
	return events, decodeInto(events, rows, names)
}

// decodeInto decodes as many rows.
func decodeInto(events []event.Event, rows [][]byte, names interner) error {
	var fields int
	var list []string
	for i, row := range rows {
		ev := &events[i]
		if len(list) < fields {
			list = make([]string, fields*min(decodeBlock, len(rows)-i))
		}
		ev.Categorical, list = list[:0:fields], list[fields:]
		if err := DecodeEvent(ev, row, names); err != nil {
			return err
		}
		fields = len(ev.Categorical)
	}
	return nil
}

// decode decodes the parts of the sample, one half of the rows beside the other.
func (s *Sample) decode(beside func(f, g func())) (train, selected, gate []event.Event, err error) {
	train, selected, gate = make([]event.Event, len(s.Train)), make([]event.Event, len(s.Select)), make([]event.Event, len(s.Gate))
	half := min((len(train)+len(selected)+len(gate))/2, len(train))
	var others error
	beside(func() { err = decodeInto(train[:half], s.Train[:half], make(interner)) }, func() {
		names := make(interner)
		others = cmp.Or(decodeInto(train[half:], s.Train[half:], names), decodeInto(selected, s.Select, names), decodeInto(gate, s.Gate, names))
	})
	return train, selected, gate, cmp.Or(err, others)
}

// encode turns events into rows and targets. Events that Target.Encode does not take are left out, and their weights with them.
func encode(v *Vocabulary, t *Target, events []event.Event, weights []float64) (*encoded, []float64) {
	m := t.Outputs()
	e := &encoded{vocab: v, x: solver.NewRows(v.NumColumns(), len(events), len(events)*3), events: make([]event.Event, 0, len(events)),
		targets: make([]float64, 0, len(events)*m)}
	var kept []float64
	target := make([]float64, m)
	var index []int32
	var value []float64
	for i := range events {
		if !t.Encode(target, &events[i]) {
			continue
		}
		index, value = v.Encode(index[:0], value[:0], &events[i])
		e.x.Append(index, value)
		e.events = append(e.events, events[i])
		e.targets = append(e.targets, target...)
		if weights != nil {
			kept = append(kept, weights[i])
		}
	}
	return e, kept
}

// classesOf returns the classes that occur in events, sorted.
func classesOf(events []event.Event) []string {
	seen := make(map[string]bool)
	for i := range events {
		for _, c := range events[i].Classes {
			seen[c] = true
		}
	}
	classes := make([]string, 0, len(seen))
	for c := range seen {
		classes = append(classes, c)
	}
	slices.Sort(classes)
	return classes
}

// loss returns the mean bounded loss of a model on the part, NaN when the part is empty. weights nil counts every row once.
func (e *encoded) loss(t *Target, model *solver.Model, weights []float64) float64 {
	sum := weightedSum{weights: weights}
	e.each(t, model, func(i int, outputs, targets []float64) {
		sum.add(i, boundLoss(t.Judged(&e.events[i], outputs, targets), e.most))
	})
	return sum.mean()
}

// losses returns the bounded loss of each row under a model.
func (e *encoded) losses(t *Target, model *solver.Model) []float64 {
	losses := make([]float64, len(e.events))
	e.each(t, model, func(i int, outputs, targets []float64) {
		losses[i] = boundLoss(t.Judged(&e.events[i], outputs, targets), e.most)
	})
	return losses
}

// each calls f with the outputs of a model for every row.
func (e *encoded) each(t *Target, model *solver.Model, f func(i int, outputs, targets []float64)) {
	m := t.Outputs()
	outputs, work := make([]float64, m), make([]float64, 2*model.NumBasis)
	var phi []float64
	for i := range e.events {
		index, value := e.x.Row(i)
		model.Predict(outputs, work, index, value)
		phi = e.vocab.addMapped(outputs, model, e.events[i].Numeric, phi)
		f(i, outputs, e.targets[i*m:i*m+m])
	}
}

// Metrics returns METRICS of a model on labelled events: groups, if not nil, gives the ranking group of every event.
func Metrics(t *Target, v *Vocabulary, model *solver.Model, events []event.Event, group func(*event.Event) string) *report.Metrics {
	e, _ := encode(v, t, events, nil)
	return e.metrics(t, model, group)
}

func (e *encoded) metrics(t *Target, model *solver.Model, group func(*event.Event) string) *report.Metrics {
	q := NewQuality(t, group)
	e.each(t, model, func(i int, outputs, targets []float64) { q.Add(&e.events[i], outputs, targets) })
	return q.Metrics()
}

// groupOf returns the ranking group of rating tasks: the name in the first categorical field. Other tasks have none.
func groupOf(m *config.Model) func(*event.Event) string {
	if len(m.Schema.Categorical) == 0 || !m.Schema.Learned().IsNumeric() {
		return nil
	}
	return func(ev *event.Event) string { return ev.Categorical[0] }
}
