package ingest

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/sketch"
)

// Choices are learned together with names that were not chosen. The state holds choices alone: negatives are drawn
// when a sample is taken, among the names of that sample, and when an event is observed, among those of the events
// before it. A draw depends on the names, on the seed of training and on where the event is in the log, so that a
// refit of the same sample is of the same rows, in which order and how often ever its events were read.
//
// A negative is a peer of the name that was chosen: it was chosen as often, and first and last at similar times, as far
// as there are such names. Nothing about the age or the count of a name then says the label. A name that was never
// chosen before has no peers: that it is new would say that it was chosen. Such a choice makes the name known and is
// learned from no further. What is learned is how much more likely than its peers a name is for who
// chooses; how likely these are, its popularity, is counted and added to what versions say (cycle.popularity).
//
// A choice comes after its negatives, and a coin decides after each event whether the next is one more of them: to who
// knows all events before, each is a choice with the same chance, whatever they were. With a fixed number of them, or
// behind the choice, the order of events would say the labels, and what learns from event to event would learn that.

// KeptChoices is how many of the last choices observed events are compared with, and lists leave out.
const KeptChoices = 16_384

// mostNegatives is how many times input.negatives.per_event one choice has of them at most.
const mostNegatives = 16

// maxDraws bounds the tries for a name that is not the one chosen, or not drawn before.
const maxDraws = 8

// A peer is drawn among numPeers names of its class whose last choices are nearest in order, many times more than a
// choice has negatives, and among those of the neighbouring classes where there are fewer than leastPeers.
const (
	numPeers   = 128
	leastPeers = 16
)

// Counts up to exactCounts are one class each. Names that were chosen more often share a class, in which each is
// drawn as often as it was chosen: their counts say well enough how often they will be.
const exactCounts = 8

// How fast a peer becomes less likely with how unlike its age is: by so many powers of the ratio of the times since the
// first choices, or the last ones, and of how long overdue names are that were chosen often, from dueLeast times the
// mean time between their choices on.
const (
	agePower = 4
	duePower = 8
	dueLeast = 3
)

// candidates are what negatives are drawn from: the names of the last choices, by how often and how lately they were
// chosen.
type candidates struct {
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

// newCandidates returns none yet; nil for a model whose events have labels.
func newCandidates(m *config.Model, limit int) *candidates {
	field := m.ChosenField()
	if field < 0 {
		return nil
	}
	c := &candidates{
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
func (c *candidates) know(ev *event.Event) *candidate {
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

// knows reports whether the name of a choice was chosen before.
func (c *candidates) knows(ev *event.Event) bool { return c.byName[ev.Categorical[c.field]] != nil }

// note adds a choice, for the oldest where there are as many as there may be. The event is not kept.
func (c *candidates) note(ev *event.Event) {
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
func (c *candidates) enter(of *candidate) {
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
func (c *candidates) leave(of *candidate) {
	if of.class < 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(c.classes[of.class], of, order)
	c.classes[of.class] = slices.Delete(c.classes[of.class], at, at+1)
}

// sorted puts the names of a sample into their classes, and all into an order that does not depend on that of note,
// after which nothing may be noted.
func (c *candidates) sorted() {
	slices.SortFunc(c.names, order)
	for i, of := range c.names {
		of.at, of.class = i, classOf(of.count)
		for len(c.classes) <= of.class {
			c.classes = append(c.classes, nil)
		}
		c.classes[of.class] = append(c.classes[of.class], of)
	}
}

// negatives yields the negatives of a choice: copies with a peer of its name and what belongs to that. It yields none
// for a new name, nor where all choices are of one name.
func (c *candidates) negatives(ev *event.Event, at rows.Position) iter.Seq[*event.Event] {
	of := c.byName[ev.Categorical[c.field]]
	if of == nil || len(c.names) < 2 {
		return func(func(*event.Event) bool) {}
	}
	p := c.peers(of)
	if len(p.names) == 0 {
		return func(func(*event.Event) bool) {}
	}
	return c.drawn(ev, at, p.draw)
}

// alike yields names for a choice, drawn uniformly among those that were chosen: what a consumer without counts can
// draw.
func (c *candidates) alike(ev *event.Event, at rows.Position) iter.Seq[*event.Event] {
	return c.drawn(ev, at, func(rng *rand.Rand) *candidate {
		for range maxDraws {
			if of := c.names[rng.IntN(len(c.names))]; of.name != ev.Categorical[c.field] {
				return of
			}
		}
		return nil
	})
}

// drawn yields copies of a choice with other names, as many as coins say.
func (c *candidates) drawn(ev *event.Event, at rows.Position, draw func(*rand.Rand) *candidate) iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		if len(c.names) == 0 {
			return
		}
		rng := rand.New(rand.NewPCG(placeHash(at), c.seed))
		for n := 0; n < mostNegatives*c.perEvent && rng.IntN(1+c.perEvent) > 0; n++ {
			if of := draw(rng); of != nil && !yield(c.instead(ev, of)) {
				return
			}
		}
	}
}

// peers are names that a negative of a choice is drawn from. Each is drawn as often as it is chosen: in proportion to
// the odds of its count, as it is no negative where it is chosen itself, and the more the more it is like the name
// that is. It is drawn more than once for a choice only as far as that asks for it: what remembers who was seen
// together with which name would take the second time for a sign of a negative.
type peers struct {
	names []*candidate
	odds  []float64
	total float64
	drawn []float64 // how often
	n     float64   // draws
	mean  float64   // of them
}

// peers returns those of a name: of its class, and of the neighbouring classes where that is small.
func (c *candidates) peers(of *candidate) *peers {
	p := &peers{mean: float64(c.perEvent)}
	take := func(class, n int) {
		if class < 0 || class >= len(c.classes) || n <= 0 {
			return
		}
		list := c.classes[class]
		at, _ := slices.BinarySearchFunc(list, of, order)
		to := min(len(list), max(0, at-n/2)+n)
		p.names = append(p.names, list[max(0, to-n):to]...)
	}
	take(of.class, numPeers+1)
	for d := 1; len(p.names) <= leastPeers && d < max(of.class+1, len(c.classes)); d++ {
		take(of.class-d, leastPeers)
		take(of.class+d, leastPeers)
	}
	counts := 0.0
	for _, other := range p.names {
		counts += float64(max(other.count, 1))
	}
	p.names = slices.DeleteFunc(p.names, func(other *candidate) bool { return other == of })
	p.odds, p.drawn = make([]float64, len(p.names)), make([]float64, len(p.names))
	for i, other := range p.names {
		n := float64(max(other.count, 1))
		p.odds[i] = n / (counts - n) * math.Exp2(-c.apart(other, of))
		p.total += p.odds[i]
	}
	return p
}

// apart says how unlike the ages of two names are, in doublings times the powers above. How lately one was chosen that
// is chosen all the time says nothing, but how long overdue it is says that it is chosen no more.
func (c *candidates) apart(a, b *candidate) float64 {
	age := func(since int) float64 { return float64(c.noted - since + 1) }
	firsts := agePower * math.Abs(math.Log2(age(a.first)/age(b.first)))
	if a.class <= exactCounts && b.class <= exactCounts {
		return firsts + agePower*math.Abs(math.Log2(age(a.last)/age(b.last)))
	}
	due := func(of *candidate) float64 {
		return math.Log2(max(dueLeast, age(of.last)*float64(of.count)/age(of.first)))
	}
	return firsts + duePower*math.Abs(due(a)-due(b))
}

// draw returns a peer.
func (p *peers) draw(rng *rand.Rand) *candidate {
	p.n++
	for tries := 0; ; tries++ {
		i, left := 0, rng.Float64()*p.total
		for left -= p.odds[0]; left > 0 && i < len(p.odds)-1; left -= p.odds[i] {
			i++
		}
		if tries == maxDraws || p.drawn[i] < math.Ceil(max(p.n, p.mean)*p.odds[i]/p.total) {
			p.drawn[i]++
			return p.names[i]
		}
	}
}

// instead returns an event as it would be with another name, not chosen, under the same identity. It shares what is the
// same.
func (c *candidates) instead(ev *event.Event, of *candidate) *event.Event {
	out := *ev
	out.Label = 0
	out.Categorical = slices.Clone(ev.Categorical)
	out.Categorical[c.field] = of.name
	for i, f := range c.categorical {
		out.Categorical[f] = of.categorical[i]
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
func placeHash(at rows.Position) uint64 {
	h := fnv.New64a()
	h.Write([]byte(at.Topic))
	var b [12]byte
	binary.LittleEndian.PutUint32(b[:], uint32(at.Partition))
	binary.LittleEndian.PutUint64(b[4:], uint64(at.Offset))
	h.Write(b[:])
	return h.Sum64()
}

// withNegatives returns the sample of a model whose events are choices with the negatives of each row before it, as a
// refit wants it.
func withNegatives(m *config.Model, s *sketch.Sample, out *encode.Sample) error {
	c := newCandidates(m, 0)
	if c == nil {
		return nil
	}
	var ev event.Event
	names := make(map[string]string)
	for _, r := range byTime(s.Train) {
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		c.note(&ev)
	}
	// which count for nothing: what learns from the others knows nothing of them
	for _, r := range byTime(slices.Concat(s.Select, s.Gate)) {
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		c.know(&ev)
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
func (c *candidates) expand(rowList []sketch.Row, age, weight []float64,
	names map[string]string) (all [][]byte, ages, weights []float64, err error) {
	var ev event.Event
	for i := range rowList {
		r := &rowList[i]
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return nil, nil, nil, err
		}
		add := func(payload []byte) {
			all, ages = append(all, payload), append(ages, age[i])
			if weight != nil {
				weights = append(weights, weight[i])
			}
		}
		for negative := range c.negatives(&ev, placeOf(r)) {
			add(rows.AppendEvent(nil, negative))
		}
		add(r.Payload)
	}
	return all, ages, weights, nil
}

// Negatives yields names that were not chosen, for a choice at a place of the log. They are drawn uniformly from the
// last choices, as a consumer draws them. A model whose events have labels has none.
func (g *Ingest) Negatives(ev *event.Event, at rows.Position) iter.Seq[*event.Event] {
	if g.choices == nil {
		return func(func(*event.Event) bool) {}
	}
	return g.choices.alike(ev, at)
}

// IsFirst reports whether the name of a choice has not been chosen before: no negative that is drawn for it is as new.
func (g *Ingest) IsFirst(ev *event.Event) bool { return g.choices != nil && !g.choices.knows(ev) }

// payloadsOf returns what calls f with the payload of a row, after those of the negatives that a choice has among the
// rows that it was called for before.
// first says that the name of the choice was in none of these.
func payloadsOf(m *config.Model) func(r *sketch.Row, f func(payload []byte, first bool) error) error {
	c := newCandidates(m, KeptChoices)
	var ev event.Event
	names := make(map[string]string)
	return func(r *sketch.Row, f func(payload []byte, first bool) error) error {
		if c == nil {
			return f(r.Payload, false)
		}
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
			return err
		}
		for negative := range c.negatives(&ev, placeOf(r)) {
			if err := f(rows.AppendEvent(nil, negative), false); err != nil {
				return err
			}
		}
		first := !c.knows(&ev)
		c.note(&ev)
		return f(r.Payload, first)
	}
}

// placeOf returns where the event of a row is.
func placeOf(r *sketch.Row) rows.Position {
	return rows.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// fill notes the choices of a sample, the newest last, once: what the process knows of those before its start. onChoice
// may be nil.
func (c *candidates) fill(store *sketch.Store, onChoice func(ev *event.Event, before bool)) error {
	s, err := store.Sample()
	if err != nil {
		return err
	}
	rowList := byTime(slices.Concat(s.Train, s.Select, s.Gate))
	var ev event.Event
	names := make(map[string]string)
	for _, r := range rowList[max(0, len(rowList)-c.limit):] {
		if err := rows.DecodeEvent(&ev, r.Payload, names); err != nil {
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
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
		cmp.Compare(a.Offset, b.Offset))
}

// observations appends to a run the observations of the negatives of a choice, and its own.
func (c *candidates) observations(run []cycle.Observation, o cycle.Observation) []cycle.Observation {
	for negative := range c.negatives(o.Event, o.Position) {
		n := cycle.Observation{Event: negative, Learn: o.Learn, Position: o.Position}
		if o.Payload != nil {
			n.Payload = rows.AppendEvent(nil, negative)
		}
		run = append(run, n)
	}
	o.First = !c.knows(o.Event)
	if o.Learn {
		c.note(o.Event)
	}
	return append(run, o)
}
