package ingest

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/sketch"
)

// Choices are learned beside names that were not chosen. The state holds choices alone: negatives are drawn when a sample is taken, among the names of
// that sample, and when an event is observed, among those of the events before it. A draw depends on the names, on the seed of training and on where the
// event is in the log, so that a refit of the same sample is of the same rows, in which order and how often ever its events were read.
//
// A choice comes after its negatives, and a coin decides after each event whether the next is one more of them: to who knows all events before, each is a
// choice with the same chance, whatever they were. With a fixed number of them, or behind the choice, the order of events would say the labels, and what
// learns from event to event would learn that.

// KeptChoices is how many of the last choices observed events are compared with, and lists leave out.
const KeptChoices = 16_384

// mostNegatives is how many times input.negatives.per_event one choice has of them at most.
const mostNegatives = 16

// maxDraws bounds the tries for a name that is not the one chosen.
const maxDraws = 8

// candidates are what negatives are drawn from: the names of the last choices, all alike, however often they were chosen. What is learned is then up to a
// constant the log of how likely a name is chosen next, its popularity included, by which lists are to be ranked; drawn by their popularity, names would be
// told apart by what is beyond it, and rare ones be at the top (Yi et al. 2019 have to add back what such a draw takes away).
type candidates struct {
	field    int          // what is chosen
	beside   []int        // categorical fields that are functions of it
	numeric  []int        // numeric ones
	multi    []int        // lists
	schema   event.Schema // for crosses
	perEvent int          // names for each choice, in the mean
	seed     uint64       // of training
	chosen   []*candidate // one for each choice, the oldest first unless limit is reached
	oldest   int          // index of the oldest then
	limit    int          // of chosen; 0 for none
	names    []*candidate // of chosen, each once
	byName   map[string]*candidate
}

// candidate is a name that was chosen, with what belongs to it.
type candidate struct {
	at      int // in names
	name    string
	count   int
	beside  []string
	numeric []float64
	multi   [][]string
}

// newCandidates returns none yet; nil for a model whose events have labels.
func newCandidates(m *config.Model, limit int) *candidates {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	c := &candidates{field: field, schema: m.Schema.Event(), perEvent: m.Input.Negatives.PerEvent, seed: m.Train.Seed, limit: limit,
		byName: make(map[string]*candidate)}
	follows := func(name string) bool {
		for range len(m.Schema.Of) + 1 { // what follows from what follows from it
			if name = m.Schema.Of[name]; name == m.Schema.Categorical[field] {
				return true
			}
		}
		return false
	}
	for _, list := range []struct {
		names []string
		to    *[]int
	}{{c.schema.Categorical[:c.schema.NumGiven()], &c.beside}, {c.schema.Numeric, &c.numeric}, {c.schema.Multi, &c.multi}} {
		for i, name := range list.names {
			if follows(name) {
				*list.to = append(*list.to, i)
			}
		}
	}
	return c
}

// note adds a choice, for the oldest where there are as many as there may be. The event is not kept.
func (c *candidates) note(ev *event.Event) {
	name := ev.Categorical[c.field]
	of := c.byName[name]
	if of == nil {
		of = &candidate{name: name, at: len(c.names)}
		c.byName[name], c.names = of, append(c.names, of)
	}
	of.count++
	of.beside, of.numeric, of.multi = of.beside[:0], of.numeric[:0], of.multi[:0]
	for _, f := range c.beside {
		of.beside = append(of.beside, ev.Categorical[f])
	}
	for _, f := range c.numeric {
		of.numeric = append(of.numeric, ev.Numeric[f])
	}
	for _, f := range c.multi {
		of.multi = append(of.multi, slices.Clone(ev.Multi[f]))
	}
	if c.limit == 0 || len(c.chosen) < c.limit {
		c.chosen = append(c.chosen, of)
		return
	}
	gone := c.chosen[c.oldest]
	if gone.count--; gone.count == 0 {
		delete(c.byName, gone.name)
		last := c.names[len(c.names)-1]
		c.names[gone.at], last.at = last, gone.at
		c.names = c.names[:len(c.names)-1]
	}
	c.chosen[c.oldest] = of
	c.oldest = (c.oldest + 1) % c.limit
}

// sorted puts the names into an order that does not depend on that of note, after which nothing may be noted.
func (c *candidates) sorted() {
	slices.SortFunc(c.names, func(a, b *candidate) int { return cmp.Compare(a.name, b.name) })
}

// negatives yields the negatives of a choice: copies with another name and what belongs to it. There are none where all choices are of one name.
func (c *candidates) negatives(ev *event.Event, at cycle.Position) iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		if len(c.names) == 0 {
			return
		}
		rng := rand.New(rand.NewPCG(placeHash(at), c.seed))
		for n := 0; n < mostNegatives*c.perEvent && rng.IntN(1+c.perEvent) > 0; n++ {
			if of := c.draw(rng, ev.Categorical[c.field]); of != nil && !yield(c.instead(ev, of)) {
				return
			}
		}
	}
}

// draw returns a candidate that is not the one chosen, nil if none comes up.
func (c *candidates) draw(rng *rand.Rand, chosen string) *candidate {
	for range maxDraws {
		if of := c.names[rng.IntN(len(c.names))]; of.name != chosen {
			return of
		}
	}
	return nil
}

// instead returns an event as it would be with another name, not chosen, under the same identity. It shares what is the same.
func (c *candidates) instead(ev *event.Event, of *candidate) *event.Event {
	out := *ev
	out.Label = 0
	out.Categorical = slices.Clone(ev.Categorical)
	out.Categorical[c.field] = of.name
	for i, f := range c.beside {
		out.Categorical[f] = of.beside[i]
	}
	if len(c.numeric) > 0 {
		out.Numeric = slices.Clone(ev.Numeric)
		for i, f := range c.numeric {
			out.Numeric[f] = of.numeric[i]
		}
	}
	if len(c.multi) > 0 {
		out.Multi = slices.Clone(ev.Multi)
		for i, f := range c.multi {
			out.Multi[f] = slices.Clone(of.multi[i])
		}
	}
	c.schema.Complete(&out)
	return &out
}

// placeHash is a number for a place in a log.
func placeHash(at cycle.Position) uint64 {
	h := fnv.New64a()
	h.Write([]byte(at.Topic))
	var b [12]byte
	binary.LittleEndian.PutUint32(b[:], uint32(at.Partition))
	binary.LittleEndian.PutUint64(b[4:], uint64(at.Offset))
	h.Write(b[:])
	return h.Sum64()
}

// withNegatives returns the sample of a model whose events are choices with the negatives of each row before it, as a refit wants it.
func withNegatives(m *config.Model, s *sketch.Sample, out *cycle.Sample) error {
	c := newCandidates(m, 0)
	if c == nil {
		return nil
	}
	var ev event.Event
	names := make(map[string]string)
	for _, rows := range [][]sketch.Row{s.Train, s.Select, s.Gate} {
		for i := range rows {
			if err := cycle.DecodeEvent(&ev, rows[i].Payload, names); err != nil {
				return err
			}
			c.note(&ev)
		}
	}
	c.sorted()
	train, sel := out.Weights, out.HeldOutWeights
	var gate []float64
	if sel != nil {
		sel, gate = sel[:len(s.Select)], sel[len(s.Select):]
	}
	var err error
	if out.Train, out.TrainAge, out.Weights, err = c.expand(s.Train, out.TrainAge, train, names); err != nil {
		return err
	}
	if out.Select, out.SelectAge, sel, err = c.expand(s.Select, out.SelectAge, sel, names); err != nil {
		return err
	}
	if out.Gate, out.GateAge, gate, err = c.expand(s.Gate, out.GateAge, gate, names); err != nil {
		return err
	}
	if out.HeldOutWeights != nil {
		out.HeldOutWeights = slices.Concat(sel, gate)
	}
	return nil
}

// expand returns rows with their negatives, which have the age and the weight of the choice.
func (c *candidates) expand(rows []sketch.Row, age, weight []float64, names map[string]string) (all [][]byte, ages, weights []float64, err error) {
	var ev event.Event
	for i := range rows {
		r := &rows[i]
		if err := cycle.DecodeEvent(&ev, r.Payload, names); err != nil {
			return nil, nil, nil, err
		}
		add := func(payload []byte) {
			all, ages = append(all, payload), append(ages, age[i])
			if weight != nil {
				weights = append(weights, weight[i])
			}
		}
		for negative := range c.negatives(&ev, placeOf(r)) {
			add(cycle.AppendEvent(nil, negative))
		}
		add(r.Payload)
	}
	return all, ages, weights, nil
}

// Negatives yields the negatives that a choice has if it is observed at a place of the log now: none for a model whose events have labels.
func (g *Ingest) Negatives(ev *event.Event, at cycle.Position) iter.Seq[*event.Event] {
	if g.choices == nil {
		return func(func(*event.Event) bool) {}
	}
	return g.choices.negatives(ev, at)
}

// payloadsOf returns what calls f with the payload of a row, after those of the negatives that a choice has among the rows that it was called for before.
func payloadsOf(m *config.Model) func(r *sketch.Row, f func(payload []byte) error) error {
	c := newCandidates(m, KeptChoices)
	var ev event.Event
	names := make(map[string]string)
	return func(r *sketch.Row, f func(payload []byte) error) error {
		if c == nil {
			return f(r.Payload)
		}
		if err := cycle.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		for negative := range c.negatives(&ev, placeOf(r)) {
			if err := f(cycle.AppendEvent(nil, negative)); err != nil {
				return err
			}
		}
		c.note(&ev)
		return f(r.Payload)
	}
}

// placeOf returns where the event of a row is.
func placeOf(r *sketch.Row) cycle.Position {
	return cycle.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// fill notes the choices of a sample, the newest last, once: what the process knows of those before its start. onChoice may be nil.
func (c *candidates) fill(store *sketch.Store, onChoice func(ev *event.Event, before bool)) error {
	s, err := store.Sample()
	if err != nil {
		return err
	}
	rows := byTime(slices.Concat(s.Train, s.Select, s.Gate))
	var ev event.Event
	names := make(map[string]string)
	for _, r := range rows[max(0, len(rows)-c.limit):] {
		if err := cycle.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		c.note(&ev)
		if onChoice != nil {
			onChoice(&ev, true)
		}
	}
	return nil
}

// byTime returns rows in the order of their events' times, those of equal times in that of the log.
func byTime(rows []sketch.Row) []*sketch.Row {
	out := make([]*sketch.Row, len(rows))
	for i := range rows {
		out[i] = &rows[i]
	}
	slices.SortStableFunc(out, compareTimes)
	return out
}

func compareTimes(a, b *sketch.Row) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

// observations appends to a run the observations of the negatives of a choice, and its own.
func (c *candidates) observations(run []cycle.Observation, o cycle.Observation) []cycle.Observation {
	for negative := range c.negatives(o.Event, o.Position) {
		n := cycle.Observation{Event: negative, Learn: o.Learn, Position: o.Position}
		if o.Payload != nil {
			n.Payload = cycle.AppendEvent(nil, negative)
		}
		run = append(run, n)
	}
	if o.Learn {
		c.note(o.Event)
	}
	return append(run, o)
}
