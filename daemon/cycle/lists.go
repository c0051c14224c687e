package cycle

import (
	"math"
	"slices"
	"sync"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/choices"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/solver"
)

// Versions of choices are judged by the lists that they make of held-out choices, of all names but those that who chooses has chosen in the training rows: the
// loss of a choice is 1 less 1/log2(1+place), its gain in nDCG, and 1 beyond judgedPlaces. All are judged with the popularity of the training rows, which is
// also what none may be worse than.
const (
	judgedPlaces = 100
	judgedLists  = 1000 // of each part, spread evenly over its choices
)

// lists are what a refit of choices is judged by.
type lists struct {
	known   *choices.Known
	popular *popularWeights // by the training rows
	hidden  []string        // names that training rows do not have on purpose
	whole   *encoded        // the gate rows with negatives, for figures of versions

	select_, gate      *encoded // choices alone
	selectAge, gateAge []float64

	mu     sync.Mutex // guards what follows
	judged map[judgedList]*madeLists
	silent *solver.Model // that of popularAlone, over the refit's vocabulary
}

// judgedList is what lists are made for, and by which model.
type judgedList struct {
	part  *encoded
	model *solver.Model
	vocab *Vocabulary
}

// madeLists is how the choices of a part did in the lists of a model.
type madeLists struct {
	losses []float64
	hits   choices.Hits // among the first ten
}

// newLists returns nil for events with labels.
func (j *refitJob) newLists(train []event.Event) *lists {
	known := choices.New(j.model, 0)
	if known == nil {
		return nil
	}
	for i := range train {
		if train[i].Label > 0 {
			known.Note(&train[i])
		}
	}
	l := &lists{known: known, popular: j.popularLearned, whole: j.gate, judged: make(map[judgedList]*madeLists)}
	if field := j.model.ChosenField(); field < len(j.heldOut) {
		l.hidden = j.heldOut[field]
	}
	l.select_, l.selectAge = j.choicesOf(j.select_, j.sample.SelectAge)
	l.gate, l.gateAge = j.choicesOf(j.gate, j.sample.GateAge)
	return l
}

// judging returns the refit as it is judged: of choices by lists, with held-out rows that are choices alone.
func (j *refitJob) judging() *refitJob {
	l := j.chosen
	if l == nil {
		return j
	}
	out, sample := *j, *j.sample
	out.lists, out.select_, out.gate = l, l.select_, l.gate
	sample.SelectAge, sample.GateAge = l.selectAge, l.gateAge
	out.sample = &sample
	return &out
}

// choicesOf returns the choices of a part, at most judgedLists, with their ages.
func (j *refitJob) choicesOf(part *encoded, age []float64) (*encoded, []float64) {
	var at []int
	for i := range part.events {
		if part.events[i].Label > 0 {
			at = append(at, i)
		}
	}
	at = spread(at, judgedLists)
	events, ages := make([]event.Event, len(at)), make([]float64, 0, len(at))
	for k, i := range at {
		if events[k] = part.events[i]; len(age) == len(part.events) {
			ages = append(ages, age[i])
		}
	}
	out, _ := encode(j.vocab, j.target, events, nil)
	return out, ages
}

// lister returns the version that a model makes with the popularity that all are judged with.
func (j *refitJob) lister(model *solver.Model, vocab *Vocabulary) (*snapshot.Model, error) {
	ch := &Champion{Model: model, Vocabulary: vocab, Target: j.target, popular: j.lists.popular}
	return snapshot.NewModel(ch.Contents(j.model))
}

// listsOf returns how each choice of a part does in the lists of a model. A model that makes none loses all.
func (j *refitJob) listsOf(part *encoded, model *solver.Model, vocab *Vocabulary) *madeLists {
	l, key := j.lists, judgedList{part, model, vocab}
	l.mu.Lock()
	made := l.judged[key]
	l.mu.Unlock()
	if made != nil {
		return made
	}
	made = &madeLists{losses: make([]float64, len(part.events))}
	version, err := j.lister(model, vocab)
	var items []snapshot.Item
	var scratch snapshot.Scratch
	for i := range part.events {
		place, ev := 0, &part.events[i]
		if err == nil {
			in := InputOf(j.schema, ev)
			q := l.known.Query(ev, &in)
			q.K, q.Exclude = judgedPlaces, append(q.Exclude, l.hidden...)
			place, items, err = choices.Place(version, q, l.known.Chosen(ev), items, &scratch)
		}
		made.losses[i] = 1
		if err == nil && place > 0 {
			made.losses[i] -= 1 / math.Log2(1+float64(place))
		}
		if place > choices.Listed {
			place = 0
		}
		made.hits.Add(place)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judged[key] = made
	return made
}

// silent returns a model over the refit's vocabulary that says nothing: its lists are those of popularity alone.
func (j *refitJob) silent(like *solver.Model) *solver.Model {
	l := j.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil {
		l.silent = popularAlone(like)
	}
	if l.silent.NumFeatures != like.NumFeatures { // that of a rival is of another vocabulary
		return popularAlone(like)
	}
	return l.silent
}

// popularAlone returns a model that says nothing.
func popularAlone(like *solver.Model) *solver.Model {
	return solver.NewModel(like.Kernel, like.NumFeatures, like.NumOutputs, true)
}

// liftErrors is by how many standard errors the lists of a model have to be better than those of popularity alone.
const liftErrors = 2

// lifts reports whether the lists of a model are shown to be better on the held-out rows than those of popularity alone.
func (j *refitJob) lifts(model *solver.Model) bool {
	var own, popular []float64
	for _, part := range []*encoded{j.select_, j.gate} {
		own = append(own, j.listsOf(part, model, j.vocab).losses...)
		popular = append(popular, j.listsOf(part, j.silent(model), j.vocab).losses...)
	}
	return isLess(own, popular, j.chosenBy(nil, slices.Concat(j.select_.events, j.gate.events)), liftErrors)
}

// listLoss returns the mean loss of the select rows in the lists of a model.
func (j *refitJob) listLoss(model *solver.Model) float64 {
	sum := weightedSum{weights: j.chosenBy(nil, j.select_.events)}
	for i, l := range j.listsOf(j.select_, model, j.vocab).losses {
		sum.add(i, l)
	}
	return sum.mean()
}

// listed returns the model that a version of a refit publishes: its own, or where lists are judged one that says nothing if it is of popularity alone.
func (j *refitJob) listed(ch *Champion, model *solver.Model) *solver.Model {
	switch {
	case !ch.popularOnly:
		return model
	case j.lists != nil:
		return j.silent(model)
	}
	return popularAlone(model)
}
