package sketch

import (
	"fmt"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// MaxSchemaBytes bounds what a state keeps of one schema.
const MaxSchemaBytes = MaxPayloadBytes

// AddSchemas stores schemas in a separate transaction, as where records are read again into a new state.
func (s *Store) AddSchemas(list []Schema) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if err := s.putSchemas(list); err != nil {
		return err
	}
	return s.commit(nil)
}

// putSchemas has schemas written with the piece at hand.
func (s *Store) putSchemas(list []Schema) error {
	for i := range list {
		one := &list[i]
		if len(one.Value) > MaxSchemaBytes {
			return fmt.Errorf("sketch: schema of %d bytes, at most %d are kept: %w", len(one.Value), MaxSchemaBytes, ErrPart)
		}
		if err := s.commitIfFull(int64(len(one.Value)), 1); err != nil {
			return err
		}
		s.pending.Put(codec.SchemaKey(one.Key), false, func(b, key []byte) []byte {
			return codec.Seal(key, append(b, one.Value...), len(b))
		})
	}
	return nil
}

// Schemas calls visit with each schema at the last commit, in the order of their keys, until visit fails. It may keep
// nothing of the schema. A damaged one is an error wrapping ErrCorrupt.
func (s *Store) Schemas(visit func(Schema) error) error {
	return s.backend.View(func(c storage.Cut) error { return codec.EachSchema(c, visit) })
}
