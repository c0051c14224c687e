package cycle

import (
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
	"github.com/refitd/refitd/solver/posterior"
)

// A learner learns from single events. Used by one goroutine at a time.
type learner interface {
	// gather takes up an event.
	gather(ev *event.Event)
	// outputs takes up an event and stores its m outputs in dst.
	outputs(dst []float64, ev *event.Event)
	// learn folds in the event that was taken up last.
	learn(ev *event.Event, target []float64, weight float64)
}

// A partLearner has rows of names, some of which may learn nothing from an event.
type partLearner interface {
	learner
	// learnPart is learn of what counts of the event.
	learnPart(ev *event.Event, target []float64, weight float64, counts *counted)
}

// learnPart has a learner learn what counts of the event that it took up last. One without rows of names learns what all events share.
func learnPart(l learner, ev *event.Event, target []float64, counts *counted) {
	p, hasRows := l.(partLearner)
	switch {
	case counts.isAll():
		l.learn(ev, target, ev.Weight)
	case counts.isNone():
	case hasRows:
		p.learnPart(ev, target, ev.Weight, counts)
	case counts.isShared():
		l.learn(ev, target, ev.Weight)
	}
}

// A foldInLearner is the live model that versions can hold: the champion plus what single events have taught since.
type foldInLearner interface {
	learner
	// model returns the live model over the champion's vocabulary plus the names learned since, as an ordinary model.
	model(limit int) (*solver.Model, *Vocabulary)
}

// posteriorLearner is the fold-in of multilinear models: a posterior row per feature, updated in closed form.
type posteriorLearner struct {
	schema *event.Schema
	vocab  *Vocabulary // of the champion; nil before there is one
	foldIn *posterior.FoldIn
	slots  *slots
	order  []int // fields, forgetting ones first

	features []posterior.Feature
	values   []float64
	names    []featureName
	places   []int  // of names in counted.held; -1 of what is no name
	held     []bool // of features
}

// featureName is a name in a field, or a numeric field or the constant, which have a column but no name.
type featureName struct {
	field int
	name  string
}

func newPosteriorLearner(m *config.Model, schema *event.Schema, target *Target, champion *Champion) *posteriorLearner {
	l := &posteriorLearner{schema: schema}
	fields := len(schema.Categorical) + len(schema.Multi)
	base := (*posterior.State)(nil)
	if champion != nil {
		l.vocab, base = champion.Vocabulary, champion.posterior
	} else {
		prior := posterior.PriorFor(target.Likelihood, priorScale(m))
		if target.Likelihood == posterior.Gaussian && priorScale(m) == 0 {
			prior.Noise = 0 // learned from the first labels
		}
		base = target.newState(nil, fields, prior)
	}
	rates := make([][]float64, base.NumFields)
	for _, name := range m.Train.FoldIn.By {
		f := slices.Index(schema.Categorical, name)
		if rates[f] != nil {
			continue // named twice
		}
		rates[f] = posterior.FurtherRates
		if len(l.order) == 0 {
			rates[f] = posterior.DefaultRates
		}
		l.order = append(l.order, f)
	}
	for f := range fields {
		if rates[f] == nil {
			l.order = append(l.order, f)
		}
	}
	l.foldIn = posterior.NewFoldIn(base, rates)
	l.slots = newSlots(m.Train.FoldIn.MaxRows)
	return l
}

// newState returns the prior over the given columns: classes have weights of their own, the outputs of an ordinal label share theirs.
func (t *Target) newState(field []int32, fields int, prior posterior.Prior) *posterior.State {
	if t.Task.HasClasses() {
		return posterior.NewSeparate(t.Likelihood, t.Outputs(), field, fields, prior)
	}
	return posterior.New(t.Likelihood, t.Outputs(), 0, field, fields, prior)
}

// priorScale returns the standard deviation that labels may be expected to have before any were seen: a quarter of their range, or 0 if
// the range is not known.
func priorScale(m *config.Model) float64 {
	if m.Schema.Levels > 0 {
		return float64(m.Schema.Levels-1) / 4
	}
	return (m.Schema.LabelMax - m.Schema.LabelMin) / 4
}

// gather takes up an event: it fills features, values and names for an event, without giving anything a slot.
func (l *posteriorLearner) gather(ev *event.Event) {
	l.features, l.values, l.names, l.places = l.features[:0], l.values[:0], l.names[:0], l.places[:0]
	for _, f := range l.order {
		if f < len(ev.Categorical) {
			l.add(f, ev.Categorical[f], f, 1)
			continue
		}
		list := f - len(ev.Categorical)
		names, place := ev.Multi[list], placeOfList(ev, list)
		for i, name := range names {
			l.add(f, name, place+i, snapshot.MultiValue(l.schema.MultiWeights, list, len(names)))
		}
	}
	if l.vocab == nil {
		return
	}
	numeric := len(l.vocab.Names)
	column := int32(l.vocab.NumColumns() - (l.vocab.NumFields() - numeric))
	for f, x := range ev.Numeric {
		if x = l.vocab.Numeric[f].Scaled(x); x != 0 && !math.IsNaN(x) {
			l.addColumn(numeric+f, column+int32(f), x)
		}
	}
	if l.vocab.Augment {
		l.addColumn(l.vocab.NumFields()-1, int32(l.vocab.NumColumns()-1), 1)
	}
}

func (l *posteriorLearner) add(field int, name string, place int, value float64) {
	if name == "" { // absent
		return
	}
	feature := posterior.Feature{Field: int32(field), Row: l.slots.find(field, name), Base: -1}
	if feature.Row < 0 && l.vocab != nil {
		feature.Base = l.vocab.Column(field, name)
	}
	l.features, l.values = append(l.features, feature), append(l.values, value)
	l.names, l.places = append(l.names, featureName{field, name}), append(l.places, place)
}

func (l *posteriorLearner) addColumn(field int, column int32, value float64) {
	feature := posterior.Feature{Field: int32(field), Row: l.slots.find(field, ""), Base: column}
	l.features, l.values = append(l.features, feature), append(l.values, value)
	l.names, l.places = append(l.names, featureName{field, ""}), append(l.places, -1)
}

func (l *posteriorLearner) outputs(dst []float64, ev *event.Event) {
	l.gather(ev)
	l.foldIn.Predict(dst, l.features, l.values)
}

func (l *posteriorLearner) learn(ev *event.Event, target []float64, weight float64) {
	l.learnPart(ev, target, weight, nil)
}

func (l *posteriorLearner) learnPart(_ *event.Event, target []float64, weight float64, counts *counted) {
	l.held = l.held[:0]
	for e := range l.features {
		held := !counts.isShared()
		if place := l.places[e]; place >= 0 {
			held = counts.holds(place)
		}
		if l.held = append(l.held, held); held {
			continue
		}
		n := &l.names[e]
		at, fresh := l.slots.touch(l.features[e].Row, n.field, n.name)
		l.features[e].Row = at
		if fresh {
			l.foldIn.Place(at, l.features[e])
		}
	}
	l.foldIn.LearnPart(l.features, l.values, target, weight, l.held, counts.isShared())
}

// state returns the live posterior over a vocabulary.
func (l *posteriorLearner) state(v *Vocabulary, steady []bool) *posterior.State {
	s := l.foldIn.State(l.featuresOf(v), steady)
	if l.vocab != nil {
		rescalePosterior(s, l.vocab, v)
	}
	return s
}

// featuresOf returns the columns of a vocabulary as the fold-in has them.
func (l *posteriorLearner) featuresOf(v *Vocabulary) []posterior.Feature {
	features := make([]posterior.Feature, 0, v.NumColumns())
	for f, names := range v.Names {
		for _, name := range names {
			features = append(features, l.feature(f, name))
		}
	}
	for f := len(v.Names); f < v.NumFields(); f++ {
		features = append(features, l.feature(f, ""))
	}
	return features
}

// feature returns a name, or a field without names where name is empty, as the fold-in has it.
func (l *posteriorLearner) feature(field int, name string) posterior.Feature {
	feature := posterior.Feature{Field: int32(field), Row: l.slots.find(field, name), Base: -1}
	switch {
	case l.vocab == nil:
	case name != "":
		feature.Base = l.vocab.Column(field, name)
	default:
		feature.Base = int32(l.vocab.NumColumns() - l.vocab.NumFields() + field)
	}
	return feature
}

func (l *posteriorLearner) model(limit int) (*solver.Model, *Vocabulary) {
	s, v := l.live(limit, nil)
	return s.Model(), v
}

// live returns the live posterior over the champion's vocabulary plus at most limit names in all, without covariances.
func (l *posteriorLearner) live(limit int, steady []bool) (*posterior.State, *Vocabulary) {
	v := l.vocab.with(l.slots, limit)
	return l.foldIn.Means(l.featuresOf(v), steady), v
}
