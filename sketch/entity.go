package sketch

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// An Entity is what the caller keeps of one entity of a partition in addition to the sample: bytes that change with
// the records, in their transactions. It outlives the incarnation of a topic.
type Entity struct {
	Key   Digest // SubjectHash of a field and a value, so that what is kept of a forgotten subject can be found
	Value []byte // at most MaxPayloadBytes; nil takes it away
}

// An entity's key is that of its partition's ledger row, but for the prefix, and its own.
func entityPrefix(topic string, number int32) []byte {
	b := ledgerKey(topic, number)
	b[0] = prefixEntity
	return b
}

// putEntity has an entity written with the piece at hand, once: the last value counts.
func (p *piece) putEntity(topic string, number int32, e *Entity) {
	key := append(entityPrefix(topic, number), e.Key[:]...)
	if i, ok := p.entities[string(key)]; ok {
		p.ops[i].Skip = true
	}
	if p.entities == nil {
		p.entities = make(map[string]int32)
	}
	p.entities[string(key)] = int32(len(p.ops))
	if e.Value == nil {
		p.drop(key)
		return
	}
	p.put(key, false, func(b, key []byte) []byte { return seal(key, append(b, e.Value...), len(b)) })
}

// entityBytes is what the entities of a record add to a piece.
func (r *Record) entityBytes(topic string) (n int64) {
	for i := range r.Entities {
		n += int64(len(topic)+len(r.Entities[i].Value)) + entityOverhead
	}
	return n
}

// entityOverhead is at least what an entity takes in addition to its topic and its value.
const entityOverhead = 96

// Entities calls visit with each entity that a partition has at the last commit, in the order of their keys, until
// visit fails. The value is valid during the call. A damaged one is an error wrapping ErrCorrupt.
func (s *Store) Entities(topic string, number int32, visit func(Entity) error) error {
	return s.backend.View(func(c storage.Cut) error {
		return eachEntity(c, entityPrefix(topic, number), func(_ string, _ int32, e Entity) error { return visit(e) })
	})
}

// eachEntity reads the entities below a prefix.
func eachEntity(c storage.Cut, prefix []byte, visit func(topic string, number int32, e Entity) error) error {
	return c.Each(prefix, func(key, value []byte) error {
		b, err := unseal(key, value)
		if err != nil {
			return err
		}
		tail := len(key) - 4 - len(Digest{}) // behind the topic and its zero byte
		if tail < 3 || key[tail-1] != 0 {
			return fault.Corrupt("entity at key %x has no partition", key)
		}
		return visit(string(key[1:tail-1]), int32(binary.BigEndian.Uint32(key[tail:])),
			Entity{Key: Digest(key[tail+4:]), Value: b})
	})
}

// Revise calls change with each entity of every partition and keeps what it returns, nil for nothing, in separate
// transactions. A value that is returned as it was is not written.
func (s *Store) Revise(change func(Entity) (value []byte, err error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	type revised struct {
		topic  string
		number int32
		Entity
	}
	var changed []revised
	err := s.backend.View(func(c storage.Cut) error {
		return eachEntity(c, []byte{prefixEntity}, func(topic string, number int32, e Entity) error {
			value, err := change(e)
			if err == nil && (value == nil || !bytes.Equal(value, e.Value)) {
				changed = append(changed, revised{topic, number, Entity{Key: e.Key, Value: bytes.Clone(value)}})
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("sketch: entities: %w", err)
	}
	for i := range changed {
		r := &changed[i]
		if err := s.commitIfFull(int64(len(r.Value)), 0); err != nil {
			return err
		}
		s.pending.putEntity(r.topic, r.number, &r.Entity)
	}
	return s.commit(nil)
}
