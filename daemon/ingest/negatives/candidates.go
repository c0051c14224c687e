package negatives

import (
	"cmp"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// Kept is how many of the last choices observed events are compared with, and lists leave out.
const Kept = 16_384

// Counts up to exactCounts are one class each. Names that were chosen more often share a class, in which each is
// drawn as often as it was chosen: their counts say well enough how often they will be.
const exactCounts = 8

// Candidates are what negatives are drawn from: the names of the last choices, by how often and how lately they were
// chosen.
type Candidates struct {
	field       int          // what is chosen
	categorical []int        // categorical fields that are functions of it
	numeric     []int        // numeric ones
	multi       []int        // lists
	schema      event.Schema // for crosses
	perEvent    int          // names for each choice, in the mean
	seed        uint64       // of training
	chosen      []*candidate // one for each choice, the oldest first unless limit is reached
	oldest      int          // index of the oldest then
	limit       int          // of chosen; 0 for none
	noted       int          // choices in all
	names       []*candidate // of chosen, each once
	classes     [][]*candidate
	byName      map[string]*candidate
}

// candidate is a name that was chosen, with what belongs to it.
type candidate struct {
	at          int // in names
	name        string
	count       int
	first       int // how many choices had been noted at its first one
	last        int // and at its last one
	class       int // of its count
	categorical []string
	numeric     []float64
	multi       [][]string
}

// New returns none yet; nil for a model whose events have labels.
func New(m *config.Model, limit int) *Candidates {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	c := &Candidates{
		field:    field,
		schema:   m.Schema.Event(),
		perEvent: m.Input.Negatives.PerEvent,
		seed:     m.Train.Seed,
		limit:    limit,
		byName:   make(map[string]*candidate),
	}
	for _, list := range []struct {
		names []string
		to    *[]int
	}{{c.schema.Categorical[:c.schema.NumGiven()], &c.categorical}, {c.schema.Numeric, &c.numeric}, {c.schema.Multi,
		&c.multi}} {
		for i, name := range list.names {
			if m.Schema.Follows(name, m.Schema.Categorical[field]) {
				*list.to = append(*list.to, i)
			}
		}
	}
	return c
}

// know makes a name a candidate, whether or not it counts as chosen. The event is not kept.
func (c *Candidates) know(ev *event.Event) *candidate {
	name := ev.Categorical[c.field]
	of := c.byName[name]
	if of == nil {
		of = &candidate{name: name, at: len(c.names), class: -1}
		c.byName[name], c.names = of, append(c.names, of)
	}
	of.categorical, of.numeric, of.multi = of.categorical[:0], of.numeric[:0], of.multi[:0]
	for _, f := range c.categorical {
		of.categorical = append(of.categorical, ev.Categorical[f])
	}
	for _, f := range c.numeric {
		of.numeric = append(of.numeric, ev.Numeric[f])
	}
	for _, f := range c.multi {
		of.multi = append(of.multi, slices.Clone(ev.Multi[f]))
	}
	return of
}

// Knows reports whether the name of a choice was chosen before.
func (c *Candidates) Knows(ev *event.Event) bool { return c.byName[ev.Categorical[c.field]] != nil }

// Note adds a choice, for the oldest where there are as many as there may be. The event is not kept.
func (c *Candidates) Note(ev *event.Event) {
	of := c.know(ev)
	if c.noted++; of.count == 0 {
		of.first = c.noted
	}
	c.leave(of)
	of.count, of.last = of.count+1, c.noted
	c.enter(of)
	if c.limit == 0 || len(c.chosen) < c.limit {
		c.chosen = append(c.chosen, of)
		return
	}
	gone := c.chosen[c.oldest]
	c.leave(gone)
	if gone.count--; gone.count > 0 {
		c.enter(gone)
	} else {
		delete(c.byName, gone.name)
		last := c.names[len(c.names)-1]
		c.names[gone.at], last.at = last, gone.at
		c.names = c.names[:len(c.names)-1]
	}
	c.chosen[c.oldest] = of
	c.oldest = (c.oldest + 1) % c.limit
}

// classOf returns the class of a count.
func classOf(count int) int { return min(count, exactCounts+1) }

// order is that of the names of a class: by their last choices.
func order(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.name, b.name))
}

// enter puts a name into the class of its count, where names are in order. Those of a sample are sorted once.
func (c *Candidates) enter(of *candidate) {
	if c.limit == 0 {
		return
	}
	of.class = classOf(of.count)
	for len(c.classes) <= of.class {
		c.classes = append(c.classes, nil)
	}
	at, _ := slices.BinarySearchFunc(c.classes[of.class], of, order)
	c.classes[of.class] = slices.Insert(c.classes[of.class], at, of)
}

// leave takes a name out of its class.
func (c *Candidates) leave(of *candidate) {
	if of.class < 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(c.classes[of.class], of, order)
	c.classes[of.class] = slices.Delete(c.classes[of.class], at, at+1)
}

// sorted puts the names of a sample into their classes, and all into an order that does not depend on that of note,
// after which nothing may be noted.
func (c *Candidates) sorted() {
	slices.SortFunc(c.names, order)
	for i, of := range c.names {
		of.at, of.class = i, classOf(of.count)
		for len(c.classes) <= of.class {
			c.classes = append(c.classes, nil)
		}
		c.classes[of.class] = append(c.classes[of.class], of)
	}
}
