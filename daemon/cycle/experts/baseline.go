package experts

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// Baseline is a predictor that needs no model. It belongs to one goroutine.
type Baseline interface {
	Name() string
	// Predict stores its prediction in dst, a number or probabilities, and reports whether it has one.
	Predict(dst []float64, ev *event.Event) bool
	// Learn takes up what counts of the event that predict was called with last.
	Learn(ev *event.Event, targets []float64, counts *rows.Counted)
}

// BaselineFields is how many fields of names have a baseline: the first ones. Chosen by hand.
const BaselineFields = 2

// NewBaselines returns those of a mixture. fields is the number of categorical fields, by the one whose entities have a
// last label. Those of the names without are left out.
func NewBaselines(t *encode.Target, fields, by, limit int, without ...string) (all []Baseline) {
	width := 1
	if !t.IsNumeric() {
		width = t.Outputs()
		limit = min(limit, max(16, BaselineNumbers/width))
	}
	add := func(name string, field int, fade float64, last bool) {
		if slices.Contains(without, name) {
			return
		}
		b := &Conditional{Title: name, Target: t, Field: field, Fade: fade, Last: last, Width: width}
		if field >= 0 || last {
			b.Slots = rows.NewSlots(limit)
		}
		if field >= 0 && last {
			b.Before = rows.NewSlots(limit)
		}
		all = append(all, b)
	}
	add(PartMean, -1, 1, false)
	add(PartRecentMean, -1, 0.98, false)
	if t.IsNumeric() && !slices.Contains(without, PartSGD) {
		all = append(all, &NumberSGD{NewSGDBias(t, fields, limit), t})
	}
	for f := range min(fields, BaselineFields) {
		add([]string{PartFirstMean, PartSecondMean}[f], f, 0.99, false)
	}
	add(PartLastLabel, -1, 0.99, true)
	if by >= 0 {
		add(PartEntityLabel, by, 0.99, true)
	}
	return all
}

// The parts that baselines are.
const (
	PartMean        = "mean"
	PartRecentMean  = "recent_mean"
	PartSGD         = "sgd_bias"
	PartFirstMean   = "first_mean"
	PartSecondMean  = "second_mean"
	PartLastLabel   = "last_label" // from the label of the event before
	PartEntityLabel = "entity_last_label"
)

// BaselineNumbers bounds the numbers of one baseline of classes. Chosen by hand: 8 MiB.
const BaselineNumbers = 1 << 20

// BaselinePrior is the number of events of the overall mean that are added to those of one context. Chosen by hand.
const BaselinePrior = 2

// Conditional predicts the mean label, or the frequencies of the classes, of the events of one context: of all, of a
// name, of those after the same last label, or after the same last label of the same entity. Events fade as others of
// the context come.
type Conditional struct {
	Title  string
	Target *encode.Target
	Field  int // of names or entities, -1 for none
	Last   bool
	Fade   float64
	Width  int // of a prediction

	All    []float64   // width sums, and their number
	Slots  *rows.Slots // of contexts, nil without
	rows   []float64   // by slot, like all
	key    string      // of the event
	at     int32
	Before *rows.Slots // with field and last: entities
	labels []string    // by slot of before, the last label
	entity int32
	latest string // with last and no field
}

func (b *Conditional) Name() string { return b.Title }

func (b *Conditional) Predict(dst []float64, ev *event.Event) bool {
	b.context(ev)
	b.at = -1
	if b.Field >= 0 || b.Last {
		if b.key == "" {
			return false
		}
		b.at = b.Slots.Find(0, b.key)
	}
	if len(b.All) == 0 {
		return false
	}
	n := b.All[b.Width]
	var row []float64
	total := float64(BaselinePrior)
	if b.at >= 0 {
		row = b.rows[int(b.at)*(b.Width+1) : int(b.at+1)*(b.Width+1)]
		total += row[b.Width]
	}
	for c := range dst {
		dst[c] = BaselinePrior * b.All[c] / n
		if row != nil {
			dst[c] += row[c]
		}
		dst[c] /= total
	}
	return true
}

// context sets the key of the event, empty without one.
func (b *Conditional) context(ev *event.Event) {
	b.key = ""
	switch {
	case b.Last && b.Field < 0:
		b.key = b.latest
	case b.Last:
		if b.entity = b.Before.Find(0, ev.Categorical[b.Field]); b.entity >= 0 {
			b.key = b.labels[b.entity]
		}
	case b.Field >= 0:
		b.key = ev.Categorical[b.Field]
	}
}

func (b *Conditional) Number() float64 {
	if b.at < 0 {
		return b.Constant()
	}
	return b.Constant() + b.weightAt(b.at)
}

func (b *Conditional) Constant() float64 {
	if len(b.All) == 0 {
		return math.NaN()
	}
	return b.All[0] / b.All[b.Width]
}

func (b *Conditional) Weight(field int, name string) float64 {
	if field != b.Field || b.Last {
		return 0
	}
	if at := b.Slots.Find(0, name); at >= 0 {
		return b.weightAt(at)
	}
	return 0
}

// weightAt returns by how much the mean of a context is above that of all.
func (b *Conditional) weightAt(at int32) float64 {
	row := b.rows[int(at)*(b.Width+1) : int(at+1)*(b.Width+1)]
	return (row[0] - row[b.Width]*b.Constant()) / (BaselinePrior + row[b.Width])
}

func (b *Conditional) Learn(ev *event.Event, targets []float64, counts *rows.Counted) {
	if counts.IsShared() {
		b.learnAll(ev, targets)
	}
	learns := counts.IsShared()
	if b.Field >= 0 && !b.Last { // a context is a name
		learns = !counts.Holds(b.Field)
	}
	if learns && b.key != "" {
		b.learnContext(ev, targets)
	}
	switch {
	case !b.Last:
	case b.Field < 0:
		if counts.IsShared() {
			b.latest = LabelKey(b.Target, ev)
		}
	case !counts.Holds(b.Field):
		at, _ := b.Before.Touch(b.entity, 0, ev.Categorical[b.Field])
		for len(b.labels) < int(at+1) {
			b.labels = append(b.labels, "")
		}
		b.labels[at] = LabelKey(b.Target, ev)
	}
}

// learnAll counts an event among all.
func (b *Conditional) learnAll(ev *event.Event, targets []float64) {
	if len(b.All) == 0 {
		b.All = make([]float64, b.Width+1)
		if !b.Target.IsNumeric() { // as many as there are classes, one each
			for c := range targets {
				b.All[c] = 1 / float64(len(targets))
			}
			b.All[b.Width] = 1
		}
	}
	fade := 1.0
	if b.Field < 0 && !b.Last {
		fade = b.Fade
	}
	b.add(b.All, fade, ev, targets)
}

// learnContext counts an event among those of its context.
func (b *Conditional) learnContext(ev *event.Event, targets []float64) {
	at, fresh := b.Slots.Touch(b.at, 0, b.key)
	for len(b.rows) < int(at+1)*(b.Width+1) {
		b.rows = append(b.rows, 0)
	}
	row := b.rows[int(at)*(b.Width+1) : int(at+1)*(b.Width+1)]
	if fresh {
		clear(row)
	}
	b.add(row, b.Fade, ev, targets)
}

func (b *Conditional) add(row []float64, fade float64, ev *event.Event, targets []float64) {
	for c := range row {
		row[c] *= fade
	}
	row[b.Width]++
	if b.Target.IsNumeric() {
		row[0] += ev.Label
		return
	}
	for c, t := range targets {
		if t > 0 {
			row[c]++
		}
	}
}

// NumberSGD is the sgd_bias baseline as a part.
type NumberSGD struct {
	*SGDBias
	target *encode.Target
}

func (b *NumberSGD) Name() string { return PartSGD }

func (b *NumberSGD) Predict(dst []float64, ev *event.Event) bool {
	dst[0] = b.target.Clip(b.SGDBias.predict(ev))
	return true
}

func (b *NumberSGD) Learn(ev *event.Event, _ []float64, counts *rows.Counted) {
	b.SGDBias.learn(ev, counts)
}

// LabelKey names a label. Numbers that are not levels are distinguished by LabelDigits digits.
func LabelKey(t *encode.Target, ev *event.Event) string {
	switch {
	case t.IsNumeric() || t.Task == event.Binary:
		if n := int(max(-1, min(ev.Label, float64(len(wholeLabels))))); n >= 0 && n < len(wholeLabels) &&
			math.Float64bits(ev.Label) == math.Float64bits(float64(n)) {
			return wholeLabels[n]
		}
		return numberKey(ev.Label)
	case len(ev.Classes) == 0:
		return "-" // of several labels none
	}
	return strings.Join(ev.Classes, "\x00")
}

// LabelDigits is the number of significant digits of the last label. Chosen by hand.
const LabelDigits = 2

func numberKey(label float64) string { return strconv.FormatFloat(label, 'g', LabelDigits, 64) }

// wholeLabels are the keys of the labels that there are most of.
var wholeLabels = func() (keys [32]string) {
	for n := range keys {
		keys[n] = numberKey(float64(n))
	}
	return keys
}()
