package negatives

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

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

// How fast a peer becomes less likely with how unlike its age is: by so many powers of the ratio of the times since the
// first choices, or the last ones, and of how long overdue names are that were chosen often, from dueLeast times the
// mean time between their choices on.
const (
	agePower = 4
	duePower = 8
	dueLeast = 3
)

// negatives yields the negatives of a choice: copies with a peer of its name and what belongs to that. It yields none
// for a new name, nor where all choices are of one name.
func (c *Candidates) negatives(ev *event.Event, at rows.Position) iter.Seq[*event.Event] {
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

// Alike yields names for a choice, drawn uniformly among those that were chosen: what a consumer without counts can
// draw.
func (c *Candidates) Alike(ev *event.Event, at rows.Position) iter.Seq[*event.Event] {
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
func (c *Candidates) drawn(ev *event.Event, at rows.Position, draw func(*rand.Rand) *candidate) iter.Seq[*event.Event] {
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
func (c *Candidates) peers(of *candidate) *peers {
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
func (c *Candidates) apart(a, b *candidate) float64 {
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
func (c *Candidates) instead(ev *event.Event, of *candidate) *event.Event {
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

// Observations appends to a run the observations of the negatives of a choice, and its own.
func (c *Candidates) Observations(run []cycle.Observation, o cycle.Observation) []cycle.Observation {
	for negative := range c.negatives(o.Event, o.Position) {
		n := cycle.Observation{Event: negative, Learn: o.Learn, Position: o.Position}
		if o.Payload != nil {
			n.Payload = rows.AppendEvent(nil, negative)
		}
		run = append(run, n)
	}
	o.First = !c.Knows(o.Event)
	if o.Learn {
		c.Note(o.Event)
	}
	return append(run, o)
}
