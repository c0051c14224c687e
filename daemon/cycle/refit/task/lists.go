package task

import (
	"math"
	"sync"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/choices"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/solver"
)

// Versions of choices are judged by the lists that they make of held-out choices, of all names but those that who
// chooses has chosen in the training rows: the loss of a choice is 1 less 1/log2(1+place), its gain in nDCG, and 1
// beyond judgedPlaces. All are judged with the popularity of the training rows, which is also what none may be worse
// than. Chosen by hand.
const (
	judgedPlaces = 100
	judgedLists  = 1000 // of each part, spread evenly over its choices
)

// lists are what a refit of choices is judged by.
type lists struct {
	known   *choices.Known
	Popular *fitted.PopularWeights // by the training rows
	hidden  []string               // names that training rows do not have on purpose
	Whole   *encode.Encoded        // the gate rows with negatives, for figures of versions

	select_, gate      *encode.Encoded // choices alone
	selectAge, gateAge []float64

	mu     sync.Mutex // guards what follows
	judged map[judgedList]*madeLists
	silent *solver.Model // that of PopularAlone, over the refit's vocabulary
}

// judgedList is what lists are made for, and by which model.
type judgedList struct {
	part  *encode.Encoded
	model *solver.Model
	vocab *encode.Vocabulary
}

// madeLists is how the choices of a part did in the lists of a model.
type madeLists struct {
	Losses []float64
	Hits   choices.Hits // among the first ten
}

// NewLists returns nil for events with labels.
func (j *Task) NewLists(train []event.Event) *lists {
	known := choices.New(j.Model, 0)
	if known == nil {
		return nil
	}
	for i := range train {
		if train[i].Label > 0 {
			known.Note(&train[i])
		}
	}
	l := &lists{known: known, Popular: j.Criteria.PopularLearned, Whole: j.Rows.Gate, judged: make(
		map[judgedList]*madeLists)}
	if field := j.Model.ChosenField(); field < len(j.Rows.HeldOut) {
		l.hidden = j.Rows.HeldOut[field]
	}
	l.select_, l.selectAge = j.choicesOf(j.Rows.Select_, j.Rows.Sample.SelectAge)
	l.gate, l.gateAge = j.choicesOf(j.Rows.Gate, j.Rows.Sample.GateAge)
	return l
}

// Judging returns the refit as it is judged: of choices by lists, with held-out rows that are choices alone.
func (j *Task) Judging() *Task {
	l := j.Criteria.Chosen
	if l == nil {
		return j
	}
	out, sample := *j, *j.Rows.Sample
	out.Criteria.Lists, out.Rows.Select_, out.Rows.Gate = l, l.select_, l.gate
	sample.SelectAge, sample.GateAge = l.selectAge, l.gateAge
	out.Rows.Sample = &sample
	return &out
}

// choicesOf returns the choices of a part, at most judgedLists, with their ages.
func (j *Task) choicesOf(part *encode.Encoded, age []float64) (*encode.Encoded, []float64) {
	var at []int
	for i := range part.Events {
		if part.Events[i].Label > 0 {
			at = append(at, i)
		}
	}
	at = Spread(at, judgedLists)
	events, ages := make([]event.Event, len(at)), make([]float64, 0, len(at))
	for k, i := range at {
		if events[k] = part.Events[i]; len(age) == len(part.Events) {
			ages = append(ages, age[i])
		}
	}
	out, _ := encode.Encode(j.Vocab, j.Target, events, nil)
	return out, ages
}

// lister returns the version that a model makes with the popularity that all are judged with.
func (j *Task) lister(model *solver.Model, vocab *encode.Vocabulary) (*snapshot.Model, error) {
	ch := &fitted.Fitted{Model: model, Vocabulary: vocab, Target: j.Target, Popular: j.Criteria.Lists.Popular}
	return scorer.NewModel(ch.Contents(j.Model))
}

// ListsOf returns how each choice of a part does in the lists of a model. A model that makes none loses all.
func (j *Task) ListsOf(part *encode.Encoded, model *solver.Model, vocab *encode.Vocabulary) *madeLists {
	l, key := j.Criteria.Lists, judgedList{part, model, vocab}
	l.mu.Lock()
	made := l.judged[key]
	l.mu.Unlock()
	if made != nil {
		return made
	}
	made = &madeLists{Losses: make([]float64, len(part.Events))}
	version, err := j.lister(model, vocab)
	var items []snapshot.Item
	var scratch snapshot.Scratch
	for i := range part.Events {
		place, ev := 0, &part.Events[i]
		if err == nil {
			in := fitted.InputOf(j.Schema, ev)
			q := l.known.Query(ev, &in)
			q.K, q.Exclude = judgedPlaces, append(q.Exclude, l.hidden...)
			place, items, err = choices.Place(version, q, l.known.Chosen(ev), items, &scratch)
		}
		made.Losses[i] = 1
		if err == nil && place > 0 {
			made.Losses[i] -= 1 / math.Log2(1+float64(place))
		}
		if place > choices.Listed {
			place = 0
		}
		made.Hits.Add(place)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judged[key] = made
	return made
}

// Silent returns a model over the refit's vocabulary that says nothing: its lists are those of popularity alone.
func (c *Criteria) Silent(like *solver.Model) *solver.Model {
	l := c.Lists
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil {
		l.silent = fitted.PopularAlone(like)
	}
	if l.silent.NumFeatures != like.NumFeatures { // that of a rival is of another vocabulary
		return fitted.PopularAlone(like)
	}
	return l.silent
}

// liftErrors is by how many standard errors the lists of a model have to be better than those of popularity alone.
// Literature: the 5 % level.
const liftErrors = 2

// Lifts reports whether the lists of a model are shown to be better on the select rows than those of popularity alone.
func (j *Task) Lifts(model *solver.Model) bool {
	own, popular := j.ListsOf(j.Rows.Select_, model, j.Vocab), j.ListsOf(j.Rows.Select_, j.Criteria.Silent(model), j.Vocab)
	return IsLess(own.Losses, popular.Losses, j.ChosenBy(nil, j.Rows.Select_.Events), liftErrors)
}

// ListLoss returns the mean loss of the select rows in the lists of a model.
func (j *Task) ListLoss(model *solver.Model) float64 {
	sum := evaluate.WeightedSum{Weights: j.ChosenBy(nil, j.Rows.Select_.Events)}
	for i, l := range j.ListsOf(j.Rows.Select_, model, j.Vocab).Losses {
		sum.Add(i, l)
	}
	return sum.Mean()
}

// Listed returns the model that a version of a refit publishes: its own, or where lists are judged one that says
// nothing if it is of popularity alone.
func (c *Criteria) Listed(ch *fitted.Fitted, model *solver.Model) *solver.Model {
	switch {
	case !ch.PopularOnly:
		return model
	case c.Lists != nil:
		return c.Silent(model)
	}
	return fitted.PopularAlone(model)
}
