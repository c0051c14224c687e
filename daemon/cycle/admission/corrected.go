package admission

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// learnedEvents remembers the events of the identities that came last, as they were learned, and counts the events that
// were learned since: with both a label that is corrected takes the place of the one before.
type learnedEvents struct {
	now, before map[uint64]*learnedEvent // by identity
	bytes       int                      // of the newer map
	most        int                      // of both
	events      int32                    // learned, of all
	names       recent[int32]            // learned, by name
	topics      []string
}

// learnedEvent is an event as it was learned.
type learnedEvent struct {
	payload   []byte
	offset    int64
	partition int32
	topic     int32   // in topics
	events    int32   // of all that were learned before, with it
	names     []int32 // by place
	held      []bool
	shared    bool
}

// learnedEventBytes is what one takes without its slices' contents: it, its entry in the map, and slack of both.
// Measured; a test compares it.
const learnedEventBytes = 256

func (l *learnedEvent) size() int {
	return learnedEventBytes + len(l.payload) + 4*len(l.names) + len(l.held)
}

// LearnedBytes bounds the memory of the events whose labels can be corrected: as much as those that wait for a refit.
func LearnedBytes(m *config.Model) int { return rows.OpenBytes(m) }

func newLearnedEvents(m *config.Model) *learnedEvents {
	return &learnedEvents{now: make(map[uint64]*learnedEvent), most: LearnedBytes(m),
		names: newRecent[int32](m.Train.FoldIn.MaxRows)}
}

func (l *learnedEvents) get(key uint64) *learnedEvent {
	if of := l.now[key]; of != nil {
		return of
	}
	return l.before[key]
}

// put remembers an event. The oldest half goes where there is no room.
func (l *learnedEvents) put(key uint64, of *learnedEvent) {
	if old := l.now[key]; old != nil {
		l.bytes -= old.size()
	}
	if l.bytes += of.size(); l.bytes > l.most/2 {
		l.now, l.before, l.bytes = make(map[uint64]*learnedEvent), l.now, of.size()
	}
	l.now[key] = of
}

func (l *learnedEvents) remove(key uint64) {
	if old := l.now[key]; old != nil {
		l.bytes -= old.size()
	}
	delete(l.now, key)
	delete(l.before, key)
}

func (l *learnedEvents) topic(name string) int32 {
	at := slices.Index(l.topics, name)
	if at < 0 {
		at = len(l.topics)
		l.topics = append(l.topics, name)
	}
	return int32(at)
}

// note remembers an event as it is learned, or says in to which event it corrects. Events of one position are not
// remembered: the identity would have several.
func (c *EntityCap) note(to *rows.Counted, ev *event.Event, position rows.Position, again bool) {
	key := maphash.String(c.seed, ev.Identity)
	switch {
	case to.None && (again || c.lastCopy):
	case to.None:
		if to.Correction = c.correct(to, key, ev, position); to.Correction == nil {
			c.Held[HeldIdentity].Add(1)
		}
	default:
		names := c.count(to, ev)
		if ev.Identity == "" {
			return
		}
		if again {
			c.learned.remove(key)
			return
		}
		c.learned.put(key, &learnedEvent{payload: rows.AppendEvent(nil, ev), offset: position.Offset,
			partition: position.Partition, topic: c.learned.topic(position.Topic), events: c.learned.events, names: names,
			held: slices.Clone(to.Held), shared: to.Shared})
	}
}

// count counts an event that is learned, and returns by place the events of each name.
func (c *EntityCap) count(to *rows.Counted, ev *event.Event) []int32 {
	l := c.learned
	if to.IsShared() {
		l.events++
	}
	names := make([]int32, 0, len(ev.Categorical))
	rows.EachPlace(ev, func(place, field int, name string) {
		for len(names) < place { // an absent one
			names = append(names, 0)
		}
		key := c.nameKey(field, name)
		n, _ := l.names.get(key)
		if !to.Holds(place) {
			n++
			l.names.put(key, n)
		}
		names = append(names, n)
	})
	for len(names) < len(ev.Categorical) {
		names = append(names, 0)
	}
	return names
}

func (c *EntityCap) nameKey(field int, name string) uint64 {
	return rows.MixHash(maphash.String(c.seed, name), uint64(field), 0)
}

// correct returns what an event corrects of the one that its identity was learned with, and sets what counts of that
// one. It is nil where the label is the same, where that event is newer, as the sample has it, or is not remembered,
// and where a name is another.
func (c *EntityCap) correct(to *rows.Counted, key uint64, ev *event.Event, position rows.Position) *rows.Correction {
	l := c.learned
	last := l.get(key)
	was := new(event.Event)
	if last == nil || rows.DecodeEvent(was, last.payload, make(rows.Interner)) != nil {
		return nil
	}
	c.Tables.Join(was)
	if rows.PlaceOfList(was, len(was.Multi)) != len(last.names) {
		return nil // tables have other lists by now
	}
	if cmp.Or(cmp.Compare(ev.Time, was.Time), cmp.Compare(position.Topic, l.topics[last.topic]),
		cmp.Compare(position.Partition, last.partition), cmp.Compare(position.Offset, last.offset)) < 0 {
		return nil
	}
	next, is := *last, *was
	next.partition, next.offset, next.topic = position.Partition, position.Offset, l.topic(position.Topic)
	if is.Time = ev.Time; slices.Equal(was.Categorical, ev.Categorical) &&
		slices.EqualFunc(was.Multi, ev.Multi, slices.Equal[[]string]) {
		is.Label, is.Classes = ev.Label, ev.Classes
	}
	next.payload = rows.AppendEvent(nil, &is)
	l.put(key, &next)
	if math.Float64bits(was.Label) == math.Float64bits(is.Label) && slices.Equal(was.Classes, is.Classes) {
		return nil
	}
	to.Shared, to.Held = last.shared, last.held
	of := &rows.Correction{Was: was, Payload: last.payload, Since: l.events - last.events,
		Ages: make([]int32, len(last.names))}
	rows.EachPlace(was, func(place, field int, name string) {
		n, known := l.names.get(c.nameKey(field, name))
		if of.Ages[place] = n - last.names[place]; !known || of.Ages[place] < 0 {
			of.Ages[place] = math.MaxInt32 // so many others came since that it is forgotten
		}
	})
	return of
}
