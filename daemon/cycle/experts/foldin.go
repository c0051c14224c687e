package experts

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
	"github.com/refitd/refitd/solver/posterior/online"
)

// A Learner learns from single events. Used by one goroutine at a time.
type Learner interface {
	// Gather takes up an event.
	Gather(ev *event.Event)
	// Outputs takes up an event and stores its m outputs in dst.
	Outputs(dst []float64, ev *event.Event)
	// Learn folds in the event that was taken up last.
	Learn(ev *event.Event, target []float64, weight float64)
	// Correct takes up an event that was learned, and has its label take the place of the one before.
	Correct(of *admission.Correction)
}

// A partLearner has rows of names, some of which may learn nothing from an event.
type partLearner interface {
	Learner
	// learnPart is learn of what counts of the event.
	learnPart(ev *event.Event, target []float64, weight float64, counts *rows.Counted)
}

// LearnPart has a learner learn what counts of the event that it took up last. One without rows of names learns what
// all events share.
func LearnPart(l Learner, ev *event.Event, target []float64, counts *rows.Counted) {
	p, hasRows := l.(partLearner)
	switch {
	case counts.IsAll():
		l.Learn(ev, target, ev.Weight)
	case counts.IsNone():
	case hasRows:
		p.learnPart(ev, target, ev.Weight, counts)
	case counts.IsShared():
		l.Learn(ev, target, ev.Weight)
	}
}

// A FoldInLearner is the live model that versions can hold: the champion plus what single events have taught since.
type FoldInLearner interface {
	Learner
	// Model returns the live model over the champion's vocabulary plus the names learned since, as an ordinary model.
	Model(limit int) (*solver.Model, *encode.Vocabulary)
}

// FoldIn is the fold-in of multilinear models: a posterior row per feature, updated in closed form.
type FoldIn struct {
	schema *event.Schema
	Vocab  *encode.Vocabulary // of the champion; nil before there is one
	FoldIn *online.FoldIn     // the algebra; Slots says which row a name has
	Slots  *rows.Slots        // least recently used names are evicted
	order  []int              // fields, forgetting ones first
	*Beginning

	// Of the event in hand, entry by entry, from Gather to Learn:
	Features []online.Feature
	Values   []float64
	names    []FeatureName
	places   []int  // of names in counted.held; -1 of what is no name
	held     []bool // of features
}

// Beginning says where rows of names with vectors begin that neither events nor the champion have. A fold-in without
// such names has none.
type Beginning struct {
	Row     func(field int, name string) []float64 // nil where the field's prior says it
	Waiting *tables.Touched                        // names that may be given a row before their first event
	Room    int                                    // for so many of them
}

// FeatureName is a name in a field, or a numeric field or the constant, which have a column but no name.
type FeatureName struct {
	Field int
	Name  string
}

func NewFoldIn(m *config.Model, schema *event.Schema, target *encode.Target, champion *fitted.Fitted) *FoldIn {
	l := &FoldIn{schema: schema}
	fields := len(schema.Categorical) + len(schema.Multi)
	base := (*posterior.State)(nil)
	if champion != nil {
		l.Vocab, base = champion.Vocabulary, champion.Posterior
	} else {
		prior := posterior.PriorFor(target.Likelihood, priorScale(m))
		if target.Likelihood == posterior.Gaussian && priorScale(m) == 0 {
			prior.Noise = 0 // learned from the first labels
		}
		base = NewState(target, nil, fields, prior)
	}
	rates := make([][]float64, base.NumFields)
	for _, name := range m.Train.FoldIn.By {
		f := slices.Index(schema.Categorical, name)
		if rates[f] != nil {
			continue // named twice
		}
		// Each rate costs a posterior of each row: only the first field has three.
		rates[f] = online.FurtherRates
		if len(l.order) == 0 {
			rates[f] = online.DefaultRates
		}
		l.order = append(l.order, f)
	}
	for f := range fields {
		if rates[f] == nil {
			l.order = append(l.order, f)
		}
	}
	l.FoldIn = online.NewFoldIn(base, rates)
	l.Slots = rows.NewSlots(m.Train.FoldIn.MaxRows)
	return l
}

// NewState returns the prior over the given columns. Each class has separate weights; the outputs of an ordinal label
// share theirs.
func NewState(t *encode.Target, field []int32, fields int, prior posterior.Prior) *posterior.State {
	if t.Task.HasClasses() {
		return posterior.NewSeparate(t.Likelihood, t.Outputs(), field, fields, prior)
	}
	return posterior.New(t.Likelihood, t.Outputs(), 0, field, fields, prior)
}

// priorScale returns the standard deviation that labels may be expected to have before any were seen: a quarter of
// their range, or 0 if the range is not known.
func priorScale(m *config.Model) float64 {
	if m.Schema.Levels > 0 {
		return float64(m.Schema.Levels-1) / 4
	}
	return (m.Schema.LabelMax - m.Schema.LabelMin) / 4
}

// Gather takes up an event: it fills features, values and names for an event, without giving anything a slot.
func (l *FoldIn) Gather(ev *event.Event) {
	l.Features, l.Values, l.names, l.places = l.Features[:0], l.Values[:0], l.names[:0], l.places[:0]
	for _, f := range l.order {
		if f < len(ev.Categorical) {
			l.add(f, ev.Categorical[f], f, 1)
			continue
		}
		list := f - len(ev.Categorical)
		names, place := ev.Multi[list], rows.PlaceOfList(ev, list)
		for i, name := range names {
			l.add(f, name, place+i, format.MultiValue(l.schema.MultiWeights, list, len(names)))
		}
	}
	if l.Vocab == nil {
		return
	}
	numeric := len(l.Vocab.Names)
	// Numbers have a column each, after all names; before the first refit there is no scale, so they are left out.
	column := int32(l.Vocab.NumColumns() - (l.Vocab.NumFields() - numeric))
	for f, x := range ev.Numeric {
		if x = l.Vocab.Numeric[f].Scaled(x); x != 0 && !math.IsNaN(x) {
			l.addColumn(numeric+f, column+int32(f), x)
		}
	}
	if l.Vocab.Augment {
		l.addColumn(l.Vocab.NumFields()-1, int32(l.Vocab.NumColumns()-1), 1)
	}
}

func (l *FoldIn) add(field int, name string, place int, value float64) {
	if name == "" { // absent
		return
	}
	feature := online.Feature{Field: int32(field), Row: l.Slots.Find(field, name), Base: -1}
	// A live row takes the place of the refit's.
	if feature.Row < 0 && l.Vocab != nil {
		feature.Base = l.Vocab.Column(field, name)
	}
	l.Features, l.Values = append(l.Features, feature), append(l.Values, value)
	l.names, l.places = append(l.names, FeatureName{field, name}), append(l.places, place)
}

func (l *FoldIn) addColumn(field int, column int32, value float64) {
	feature := online.Feature{Field: int32(field), Row: l.Slots.Find(field, ""), Base: column}
	l.Features, l.Values = append(l.Features, feature), append(l.Values, value)
	l.names, l.places = append(l.names, FeatureName{field, ""}), append(l.places, -1)
}

func (l *FoldIn) Outputs(dst []float64, ev *event.Event) {
	l.Gather(ev)
	l.FoldIn.Predict(dst, l.Features, l.Values)
}

func (l *FoldIn) Learn(ev *event.Event, target []float64, weight float64) {
	l.learnPart(ev, target, weight, nil)
}

func (l *FoldIn) learnPart(_ *event.Event, target []float64, weight float64, counts *rows.Counted) {
	l.held = l.held[:0]
	for e := range l.Features {
		held := !counts.IsShared()
		if place := l.places[e]; place >= 0 {
			held = counts.Holds(place)
		}
		if l.held = append(l.held, held); held {
			continue
		}
		n := &l.names[e]
		at, fresh := l.Slots.Touch(l.Features[e].Row, n.Field, n.Name)
		l.Features[e].Row = at
		if fresh {
			l.place(at, l.Features[e], n.Name)
		}
	}
	// Slots are given first: all rows exist before any learns.
	l.FoldIn.LearnPart(l.Features, l.Values, target, weight, l.held, counts.IsShared())
}

// place starts the live row of a feature.
func (l *FoldIn) place(at int32, of online.Feature, name string) {
	if l.FoldIn.Place(at, of); of.Base < 0 && l.Beginning != nil {
		if mean := l.Row(int(of.Field), name); mean != nil {
			l.FoldIn.Begin(at, mean)
		}
	}
}

// Know gives a name that neither events nor the champion have a row where Beginning knows it. It reports whether it
// did.
func (l *FoldIn) Know(field int, name string) bool {
	if l.Vocab.Column(field, name) >= 0 || l.Slots.Find(field, name) >= 0 {
		return false
	}
	mean := l.Row(field, name)
	if mean == nil {
		return false
	}
	at, _ := l.Slots.Touch(-1, field, name)
	l.FoldIn.Place(at, online.Feature{Field: int32(field), Row: at, Base: -1})
	l.FoldIn.Begin(at, mean)
	return true
}

// Correct adds the difference of the labels to the right sides of the rows of the event, as far as they have not
// forgotten it. Its factors are those of the partners in the last refit: with live ones, which every correction moves,
// corrections would not add up.
func (l *FoldIn) Correct(of *admission.Correction) {
	l.Gather(of.Is)
	c := online.Correction{From: of.From, To: of.To, Weight: of.Is.Weight, Shared: of.Counts.IsShared()}
	for e := range l.Features {
		n := &l.names[e]
		c.Frozen = append(c.Frozen, online.Feature{Field: int32(n.Field), Row: -1, Base: l.base(n.Field, n.Name)})
		held, age := !c.Shared, of.Since
		if place := l.places[e]; place >= 0 {
			held, age = of.Counts.Holds(place), of.Ages[place]
		}
		c.Held, c.Ages = append(c.Held, held), append(c.Ages, age)
		if held {
			continue
		}
		at, fresh := l.Slots.Touch(l.Features[e].Row, n.Field, n.Name)
		l.Features[e].Row = at
		if fresh {
			l.place(at, l.Features[e], n.Name)
		}
	}
	l.FoldIn.Correct(l.Features, l.Values, &c)
}

// State returns the live posterior over a vocabulary.
func (l *FoldIn) State(v *encode.Vocabulary, steady []bool) *posterior.State {
	s := l.FoldIn.State(l.FeaturesOf(v), steady)
	if l.Vocab != nil {
		encode.RescalePosterior(s, l.Vocab, v)
	}
	return s
}

// FeaturesOf returns the columns of a vocabulary as the fold-in has them.
func (l *FoldIn) FeaturesOf(v *encode.Vocabulary) []online.Feature {
	features := make([]online.Feature, 0, v.NumColumns())
	for f, names := range v.Names {
		for _, name := range names {
			features = append(features, l.Feature(f, name))
		}
	}
	for f := len(v.Names); f < v.NumFields(); f++ {
		features = append(features, l.Feature(f, ""))
	}
	return features
}

// Feature returns a name, or a field without names where name is empty, as the fold-in has it.
func (l *FoldIn) Feature(field int, name string) online.Feature {
	return online.Feature{Field: int32(field), Row: l.Slots.Find(field, name), Base: l.base(field, name)}
}

// base returns the column of a name, or of a field without names, in the last refit, -1 without one.
func (l *FoldIn) base(field int, name string) int32 {
	switch {
	case l.Vocab == nil:
		return -1
	case name != "":
		return l.Vocab.Column(field, name)
	}
	return int32(l.Vocab.NumColumns() - l.Vocab.NumFields() + field)
}

func (l *FoldIn) Model(limit int) (*solver.Model, *encode.Vocabulary) {
	s, v := l.Live(limit, nil)
	return s.Model(), v
}

// Live returns the live posterior over the champion's vocabulary plus at most limit names in all, without covariances.
func (l *FoldIn) Live(limit int, steady []bool) (*posterior.State, *encode.Vocabulary) {
	v := l.Vocab.With(l.Slots, limit)
	return l.FoldIn.Means(l.FeaturesOf(v), steady), v
}
