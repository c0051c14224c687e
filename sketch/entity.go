package sketch

import (
	"bytes"
	"fmt"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/storage"
)

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
		return codec.EachEntity(c, codec.EntityPrefix(topic, number),
			func(_ string, _ int32, e Entity) error { return visit(e) })
	})
}

// Revise calls change with each entity of every partition, and its topic, and keeps what it returns, nil for nothing,
// in separate transactions. A value that is returned as it was is not written.
func (s *Store) Revise(change func(topic string, e Entity) (value []byte, err error)) error {
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
		return codec.EachEntity(c, []byte{codec.PrefixEntity}, func(topic string, number int32, e Entity) error {
			value, err := change(topic, e)
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
		s.pending.PutEntity(r.topic, r.number, &r.Entity)
	}
	return s.commit(nil)
}
