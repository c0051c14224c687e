package admission

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
)

// How much one entity counts in what is learned from event to event, where train.cap has a share. Names of a field
// with fewer names than 1/share are no entities and are not bounded. Of n names each may have its share of the events
// of others, or capMean times the mean share 1/n where that is more, and at once that of capAtOnce windows: sessions
// of MovieLens have 737 ratings, and where all of one window's share was held back from one, updates lost 0.4 %.
// Beyond it an event changes only the rows of its entity.
//
// Of the events with one other name, such as an item, an entity has capBurst in a row, and capOfName of those of
// others: more of them leave the row of that name as it is. Rows that forget hold some twenty events, of which
// capBurst are a quarter. capAtOnce is tuned on MovieLens, as said. Derived: capBurst, from the events that rows hold.
// The others are chosen by hand.
const (
	capMean   = 4.0
	capAtOnce = 2.0 // windows
	capBurst  = 5.0
	capOfName = 0.1

	RememberedIdentities = 1 << 16 // identities (schema.identity), at least; twice as many at most
)

// Held is why events were not learned in full.
type Held int

// The reasons: an entity had its share of the events, or of those of one name, an identity came again, or a flood of
// copies.
const (
	HeldEntity Held = iota
	HeldName
	HeldIdentity
	HeldCopy
	NumHeld // how many there are
)

// String returns the value of the label of the metric.
func (h Held) String() string { return [NumHeld]string{"entity", "name", "identity", "copy"}[h] }

// HeldReasons are all of them.
var HeldReasons = []Held{HeldEntity, HeldName, HeldIdentity, HeldCopy}

// EntityCap decides what of each event is learned: a function of the events before it. It belongs to one goroutine.
// O(names) an event.
type EntityCap struct {
	field      int // whose names are the entities; -1 for none
	share      float64
	window     float64 // events
	Own        []bool  // categorical fields whose names belong to one entity: the field, and crosses of it
	identity   bool
	entities   *rows.Slots
	used       []entityUse // by slot
	events     int64
	seed       maphash.Seed
	names      recent[int32] // events that were learned, by name
	pairs      recent[pairUse]
	identities recent[struct{}]
	copies     *copies // nil without a share, and of choices: the same again is what they are
	learned    *learnedEvents
	last       rows.Position // of the event before, whose negatives share its place
	lastNone   bool
	lastCopy   bool // and is none for that
	lastShared bool
	Tables     *tables.Set // joined to an event that is corrected, as they are now; nil without tables

	Held [NumHeld]atomic.Int64 // events
}

// entityUse is how many events of an entity counted, less its share of those of others since.
type entityUse struct {
	used  float64
	since int64 // events of all
}

// pairUse is alike of the events with one name.
type pairUse struct {
	used  float32
	since int32 // events of the name
}

func NewEntityCap(m *config.Model, schema *event.Schema) *EntityCap {
	c := &EntityCap{field: slices.Index(schema.Categorical, m.Train.Cap.By),
		share: m.Train.Cap.Share, window: float64(m.Evaluate.Window),
		Own: make([]bool, len(schema.Categorical)), identity: schema.Identity != "", seed: maphash.MakeSeed(),
		identities: newRecent[struct{}](RememberedIdentities)}
	if hasCopies(m) {
		c.copies = newCopies(schema)
	}
	if c.identity {
		c.learned = newLearnedEvents(m)
	}
	if !(c.share > 0) {
		c.field = -1
	}
	if c.field < 0 {
		return c
	}
	rowList := m.Train.FoldIn.MaxRows
	c.entities, c.names, c.pairs = rows.NewSlots(rowList), newRecent[int32](rowList), newRecent[pairUse](rowList)
	c.Own[c.field] = true
	for i, parts := range schema.Cross {
		c.Own[schema.NumGiven()+i] = slices.Contains(parts, c.field)
	}
	return c
}

// EndReplay says that what comes from now on is new.
func (c *EntityCap) EndReplay() {
	if c.copies != nil {
		c.copies.replays, c.copies.again = false, replay{}
	}
}

// shareOf returns the share of each of n entities, 1 where so few names are none.
func (c *EntityCap) shareOf(n int) float64 { return ShareOfEach(c.share, n) }

func ShareOfEach(share float64, n int) float64 {
	if float64(n)*share < 1 {
		return 1
	}
	return max(share, capMean/float64(n))
}

// Take decides what of an event is learned, in to, whose slice it uses again. Those of one position are one event and
// its negatives. position may be zero.
func (c *EntityCap) Take(to *rows.Counted, ev *event.Event, position rows.Position) {
	again := position.Topic != "" && position == c.last
	*to = rows.Counted{Shared: true, Own: c.Own, Room: to.Room[:0]}
	if c.take(to, ev, position, again); c.identity {
		c.note(to, ev, position, again)
	}
}

func (c *EntityCap) take(to *rows.Counted, ev *event.Event, position rows.Position, again bool) {
	if c.last = position; !again {
		c.lastNone = c.identity && ev.Identity != "" && c.repeats(ev.Identity)
		if c.lastCopy = c.copies != nil && !c.lastNone && c.copies.take(ev); c.lastCopy {
			c.lastNone = true
			c.Held[HeldCopy].Add(1)
		}
	}
	if to.None = c.lastNone; to.None {
		return
	}
	if c.field < 0 || ev.Categorical[c.field] == "" {
		return
	}
	share := c.shareOf(len(c.entities.Items))
	if !again {
		c.lastShared = c.takeEntity(ev.Categorical[c.field], share)
	}
	if to.Shared = c.lastShared; share == 1 {
		return
	}
	var some bool
	if to.Room, some = c.takeNames(to.Room, ev, to.Shared); some {
		to.Held = to.Room
	}
	switch {
	case again:
	case !to.Shared:
		c.Held[HeldEntity].Add(1)
	case some:
		c.Held[HeldName].Add(1)
	}
}

// repeats reports whether an identity came before, as far as that is remembered.
func (c *EntityCap) repeats(identity string) bool {
	key := maphash.String(c.seed, identity)
	_, before := c.identities.get(key)
	c.identities.put(key, struct{}{})
	return before
}

// takeEntity counts an event of an entity and reports whether it is within a share of the window.
func (c *EntityCap) takeEntity(name string, share float64) bool {
	at, fresh := c.entities.Touch(-1, 0, name)
	if int(at) == len(c.used) {
		c.used = append(c.used, entityUse{})
	}
	of, limit := &c.used[at], max(1, share*capAtOnce*c.window)
	if fresh {
		*of = entityUse{since: c.events}
	}
	of.used = min(max(0, of.used-share*float64(c.events-of.since)), limit)
	c.events++
	of.since = c.events
	if of.used+1 > limit && share < 1 {
		return false
	}
	of.used++
	return true
}

// takeNames appends to held which names of an event learn nothing, and reports whether some do not.
func (c *EntityCap) takeNames(held []bool, ev *event.Event, shared bool) (all []bool, some bool) {
	entity := maphash.String(c.seed, ev.Categorical[c.field])
	add := func(field int, name string, own bool) {
		hold := !own && !c.takeName(entity, field, name, shared)
		held, some = append(held, hold), some || hold
	}
	for f, name := range ev.Categorical {
		add(f, name, c.Own[f])
	}
	for f, names := range ev.Multi {
		for _, name := range names {
			add(len(ev.Categorical)+f, name, false)
		}
	}
	return held, some
}

// takeName counts an event of an entity with a name and reports whether the name's row learns from it.
func (c *EntityCap) takeName(entity uint64, field int, name string, shared bool) bool {
	if name == "" { // absent
		return shared
	}
	key := rows.MixHash(maphash.String(c.seed, name), uint64(field), 0)
	pair := rows.MixHash(key, entity, 1)
	events, _ := c.names.get(key)
	of, known := c.pairs.get(pair)
	if !shared && !known {
		return false
	}
	of.used = max(0, of.used-capOfName*float32(max(0, events-of.since)))
	learns := shared && of.used+1 <= capBurst
	if learns {
		of.used++
		events++
		c.names.put(key, events)
	}
	of.since = events
	c.pairs.put(pair, of)
	return learns
}

// recent remembers what came last: limit keys at least, and twice as many at most.
type recent[V any] struct {
	now, before map[uint64]V
	limit       int
}

func newRecent[V any](limit int) recent[V] { return recent[V]{now: make(map[uint64]V), limit: limit} }

func (r *recent[V]) get(key uint64) (v V, ok bool) {
	if v, ok = r.now[key]; !ok {
		v, ok = r.before[key]
	}
	return v, ok
}

func (r *recent[V]) put(key uint64, v V) {
	if r.now[key] = v; len(r.now) >= r.limit {
		r.now, r.before = make(map[uint64]V), r.now
	}
}
