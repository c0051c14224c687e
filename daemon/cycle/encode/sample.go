package encode

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"gonum.org/v1/gonum/floats"
)

// ErrNoRows is returned by a refit whose sample has no rows to train on.
var ErrNoRows = errors.New("cycle: the sample has no rows to train on yet")

// Sample is what a refit is made of: the rows of a consistent cut, as AppendEvent wrote them.
type Sample struct {
	Train          [][]byte // nil once a refit has decoded them
	Select         [][]byte
	Gate           [][]byte
	Weights        []float64 // of the training rows, mean 1; nil counts every row once
	HeldOutWeights []float64 // of the select rows, then the gate rows, in units of Weights; nil counts every row once
	WeightLimit    float64   // what the weight of an event counts as at most, in these too; 0 for no limit
	Limited        int       // rows whose weight is beyond it
	TrainAge       []float64 // of the rows, in events that were applied since; nil if not known
	SelectAge      []float64
	GateAge        []float64
	Cut            []report.Cut  // up to which offset of each partition its events are in the sample
	Digest         string        // of all rows, so that a repeated refit can say that it has the same
	Lineage        string        // of the state: ages of another one cannot be compared
	Watermark      int64         // newest event time, milliseconds since 1970
	Events         format.Counts // what became of the records before the cut

	tables *tables.Set      // not exported: a record of the refit keeps it apart from the rows
	joined *report.Outcomes // nor are these, which the weights of a record follow from
	open   *Open
}

// SetTables says what tables know of the entities of the rows at the cut: Decode joins it. Nothing may change it then.
func (s *Sample) SetTables(t *tables.Set) { s.tables = t }

// Tables returns what SetTables got, nil without tables.
func (s *Sample) Tables() *tables.Set { return s.tables }

// Heaviest returns what the weight of an event counts as at most.
func (s *Sample) Heaviest() float64 {
	if s.WeightLimit == 0 {
		return math.Inf(1)
	}
	return s.WeightLimit
}

// LeaveOut removes marked rows of the training, select and gate rows, but for parts of which no row would be left. The
// weights of the training rows have a mean of 1 again. Digest stays that of the cut.
func (s *Sample) LeaveOut(train, selected, gate []bool) {
	for _, marks := range [][]bool{train, selected, gate} {
		if !slices.Contains(marks, false) {
			clear(marks)
		}
	}
	s.Weights, s.TrainAge = without(s.Weights, train), without(s.TrainAge, train)
	s.HeldOutWeights = without(s.HeldOutWeights, slices.Concat(selected, gate))
	s.SelectAge, s.GateAge = without(s.SelectAge, selected), without(s.GateAge, gate)
	s.Train, s.Select, s.Gate = without(s.Train, train), without(s.Select, selected), without(s.Gate, gate)
	if sum := floats.Sum(s.Weights); sum > 0 {
		floats.Scale(float64(len(s.Weights))/sum, s.HeldOutWeights)
		floats.Scale(float64(len(s.Weights))/sum, s.Weights)
	}
}

// without returns the items that are not marked, nil of nil.
func without[T any](items []T, leave []bool) []T {
	if items == nil {
		return nil
	}
	kept := make([]T, 0, len(items))
	for i, item := range items {
		if !leave[i] {
			kept = append(kept, item)
		}
	}
	return kept
}

// Encoded is a part of a sample as the solver wants it.
type Encoded struct {
	Events  []event.Event
	X       *solver.Rows
	Targets []float64 // n×m
	vocab   *Vocabulary
	Numeric []float64 // n×p numbers of the training rows, for a feature map
	Names   []string  // entities of the training rows, for the same
	Most    float64   // what a loss of a row counts as at most; 0 for no bound
}

// DecodeBlock is how many events share an array of the names of their fields: each names its own in it. One that
// outlives the others keeps them, so it is small. Chosen by hand; no result depends on it.
const DecodeBlock = 256

// DecodeRows decodes rows; names is shared by the parts of a sample.
func DecodeRows(rows [][]byte, names rows.Interner) ([]event.Event, error) {
	events := make([]event.Event, len(rows))
	return events, decodeInto(events, rows, names)
}

// decodeInto decodes as many rows.
func decodeInto(events []event.Event, rowList [][]byte, names rows.Interner) error {
	var fields int
	var list []string
	for i, row := range rowList {
		ev := &events[i]
		if len(list) < fields {
			list = make([]string, fields*min(DecodeBlock, len(rowList)-i))
		}
		ev.Categorical, list = list[:0:fields], list[fields:]
		if err := rows.DecodeEvent(ev, row, names); err != nil {
			return err
		}
		fields = len(ev.Categorical)
	}
	return nil
}

// Decode decodes the parts of the sample, one half of the rows in parallel with the other.
func (s *Sample) Decode(inParallel func(f, g func())) (train, selected, gate []event.Event, err error) {
	train, selected, gate = make([]event.Event, len(s.Train)), make([]event.Event,
		len(s.Select)), make([]event.Event, len(s.Gate))
	// The split is by the number of rows alone, so events do not depend on the workers; each half has a separate pool
	// of names.
	half := min((len(train)+len(selected)+len(gate))/2, len(train))
	var others error
	inParallel(func() { err = decodeInto(train[:half], s.Train[:half], make(rows.Interner)) }, func() {
		names := make(rows.Interner)
		others = cmp.Or(decodeInto(train[half:], s.Train[half:], names), decodeInto(selected, s.Select, names),
			decodeInto(gate, s.Gate, names))
	})
	if err = cmp.Or(err, others); err == nil {
		s.tables.JoinAll(train, selected, gate)
	}
	return train, selected, gate, err
}

// Encode turns events into rows and targets. Events that Target.Encode does not take are left out, and their weights
// with them.
func Encode(v *Vocabulary, t *Target, events []event.Event, weights []float64) (*Encoded, []float64) {
	m := t.Outputs()
	e := &Encoded{
		vocab:   v,
		X:       solver.NewRows(v.NumColumns(), len(events), len(events)*3),
		Events:  make([]event.Event, 0, len(events)),
		Targets: make([]float64, 0, len(events)*m),
	}
	var kept []float64
	target := make([]float64, m)
	var index []int32
	var value []float64
	for i := range events {
		if !t.Encode(target, &events[i]) {
			continue
		}
		index, value = v.Encode(index[:0], value[:0], &events[i])
		e.X.Append(index, value)
		e.Events = append(e.Events, events[i])
		e.Targets = append(e.Targets, target...)
		if weights != nil {
			kept = append(kept, weights[i])
		}
	}
	return e, kept
}

// ClassesOf returns the classes that occur in events, sorted.
func ClassesOf(events []event.Event) []string {
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

// Losses returns the bounded loss of each row under a model.
func (e *Encoded) Losses(t *Target, model *solver.Model) []float64 {
	losses := make([]float64, len(e.Events))
	e.Each(t, model, func(i int, outputs, targets []float64) {
		losses[i] = BoundLoss(t.Judged(&e.Events[i], outputs, targets), e.Most)
	})
	return losses
}

// Each calls f with the outputs of a model for every row.
func (e *Encoded) Each(t *Target, model *solver.Model, f func(i int, outputs, targets []float64)) {
	m := t.Outputs()
	outputs, work := make([]float64, m), make([]float64, 2*model.NumBasis)
	var phi []float64
	for i := range e.Events {
		index, value := e.X.Row(i)
		model.Predict(outputs, work, index, value)
		phi = e.vocab.AddMapped(outputs, model, e.Events[i].Numeric, phi)
		e.vocab.AddTrees(outputs, &e.Events[i])
		f(i, outputs, e.Targets[i*m:i*m+m])
	}
}

// GroupOf returns the ranking group of rating tasks: the name in the first categorical field. Other tasks have none.
func GroupOf(m *config.Model) func(*event.Event) string {
	if len(m.Schema.Categorical) == 0 || !m.Schema.Learned().IsNumeric() {
		return nil
	}
	return func(ev *event.Event) string { return ev.Categorical[0] }
}
