package storage

import (
	"bytes"
	"slices"
	"sync"
)

// An Op sets a key, or deletes it if value is nil.
type Op struct {
	Key, Value []byte
	Fresh      bool // the key was absent before this transaction
	Skip       bool // undone within the transaction
}

// A Backend stores the state as keys and values.
type Backend interface {
	// Commit writes all ops in one transaction that is durable when it returns. Keys and values may be reused
	// afterwards.
	Commit(ops []Op) error
	// View calls f with a consistent cut of the committed state. It may run concurrently with commit.
	View(f func(Cut) error) error
	// Limits returns how many entries and bytes one transaction may have.
	Limits() (entries, bytes int64)
	Close() error
}

// A Cut is the state after one commit. What it returns is valid until view returns.
type Cut interface {
	Get(key []byte) (value []byte, err error) // nil if absent
	// Each calls f for the keys that start with prefix, in order, until f fails. Key and value are valid during the
	// call.
	Each(prefix []byte, f func(key, value []byte) error) error
}

// Stored reads a value of a cut; ok is false if the key is absent.
func Stored[T any](c Cut, key []byte, decode func(key, value []byte) (T, error)) (v T, ok bool, err error) {
	value, err := c.Get(key)
	if err == nil && value != nil {
		v, err = decode(key, value)
	}
	return v, err == nil && value != nil, err
}

// Memory is the backend of NewMemory.
type Memory struct {
	mu     sync.RWMutex
	values map[string]*stowed
	sorted []*stowed // by key; those that were deleted since have no value
	fresh  []*stowed // set since then
}

// stowed is a key of memory with its value. They are adjacent, so that a reader of both waits for memory once.
type stowed struct{ key, value []byte }

func (s *stowed) stow(key, value []byte) {
	both := append(append(make([]byte, 0, len(key)+len(value)), key...), value...)
	s.key, s.value = both[:len(key):len(key)], both[len(key):]
}

// NewMemory returns an empty backend in memory.
func NewMemory() *Memory { return &Memory{values: map[string]*stowed{}} }

// Commit is that of Backend; nothing is durable.
func (m *Memory) Commit(ops []Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range ops {
		o := &ops[i]
		if o.Skip {
			continue
		}
		at, ok := m.values[string(o.Key)]
		switch {
		case o.Value == nil && ok:
			at.value = nil
			delete(m.values, string(o.Key))
		case o.Value != nil && ok:
			at.stow(o.Key, o.Value)
		case o.Value != nil:
			at = &stowed{}
			at.stow(o.Key, o.Value)
			m.values[string(o.Key)] = at
			m.fresh = append(m.fresh, at)
		}
	}
	return nil
}

// View is that of Backend. A commit waits for it.
func (m *Memory) View(f func(Cut) error) error {
	for m.mu.RLock(); len(m.fresh) > 0; m.mu.RLock() {
		m.mu.RUnlock()
		m.sort()
	}
	defer m.mu.RUnlock()
	return f(m)
}

// sort merges what is fresh into what is sorted.
func (m *Memory) sort() {
	m.mu.Lock()
	defer m.mu.Unlock()
	byKey := func(a, b *stowed) int { return bytes.Compare(a.key, b.key) }
	slices.SortFunc(m.fresh, byKey)
	merged := make([]*stowed, 0, len(m.values))
	for rest := [2][]*stowed{m.sorted, m.fresh}; len(rest[0])+len(rest[1]) > 0; {
		side := 0
		if len(rest[0]) == 0 || len(rest[1]) > 0 && byKey(rest[1][0], rest[0][0]) < 0 {
			side = 1
		}
		if rest[side][0].value != nil {
			merged = append(merged, rest[side][0])
		}
		rest[side] = rest[side][1:]
	}
	m.sorted, m.fresh = merged, nil
}

// Get is that of Cut, for use within View.
func (m *Memory) Get(key []byte) ([]byte, error) {
	if at, ok := m.values[string(key)]; ok {
		return at.value, nil
	}
	return nil, nil
}

// Each is that of Cut, for use within View.
func (m *Memory) Each(prefix []byte, f func(key, value []byte) error) error {
	first, _ := slices.BinarySearchFunc(m.sorted, prefix,
		func(at *stowed, prefix []byte) int { return bytes.Compare(at.key, prefix) })
	rest := m.sorted[first:]
	end, _ := slices.BinarySearchFunc(rest, prefix, func(at *stowed, prefix []byte) int {
		if bytes.HasPrefix(at.key, prefix) {
			return -1
		}
		return 1
	})
	for block := range slices.Chunk(rest[:end], readAhead) {
		readAll(block)
		for _, at := range block {
			if at.value == nil {
				continue
			}
			if err := f(at.key, at.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAhead is how many values memory.each has the processor fetch at a time: in the order of their keys they lie
// anywhere, and f waits for each in turn.
const readAhead = 32

// readAll reads the first byte of each value, so that the waits for memory overlap. The sum keeps the loop from being
// compiled away.
//
//go:noinline
func readAll(block []*stowed) (sum byte) {
	for _, at := range block {
		if len(at.value) > 0 {
			sum += at.value[0]
		}
	}
	return sum
}

// Limits is that of Backend.
func (m *Memory) Limits() (entries, bytes int64) { return 1 << 16, 8 << 20 }

// Close does nothing.
func (m *Memory) Close() error { return nil }
