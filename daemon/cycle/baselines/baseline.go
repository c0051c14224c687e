package baselines

import (
	"math"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// Baseline is a predictor that needs no model. It belongs to one goroutine.
type Baseline interface {
	Name() string // the part of the mixture; unique, as reports and --without have it
	// Predict stores its prediction in dst, a number or probabilities, and reports whether it has one.
	Predict(dst []float64, ev *event.Event) bool
	// Learn takes up what counts of the event that predict was called with last.
	Learn(ev *event.Event, targets []float64, counts *rows.Counted)
	// Correct has a label take the place of one that was learned.
	Correct(of *admission.Correction)
}

// The means of all events: equally, and of the last fifty or so.
var (
	meanKind       = ofContexts(PartMean, "the mean label, or the frequencies of classes, of all events", -1, 1, false)
	recentMeanKind = ofContexts(PartRecentMean, "the same of the last events, some fifty", -1, 0.98, false)
)

// The means of names of the first two categorical fields.
var (
	firstMeanKind  = ofContexts(PartFirstMean, "the mean of the name in the first categorical field", 0, 0.99, false)
	secondMeanKind = ofContexts(PartSecondMean, "the mean of the name in the second categorical field", 1, 0.99, false)
)

// lastLabelKind is the mean after the label of the event before.
var lastLabelKind = ofContexts(PartLastLabel, "the mean of events after the same last label", -1, 0.99, true)

// entityLastLabelKind is the same with the last label of the entity, by whose names train.fold_in.by says.
var entityLastLabelKind = Kind{
	Name:    PartEntityLabel,
	Doc:     "the same with the last label of the entity, which the first field of `train.fold_in.by` names",
	Applies: func(s *Setting) bool { return s.By >= 0 },
	New: func(s *Setting) Baseline {
		return newConditional(s, PartEntityLabel, s.By, 0.99, true)
	},
	Footprint: func(s *Setting, maxName int) int64 {
		return rows.SlotsFootprint(s.contexts(), maxName) + conditionalFootprint(s, s.labels(), maxName)
	},
}

// ofContexts is the baseline of the mean in a context: that of a name in a field, -1 for no field, and where last is
// true that of the last label.
func ofContexts(name, doc string, field int, fade float64, last bool) Kind {
	return Kind{
		Name:    name,
		Doc:     doc,
		Applies: func(s *Setting) bool { return field < s.Fields },
		New:     func(s *Setting) Baseline { return newConditional(s, name, field, fade, last) },
		Footprint: func(s *Setting, maxName int) int64 {
			switch {
			case field >= 0:
				return conditionalFootprint(s, s.contexts(), maxName)
			case last:
				return conditionalFootprint(s, s.labels(), maxName)
			}
			return 0
		},
	}
}

func newConditional(s *Setting, name string, field int, fade float64, last bool) *Conditional {
	b := &Conditional{Title: name, Target: s.Target, Field: field, Fade: fade, Last: last, Width: s.Width()}
	if field >= 0 || last {
		b.Slots = rows.NewSlots(s.contexts())
	}
	if field >= 0 && last {
		b.Before = rows.NewSlots(s.contexts())
	}
	return b
}

// conditionalFootprint returns the bytes of n contexts of a baseline.
func conditionalFootprint(s *Setting, n, maxName int) int64 {
	return rows.SlotsFootprint(n, maxName) + int64(n)*8*int64(s.Width()+1)
}

// labels returns how many different labels there may be as contexts.
func (s *Setting) labels() int {
	switch s.Target.Task {
	case event.Ordinal:
		return min(s.contexts(), s.Target.Levels)
	case event.Binary:
		return min(s.contexts(), 2)
	case event.Multiclass:
		return min(s.contexts(), len(s.Target.Classes))
	}
	return s.contexts()
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

// baselineNumbers bounds the numbers of one baseline of classes. Chosen by hand: 8 MiB.
const baselineNumbers = 1 << 20

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
	key    string      // the context of the event
	at     int32
	Before *rows.Slots // with field and last: entities
	labels []string    // by slot of before, the last label
	entity int32
	latest string // the label of the event before, with last and no field
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
	n := b.All[b.Width] // above 0: All begins with an event, or with one of each class
	var row []float64
	// Shrinkage to the overall mean: (prior·mean + Σ of the context)/(prior + n), with n ≥ 0.
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

// Number returns the prediction of a number for the event that Predict saw last, as a constant and a weight of its
// name. NaN before any event.
func (b *Conditional) Number() float64 {
	if b.at < 0 {
		return b.Constant()
	}
	return b.Constant() + b.weightAt(b.at)
}

// Constant returns the overall mean of numbers, NaN before any event.
func (b *Conditional) Constant() float64 {
	if len(b.All) == 0 {
		return math.NaN()
	}
	return b.All[0] / b.All[b.Width]
}

// Weight returns what a version that holds this baseline adds for a name: 0 for other fields, and for contexts that are
// no names, which versions cannot hold.
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
	case ev.Categorical[b.Field] != "" && !counts.Holds(b.Field):
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

// add counts the label of an event in a row of sums, after the others have faded.
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

// Correct takes the old label out of the sums and puts the new one in, each as far as it has not faded. Sums of
// contexts that are last labels stay: which one it was is not known.
func (b *Conditional) Correct(of *admission.Correction) {
	shared := of.Counts.IsShared()
	if shared && len(b.All) > 0 {
		left := 1.0
		if b.Field < 0 && !b.Last {
			left = admission.Fades(b.Fade, of.Since)
		}
		b.amend(b.All, left, of)
	}
	switch {
	case b.Last && b.Field < 0:
		if shared && of.Since == 0 {
			b.latest = LabelKey(b.Target, of.Is)
		}
	case b.Last && of.Is.Categorical[b.Field] != "":
		at := b.Before.Find(0, of.Is.Categorical[b.Field])
		if at >= 0 && of.Ages[b.Field] == 0 && !of.Counts.Holds(b.Field) {
			b.labels[at] = LabelKey(b.Target, of.Is)
		}
	case b.Field >= 0 && !b.Last && of.Is.Categorical[b.Field] != "" && !of.Counts.Holds(b.Field):
		if at := b.Slots.Find(0, of.Is.Categorical[b.Field]); at >= 0 {
			row := b.rows[int(at)*(b.Width+1) : int(at+1)*(b.Width+1)]
			b.amend(row, admission.Fades(b.Fade, of.Ages[b.Field]), of)
		}
	}
}

// amend adds the difference of the labels to sums.
func (b *Conditional) amend(row []float64, left float64, of *admission.Correction) {
	if b.Target.IsNumeric() {
		row[0] += left * (of.Is.Label - of.Was.Label)
		return
	}
	for c, t := range of.To {
		row[c] += left * (encode.One(t) - encode.One(of.From[c]))
	}
}
