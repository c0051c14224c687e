package evaluate

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/quality"
	"github.com/refitd/refitd/daemon/report"
)

// EventOutcome is one event's error of one predictor.
type EventOutcome struct {
	Loss, Square, Abs float64
	Score             float32 // Target.score of classes; of numbers the prediction, where outputs or a value were judged
	Class             int16   // predicted; of classes, but not of several labels
	Correct, Present  bool
	Lossy             bool  // has a loss: the predictor has outputs that the loss takes
	place             uint8 // of the label's class among several, from 1, at most 255: see Target.place; 0 is not known
}

// Judged is what tally.judged is the mean of.
func (o *EventOutcome) Judged(numeric bool) float64 {
	if numeric {
		return o.Square
	}
	return o.Loss
}

// Outcome is the error of outputs on an event with the given targets.
func Outcome(t *encode.Target, ev *event.Event, outputs, targets []float64) EventOutcome {
	o := EventOutcome{Present: true, Lossy: true, Loss: BoundedError(t.Loss.Eval(nil, outputs, targets))}
	switch {
	case t.IsNumeric():
		v := t.Clip(t.Value(outputs))
		o.Number(v - ev.Label)
		o.Score = float32(v)
	case t.Task == event.Multilabel:
		o.Correct = t.Correct(outputs, targets)
	default:
		at := 0
		if t.Task == event.Multiclass {
			at = encode.Argmax(outputs)
			o.Class, o.Correct, o.place = int16(at), targets[at] > t.Threshold(), place(t, outputs, targets)
		} else {
			o.Class, o.Correct = int16(predicted(t, outputs)), t.Correct(outputs, targets)
		}
		o.Score = float32(score(t, outputs, at))
	}
	return o
}

// NumberOutcome is the error of a predicted number of something without outputs. value is of length 1 and overwritten.
func NumberOutcome(t *encode.Target, ev *event.Event, v float64, value, targets []float64) (o EventOutcome) {
	v = t.Clip(v)
	o.Number(v - ev.Label)
	o.Score = float32(v)
	value[0] = v
	o.Loss, o.Lossy = lossOf(t, value, targets)
	o.Loss = BoundedError(o.Loss)
	return o
}

// Number sets the errors of a numeric prediction that was off by e.
func (o *EventOutcome) Number(e float64) {
	o.Present, o.Square, o.Abs = true, BoundedError(e*e), BoundedError(math.Abs(e))
}

// WorstError is what an error counts as that is larger or no number: sums of errors stay numbers, which the state can
// hold. Derived: squares and sums of such errors are still numbers.
const WorstError = 1e30

// BoundedError returns e, or WorstError for more and for NaN.
func BoundedError(e float64) float64 {
	if e <= WorstError {
		return e
	}
	return WorstError
}

// Tally sums the errors of one predictor. Sums are compensated.
type Tally struct {
	N          int64   `json:"n"`
	Loss       float64 `json:"loss"`
	LossRest   float64 `json:"loss_rest,omitempty"`
	Square     float64 `json:"square"`
	SquareRest float64 `json:"square_rest,omitempty"`
	Abs        float64 `json:"abs"`
	AbsRest    float64 `json:"abs_rest,omitempty"`
	Correct    int64   `json:"correct"`
	Lossy      int64   `json:"lossy,omitempty"`    // of the n events those that Loss is of
	Compared   int64   `json:"compared,omitempty"` // of the n events those that Base and Last are of
	Base       float64 `json:"base,omitempty"`     // sum of compared.base
	Last       int64   `json:"last,omitempty"`     // events with compared.last

	Tops quality.Tops `json:"tops,omitzero"` // of the n events those with a place
}

// Add counts an outcome, unless there was no prediction. Numbers have errors; classes are compared with c.
func (t *Tally) Add(o *EventOutcome, c Compared) {
	if !o.Present {
		return
	}
	t.N++
	if o.Lossy {
		t.Lossy++
		t.Loss, t.LossRest = quality.AddTo(t.Loss, t.LossRest, o.Loss)
	}
	if o.place > 0 {
		t.Tops.Add(int(o.place))
	}
	if !c.Known {
		t.Square, t.SquareRest = quality.AddTo(t.Square, t.SquareRest, o.Square)
		t.Abs, t.AbsRest = quality.AddTo(t.Abs, t.AbsRest, o.Abs)
		return
	}
	t.Compared++
	t.Base += c.Base
	if o.Correct {
		t.Correct++
	}
	if c.Last {
		t.Last++
	}
}

// merge adds the sums of another tally, of other events.
func (t *Tally) merge(o *Tally) {
	t.N, t.Correct, t.Lossy, t.Compared, t.Last = t.N+o.N, t.Correct+o.Correct, t.Lossy+o.Lossy, t.Compared+o.Compared,
		t.Last+o.Last
	t.Loss, t.LossRest = quality.AddTo(t.Loss, t.LossRest+o.LossRest, o.Loss)
	t.Square, t.SquareRest = quality.AddTo(t.Square, t.SquareRest+o.SquareRest, o.Square)
	t.Abs, t.AbsRest = quality.AddTo(t.Abs, t.AbsRest+o.AbsRest, o.Abs)
	t.Base += o.Base
	t.Tops.Merge(&o.Tops)
}

// Rmse returns the root of the mean square, NaN without events.
func (t *Tally) Rmse() float64 { return math.Sqrt((t.Square + t.SquareRest) / float64(t.N)) }

// Judged returns the mean loss by which predictors are compared: the square for numeric labels, else the loss.
func (t *Tally) Judged(numeric bool) float64 {
	if numeric {
		return (t.Square + t.SquareRest) / float64(t.N)
	}
	return (t.Loss + t.LossRest) / float64(t.N)
}

// metrics are METRICS without those of a distribution. The loss is there if every event had one; lossless predictors
// say so.
func (t *Tally) metrics(target *encode.Target, lossless bool) *report.Metrics {
	m := &report.Metrics{N: t.N}
	if t.N == 0 {
		return m
	}
	n := float64(t.N)
	if !lossless || t.Lossy == t.N {
		m.Loss = report.Some((t.Loss + t.LossRest) / n)
	}
	if target.IsNumeric() {
		m.RMSE, m.MAE = report.Some(t.Rmse()), report.Some((t.Abs+t.AbsRest)/n)
		return m
	}
	m.Accuracy = report.Some(float64(t.Correct) / n)
	t.compare(m, target)
	return m
}

// compare stores in m how a predictor ranks classes, and how it compares with those of reference, if every event was
// ranked or compared.
func (t *Tally) compare(m *report.Metrics, target *encode.Target) {
	t.Tops.AddTo(m, len(target.Classes))
	if t.Compared != t.N || t.N == 0 {
		return
	}
	n := float64(t.N)
	m.KappaLast = report.Known(quality.Kappa(float64(t.Correct)/n, float64(t.Last)/n))
	if t.Lossy == t.N && HasProbabilities(target) && t.Base > 0 {
		m.EntropyNormalised = report.Known((t.Loss + t.LossRest) / t.Base)
	}
}

// distribution is what one predictor's classes and scores were like, in counts. Labels of several classes and numbers
// have no distribution.
type distribution struct {
	n       int64
	classes *quality.Classes
	scores  quality.Histogram
}

// newDistribution returns nil for tasks without one.
func newDistribution(t *encode.Target) *distribution {
	if t.Task != event.Binary && t.Task != event.Multiclass {
		return nil
	}
	return &distribution{classes: quality.NewClasses(len(classNames(t)))}
}

func (d *distribution) add(t *encode.Target, o *EventOutcome, c Compared) {
	if d == nil || !o.Present {
		return
	}
	d.n++
	d.classes.Add(int(o.Class), int(c.class))
	if t.Task == event.Binary {
		d.scores.Add(float64(o.Score), c.class > 0)
	} else if o.Lossy {
		d.scores.Add(float64(o.Score), o.Correct)
	}
}

// addTo stores its metrics in m, if it is of all of m's events.
func (d *distribution) addTo(m *report.Metrics, t *encode.Target) {
	if d == nil || d.n != m.N || d.n == 0 {
		return
	}
	d.classes.AddTo(m, classNames(t))
	scored := m.Loss != nil
	if scored && HasProbabilities(t) {
		m.ECE = report.Known(d.scores.ECE())
	}
	if scored && t.Task == event.Binary {
		m.AUC = report.Known(d.scores.AUC())
	}
}

// appendBinary appends the counts: n, and of each class right, predicted and actual, as unsigned varints, then the
// histogram. Of more classes than quality.MaxRecalls it appends nothing, so that the sums stay small compared with the
// events of a transaction.
func (d *distribution) appendBinary(b []byte) []byte {
	if len(d.classes.Actual) > quality.MaxRecalls {
		return b
	}
	b = binary.AppendUvarint(b, uint64(d.n))
	for _, counts := range d.classes.All() {
		for _, n := range counts {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return d.scores.AppendBinary(b)
}

// UnmarshalBinary restores what appendBinary appended for as many classes.
func (d *distribution) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	next := func(to *int64) {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > math.MaxInt64/4 {
			b = nil
			return
		}
		*to, b = int64(v), b[n:]
	}
	next(&d.n)
	for _, counts := range d.classes.All() {
		for i := range counts {
			next(&counts[i])
		}
	}
	if b == nil {
		return errors.New("cycle: counts of classes that are cut off")
	}
	return d.scores.UnmarshalBinary(b)
}

// account is a tally with its distribution.
type account struct {
	Tally
	*distribution
}

func (a *account) add(t *encode.Target, o *EventOutcome, c Compared) {
	a.Tally.Add(o, c)
	a.distribution.add(t, o, c)
}

func (a *account) metrics(t *encode.Target, lossless bool) *report.Metrics {
	m := a.Tally.metrics(t, lossless)
	a.distribution.addTo(m, t)
	return m
}
