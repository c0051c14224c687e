package cycle

import (
	"math"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// baseline is a predictor that needs no model. It belongs to one goroutine.
type baseline interface {
	name() string
	// predict stores its prediction in dst, a number or probabilities, and reports whether it has one.
	predict(dst []float64, ev *event.Event) bool
	// learn takes up what counts of the event that predict was called with last.
	learn(ev *event.Event, targets []float64, counts *counted)
}

// Fields of names beyond the first baselineFields have no baselines of their own.
const baselineFields = 2

// newBaselines returns those of a mixture. fields is the number of categorical fields, by the one whose entities have a last label.
func newBaselines(t *Target, fields, by, limit int) []baseline {
	width := 1
	if !t.IsNumeric() {
		width = t.Outputs()
		limit = min(limit, max(16, baselineNumbers/width))
	}
	of := func(name string, field int, fade float64, last bool) baseline {
		b := &conditional{title: name, target: t, field: field, fade: fade, last: last, width: width}
		if field >= 0 || last {
			b.slots = newSlots(limit)
		}
		if field >= 0 && last {
			b.before = newSlots(limit)
		}
		return b
	}
	all := []baseline{of("mean", -1, 1, false), of("recent_mean", -1, 0.98, false)}
	if t.IsNumeric() {
		all = append(all, &numberSGD{newSGDBias(t, fields, limit), t})
	}
	for f := range min(fields, baselineFields) {
		all = append(all, of([]string{"first_mean", "second_mean"}[f], f, 0.99, false))
	}
	all = append(all, of(lastLabelPart, -1, 0.99, true))
	if by >= 0 {
		all = append(all, of("entity_last_label", by, 0.99, true))
	}
	return all
}

// lastLabelPart is the part that predicts from the label of the event before.
const lastLabelPart = "last_label"

// baselineNumbers bounds the numbers of one baseline of classes.
const baselineNumbers = 1 << 20

// baselinePrior is how many events of the mean of all count beside those of one context.
const baselinePrior = 2

// conditional predicts the mean label, or the frequencies of the classes, of the events of one context: of all, of a name, of those after the
// same last label, or after the same last label of the same entity. Events fade as others of the context come.
type conditional struct {
	title  string
	target *Target
	field  int // of names or entities, -1 for none
	last   bool
	fade   float64
	width  int // of a prediction

	all    []float64 // width sums, and their number
	slots  *slots    // of contexts, nil without
	rows   []float64 // by slot, like all
	key    string    // of the event
	at     int32
	before *slots   // with field and last: entities
	labels []string // by slot of before, the last label
	entity int32
	latest string // with last and no field
}

func (b *conditional) name() string { return b.title }

func (b *conditional) predict(dst []float64, ev *event.Event) bool {
	b.context(ev)
	b.at = -1
	if b.field >= 0 || b.last {
		if b.key == "" {
			return false
		}
		b.at = b.slots.find(0, b.key)
	}
	if len(b.all) == 0 {
		return false
	}
	n := b.all[b.width]
	var row []float64
	total := float64(baselinePrior)
	if b.at >= 0 {
		row = b.rows[int(b.at)*(b.width+1) : int(b.at+1)*(b.width+1)]
		total += row[b.width]
	}
	for c := range dst {
		dst[c] = baselinePrior * b.all[c] / n
		if row != nil {
			dst[c] += row[c]
		}
		dst[c] /= total
	}
	return true
}

// context sets the key of the event, empty without one.
func (b *conditional) context(ev *event.Event) {
	b.key = ""
	switch {
	case b.last && b.field < 0:
		b.key = b.latest
	case b.last:
		if b.entity = b.before.find(0, ev.Categorical[b.field]); b.entity >= 0 {
			b.key = b.labels[b.entity]
		}
	case b.field >= 0:
		b.key = ev.Categorical[b.field]
	}
}

func (b *conditional) number() float64 {
	if b.at < 0 {
		return b.constant()
	}
	return b.constant() + b.weightAt(b.at)
}

func (b *conditional) constant() float64 {
	if len(b.all) == 0 {
		return math.NaN()
	}
	return b.all[0] / b.all[b.width]
}

func (b *conditional) weight(field int, name string) float64 {
	if field != b.field || b.last {
		return 0
	}
	if at := b.slots.find(0, name); at >= 0 {
		return b.weightAt(at)
	}
	return 0
}

// weightAt returns by how much the mean of a context is above that of all.
func (b *conditional) weightAt(at int32) float64 {
	row := b.rows[int(at)*(b.width+1) : int(at+1)*(b.width+1)]
	return (row[0] - row[b.width]*b.constant()) / (baselinePrior + row[b.width])
}

func (b *conditional) learn(ev *event.Event, targets []float64, counts *counted) {
	if counts.isShared() {
		b.learnAll(ev, targets)
	}
	learns := counts.isShared()
	if b.field >= 0 && !b.last { // a context is a name
		learns = !counts.holds(b.field)
	}
	if learns && b.key != "" {
		b.learnContext(ev, targets)
	}
	switch {
	case !b.last:
	case b.field < 0:
		if counts.isShared() {
			b.latest = labelKey(b.target, ev)
		}
	case !counts.holds(b.field):
		at, _ := b.before.touch(b.entity, 0, ev.Categorical[b.field])
		for len(b.labels) < int(at+1) {
			b.labels = append(b.labels, "")
		}
		b.labels[at] = labelKey(b.target, ev)
	}
}

// learnAll counts an event among all.
func (b *conditional) learnAll(ev *event.Event, targets []float64) {
	if len(b.all) == 0 {
		b.all = make([]float64, b.width+1)
		if !b.target.IsNumeric() { // as many as there are classes, one each
			for c := range targets {
				b.all[c] = 1 / float64(len(targets))
			}
			b.all[b.width] = 1
		}
	}
	fade := 1.0
	if b.field < 0 && !b.last {
		fade = b.fade
	}
	b.add(b.all, fade, ev, targets)
}

// learnContext counts an event among those of its context.
func (b *conditional) learnContext(ev *event.Event, targets []float64) {
	at, fresh := b.slots.touch(b.at, 0, b.key)
	for len(b.rows) < int(at+1)*(b.width+1) {
		b.rows = append(b.rows, 0)
	}
	row := b.rows[int(at)*(b.width+1) : int(at+1)*(b.width+1)]
	if fresh {
		clear(row)
	}
	b.add(row, b.fade, ev, targets)
}

func (b *conditional) add(row []float64, fade float64, ev *event.Event, targets []float64) {
	for c := range row {
		row[c] *= fade
	}
	row[b.width]++
	if b.target.IsNumeric() {
		row[0] += ev.Label
		return
	}
	for c, t := range targets {
		if t > 0 {
			row[c]++
		}
	}
}

// numberSGD is the sgd_bias baseline as a part.
type numberSGD struct {
	*sgdBias
	target *Target
}

func (b *numberSGD) name() string { return "sgd_bias" }

func (b *numberSGD) predict(dst []float64, ev *event.Event) bool {
	dst[0] = b.target.Clip(b.sgdBias.predict(ev))
	return true
}

func (b *numberSGD) learn(ev *event.Event, _ []float64, counts *counted) { b.sgdBias.learn(ev, counts) }

// labelKey names a label. Numbers that are not levels are told apart to a few digits.
func labelKey(t *Target, ev *event.Event) string {
	switch {
	case t.IsNumeric() || t.Task == event.Binary:
		if n := int(max(-1, min(ev.Label, float64(len(wholeLabels))))); n >= 0 && n < len(wholeLabels) && math.Float64bits(ev.Label) == math.Float64bits(float64(n)) {
			return wholeLabels[n]
		}
		return numberKey(ev.Label)
	case len(ev.Classes) == 0:
		return "-" // of several labels none
	}
	return strings.Join(ev.Classes, "\x00")
}

// labelDigits is how finely the last label is told apart.
const labelDigits = 2

func numberKey(label float64) string { return strconv.FormatFloat(label, 'g', labelDigits, 64) }

// wholeLabels are the keys of the labels that there are most of.
var wholeLabels = func() (keys [32]string) {
	for n := range keys {
		keys[n] = numberKey(float64(n))
	}
	return keys
}()
