package sketch

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
)

// An op sets a key, or deletes it if value is nil.
type op struct {
	key, value []byte
	fresh      bool // the key was absent before this transaction
	skip       bool // undone within the transaction
}

// A backend stores the state as keys and values.
type backend interface {
	// commit writes all ops in one transaction that is durable when it returns. Keys and values may be reused afterwards.
	commit(ops []op) error
	// view calls f with a consistent cut of the committed state. It may run beside commit.
	view(f func(cut) error) error
	// limits returns how many entries and bytes one transaction may have.
	limits() (entries, bytes int64)
	close() error
}

// A cut is a state as of one commit. What it returns is valid until view returns.
type cut interface {
	get(key []byte) (value []byte, err error) // nil if absent
	// each calls f for the keys that start with prefix, in order, until f fails. Key and value are valid during the call.
	each(prefix []byte, f func(key, value []byte) error) error
}

// stored reads a value of a cut; ok is false if there is none.
func stored[T any](c cut, key []byte, decode func(key, value []byte) (T, error)) (v T, ok bool, err error) {
	value, err := c.get(key)
	if err == nil && value != nil {
		v, err = decode(key, value)
	}
	return v, err == nil && value != nil, err
}

// memory is the backend of NewMemory.
type memory struct {
	mu     sync.RWMutex
	values map[string][]byte
}

func newMemory() *memory { return &memory{values: map[string][]byte{}} }

func (m *memory) commit(ops []op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range ops {
		switch o := &ops[i]; {
		case o.skip:
		case o.value == nil:
			delete(m.values, string(o.key))
		default:
			m.values[string(o.key)] = bytes.Clone(o.value)
		}
	}
	return nil
}

func (m *memory) view(f func(cut) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return f(m)
}

func (m *memory) get(key []byte) ([]byte, error) { return m.values[string(key)], nil }

func (m *memory) each(prefix []byte, f func(key, value []byte) error) error {
	var keys []string
	for key := range maps.Keys(m.values) {
		if strings.HasPrefix(key, string(prefix)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := f([]byte(key), m.values[key]); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) limits() (entries, bytes int64) { return 1 << 16, 8 << 20 }

func (m *memory) close() error { return nil }
