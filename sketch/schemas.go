package sketch

import (
	"fmt"

	"github.com/refitd/refitd/sketch/internal/storage"
)

// MaxSchemaBytes bounds what a state keeps of one schema.
const MaxSchemaBytes = MaxPayloadBytes

// A Schema is what is needed to read records again, in addition to the records: it is stored in the transaction of the
// first record that needs it. Key and Value are the caller's.
type Schema struct {
	Key   []byte
	Value []byte // at most MaxSchemaBytes
}

func schemaKey(key []byte) []byte { return append([]byte{prefixSchema}, key...) }

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
		s.pending.put(schemaKey(one.Key), false, func(b, key []byte) []byte {
			return seal(key, append(b, one.Value...), len(b))
		})
	}
	return nil
}

// Schemas calls visit with each schema at the last commit, in the order of their keys, until visit fails. It may keep
// nothing of the schema. A damaged one is an error wrapping ErrCorrupt.
func (s *Store) Schemas(visit func(Schema) error) error {
	return s.backend.View(func(c storage.Cut) error { return eachSchema(c, visit) })
}

func eachSchema(c storage.Cut, visit func(Schema) error) error {
	return c.Each([]byte{prefixSchema}, func(key, value []byte) error {
		b, err := unseal(key, value)
		if err != nil {
			return err
		}
		return visit(Schema{Key: key[1:], Value: b})
	})
}
