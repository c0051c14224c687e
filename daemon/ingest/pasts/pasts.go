package pasts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/tables"
	"github.com/refitd/refitd/sketch"
)

// Derived fields are a function of the log, partition by partition: an entity's past is that of its events in the
// partition at hand, and of as many entities as MaxEntities, the least recently seen of which is given up. So a state
// that reads the log again comes to the same rows, in whichever order its partitions come.
const (
	MaxEntities    = 100_000  // of one partition
	maxEntityBytes = 64 << 10 // of what is kept of one; more is of long lists, which are given up
)

// Pasts has what derived fields need of the entities of a model, in memory and, if there is a store, written with the
// records that change it. It is safe for concurrent use, but records of a partition have to come in order.
type Pasts struct {
	schema event.Schema
	names  []string // of the fields, for subjects
	fields []int    // of schema.Entities
	store  *sketch.Store
	Limit  int // entities of a partition

	isTable func(topic string) bool

	mu         sync.Mutex
	partitions map[partitionKey]*entities // all that the store has, once loaded
	loaded     bool
	dropped    int64
}

type partitionKey struct {
	topic  string
	number int32
}

// entities are those of a partition, in a ring from the one seen last to the one seen first.
type entities struct {
	next  int64 // offset: what is below it has been noted
	order uint64
	byKey map[sketch.Digest]*entity
	ring  entity
}

type entity struct {
	key          sketch.Digest
	past         event.Past
	newer, older *entity
}

// New returns the pasts that a store has, nil for a model without derived fields. Without a store (nil) they begin
// empty and stay in memory.
func New(m *config.Model, store *sketch.Store) *Pasts {
	schema := m.Schema.Event()
	if len(schema.Derived) == 0 {
		return nil
	}
	return &Pasts{
		schema:     schema,
		names:      m.Schema.Categorical,
		fields:     schema.Entities(),
		store:      store,
		Limit:      MaxEntities,
		isTable:    func(topic string) bool { return m.TableOf(topic) >= 0 },
		partitions: make(map[partitionKey]*entities),
	}
}

// Take fills the derived fields of the event at an offset and notes it for those after it, unless noted is false or an
// event at or behind the offset was noted before. It returns what of the entities changed, with values that are
// appended to arena.
func (p *Pasts) Take(topic string, number int32, offset int64, ev *event.Event, noted bool,
	arena []byte) ([]byte, []sketch.Entity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return arena, nil, err
	}
	in := p.of(topic, number)
	keys := make([]sketch.Digest, len(p.fields))
	for i, f := range p.fields {
		keys[i] = sketch.SubjectHash(p.names[f], []byte(ev.Categorical[f]))
	}
	p.schema.Derive(ev, func(field int) *event.Past {
		if e := in.byKey[keys[slices.Index(p.fields, field)]]; e != nil {
			return &e.past
		}
		return nil
	})
	if !noted || offset < in.next {
		return arena, nil, nil
	}
	in.next = offset + 1
	var changed []sketch.Entity
	for i, f := range p.fields {
		if ev.Categorical[f] == "" {
			continue
		}
		e := in.see(keys[i])
		p.schema.Note(&e.past, f, ev)
		start := len(arena)
		if arena = p.appendEntity(arena, in, e); len(arena)-start > maxEntityBytes {
			e.past.Label, e.past.Last = nil, nil
			arena = p.appendEntity(arena[:start], in, e)
		}
		changed = append(changed, sketch.Entity{Key: e.key, Value: arena[start:len(arena):len(arena)]})
	}
	for len(in.byKey) > p.Limit {
		oldest := in.ring.newer
		in.remove(oldest)
		p.dropped++
		changed = append(changed, sketch.Entity{Key: oldest.key})
	}
	return arena, changed, nil
}

// Fill fills those derived fields of an event that it lacks, from the partition where its entity was seen last by the
// time of its events. What is known of no partition it still lacks.
func (p *Pasts) Fill(ev *event.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return err
	}
	filled := event.Event{
		Time:        ev.Time,
		Categorical: slices.Clone(ev.Categorical),
		Multi:       make([][]string, len(ev.Multi)),
	}
	p.schema.Derive(&filled, func(field int) *event.Past { return p.latest(field, ev.Categorical[field]) })
	for _, d := range p.schema.Derived {
		switch {
		case d.Multi && len(ev.Multi[d.At]) == 0:
			ev.Multi[d.At] = append(ev.Multi[d.At], filled.Multi[d.At]...)
		case !d.Multi && ev.Categorical[d.At] == "" && (d.Of < 0 || p.latest(d.Of, ev.Categorical[d.Of]) != nil):
			ev.Categorical[d.At] = filled.Categorical[d.At]
		}
	}
	return nil
}

// Underive takes the derived fields out of an event.
func (p *Pasts) Underive(ev *event.Event) { p.schema.Underive(ev) }

// latest returns the past of an entity in the partition where its last event is newest, nil if no partition has one.
func (p *Pasts) latest(field int, name string) (found *event.Past) {
	key := sketch.SubjectHash(p.names[field], []byte(name))
	for _, in := range p.partitions {
		if e := in.byKey[key]; e != nil &&
			(found == nil || e.past.Time > found.Time || e.past.Time == found.Time && e.past.Events > found.Events) {
			found = &e.past
		}
	}
	return found
}

// Counts returns how many entities there are, over all partitions, and how many were given up since the start: none of
// nil.
func (p *Pasts) Counts() (kept, dropped int64) {
	if p == nil {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.partitions {
		kept += int64(len(in.byKey))
	}
	return kept, p.dropped
}

// of returns the entities of a partition.
func (p *Pasts) of(topic string, number int32) *entities {
	at := partitionKey{topic, number}
	in := p.partitions[at]
	if in == nil {
		in = &entities{byKey: make(map[sketch.Digest]*entity)}
		in.ring.newer, in.ring.older = &in.ring, &in.ring
		p.partitions[at] = in
	}
	return in
}

// load reads what the store has, once.
func (p *Pasts) load() error {
	if p.loaded || p.store == nil {
		return nil
	}
	for _, l := range p.store.Ledger() {
		if p.isTable(l.Topic) {
			continue
		}
		in := p.of(l.Topic, l.Partition)
		in.next = l.Next
		type ordered struct {
			order uint64
			*entity
		}
		var list []ordered
		err := p.store.Entities(l.Topic, l.Partition, func(stored sketch.Entity) error {
			order, past, err := decodeEntity(stored.Value)
			if err == nil {
				list = append(list, ordered{order, &entity{key: stored.Key, past: *past}})
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("ingest: entities of %s/%d: %w", l.Topic, l.Partition, err)
		}
		slices.SortFunc(list, func(a, b ordered) int {
			if a.order < b.order {
				return -1
			}
			return 1 // no two have the same order
		})
		for _, e := range list {
			in.byKey[e.key], in.order = e.entity, e.order
			in.push(e.entity)
		}
	}
	p.loaded = true
	return nil
}

// see returns the entity of a key as the one seen last.
func (in *entities) see(key sketch.Digest) *entity {
	e := in.byKey[key]
	if e == nil {
		e = &entity{key: key}
		in.byKey[key] = e
	} else {
		e.newer.older, e.older.newer = e.older, e.newer
	}
	in.order++
	in.push(e)
	return e
}

func (in *entities) push(e *entity) {
	e.older, e.newer = in.ring.older, &in.ring
	e.older.newer, in.ring.older = e, e
}

func (in *entities) remove(e *entity) {
	e.newer.older, e.older.newer = e.older, e.newer
	delete(in.byKey, e.key)
}

// appendEntity appends when the entity was seen, as a number that grows within the partition, and its past.
func (p *Pasts) appendEntity(dst []byte, in *entities, e *entity) []byte {
	return event.AppendPast(binary.AppendUvarint(dst, in.order), &e.past)
}

var errEntity = errors.New("a stored entity has no order")

func decodeEntity(b []byte) (order uint64, past *event.Past, err error) {
	order, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errEntity
	}
	past, err = event.DecodePast(b[n:])
	return order, past, err
}

// DeriveAll fills the derived fields of events that are not of a log, in their order.
func (p *Pasts) DeriveAll(events func(yield func(*event.Event) bool)) error {
	var arena []byte
	for ev := range events {
		var err error
		if arena, _, err = p.Take("", 0, p.of("", 0).next, ev, true, arena[:0]); err != nil {
			return err
		}
	}
	return nil
}

// Erase takes the pasts of forgotten subjects out of a store whose rows are still to be erased, and their names
// out of those of other entities.
func Erase(m *config.Model, store *sketch.Store) error {
	subjects := store.UnfinishedSubjects()
	if len(m.Schema.Derived)+len(m.Tables) == 0 || len(subjects) == 0 {
		return nil
	}
	return store.Revise(func(topic string, e sketch.Entity) ([]byte, error) {
		if table := m.TableOf(topic); table >= 0 {
			row, err := tables.DecodeRow(topic, 0, e.Value, make(rows.Interner))
			if err != nil {
				return nil, err
			}
			if _, is := subjects[sketch.SubjectHash(m.Tables[table].Of, []byte(row.Name()))]; is {
				return nil, nil
			}
			return e.Value, nil
		}
		if _, is := subjects[e.Key]; is {
			return nil, nil
		}
		order, past, err := decodeEntity(e.Value)
		if err != nil {
			return nil, err
		}
		past.ForgetNames(func(name string) bool {
			for _, field := range subjects {
				if _, is := subjects[sketch.SubjectHash(field, []byte(name))]; is {
					return true
				}
			}
			return false
		})
		return event.AppendPast(binary.AppendUvarint(nil, order), past), nil
	})
}

// Given returns a row without its derived fields, which a reader that does not know all of the partition cannot have:
// what it is to be compared by.
func Given(m *config.Model) func(payload []byte) ([]byte, error) {
	schema := m.Schema.Event()
	if len(schema.Derived) == 0 {
		return func(payload []byte) ([]byte, error) { return payload, nil }
	}
	var ev event.Event
	names := make(map[string]string)
	return func(payload []byte) ([]byte, error) {
		clear(names)
		if err := rows.DecodeEvent(&ev, payload, names); err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
		schema.Underive(&ev)
		return rows.AppendEvent(nil, &ev), nil
	}
}
