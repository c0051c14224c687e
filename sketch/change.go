package sketch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// ErrChanged: the state is not as the change left it that is to be undone.
var ErrChanged = errors.New("state has changed since")

// A Change is what one transaction replaces. It is to be kept outside the state, and is good for Undo as long as
// nothing else has replaced it.
type Change struct {
	Keys []ChangedKey `json:"keys"`
}

// A ChangedKey is a value of the database before and after a Change; nil where the key is absent.
type ChangedKey struct {
	Key    []byte `json:"key"`
	Before []byte `json:"before,omitempty"`
	After  []byte `json:"after,omitempty"`
}

// Recorded calls f, whose transactions are each shown to keep before they are written. If keep fails nothing is
// written, and the state has to be opened again. Nothing else may use the store during the call.
func (s *Store) Recorded(keep func(*Change) error, f func() error) error {
	s.mu.Lock()
	s.note = keep
	s.mu.Unlock()
	err := f()
	s.mu.Lock()
	s.note = nil
	s.mu.Unlock()
	return err
}

// changeOf returns what ops, which are about to be committed, replace.
func (s *Store) changeOf(ops []op) (*Change, error) {
	change := new(Change)
	err := s.backend.view(func(c cut) error {
		for i := range ops {
			o := &ops[i]
			if o.skip {
				continue
			}
			at := slices.IndexFunc(change.Keys, func(k ChangedKey) bool { return bytes.Equal(k.Key, o.key) })
			if at < 0 {
				before, err := c.get(o.key)
				if err != nil {
					return err
				}
				at = len(change.Keys)
				change.Keys = append(change.Keys, ChangedKey{Key: bytes.Clone(o.key), Before: bytes.Clone(before)})
			}
			change.Keys[at].After = bytes.Clone(o.value)
		}
		return nil
	})
	return change, err
}

// Undoable returns an error wrapping ErrChanged unless the state is as the change left it.
func (s *Store) Undoable(change *Change) error {
	return s.backend.view(func(c cut) error {
		for _, k := range change.Keys {
			now, err := c.get(k.Key)
			if err != nil {
				return err
			}
			if !bytes.Equal(now, k.After) {
				return fmt.Errorf("sketch: undo: %w", ErrChanged)
			}
		}
		return nil
	})
}

// Undo puts back what a change replaced. Nothing but Close may be called afterwards: what is in memory is not undone.
func (s *Store) Undo(change *Change) error {
	if err := s.Undoable(change); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	var ops []op
	for _, k := range change.Keys {
		ops = append(ops, op{key: k.Key, value: k.Before})
	}
	if err := s.backend.commit(ops); err != nil {
		return s.stop(err)
	}
	return nil
}
