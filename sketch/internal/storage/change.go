package storage

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

// ChangeOf returns what ops, which are about to be committed to b, replace.
func ChangeOf(b Backend, ops []Op) (*Change, error) {
	change := new(Change)
	err := b.View(func(c Cut) error {
		for i := range ops {
			o := &ops[i]
			if o.Skip {
				continue
			}
			at := slices.IndexFunc(change.Keys, func(k ChangedKey) bool { return bytes.Equal(k.Key, o.Key) })
			if at < 0 {
				before, err := c.Get(o.Key)
				if err != nil {
					return err
				}
				at = len(change.Keys)
				change.Keys = append(change.Keys, ChangedKey{Key: bytes.Clone(o.Key), Before: bytes.Clone(before)})
			}
			change.Keys[at].After = bytes.Clone(o.Value)
		}
		return nil
	})
	return change, err
}

// Undoable returns an error wrapping ErrChanged unless a cut is as the change left it.
func Undoable(c Cut, change *Change) error {
	for _, k := range change.Keys {
		now, err := c.Get(k.Key)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, k.After) {
			return fmt.Errorf("sketch: undo: %w", ErrChanged)
		}
	}
	return nil
}

// Undo returns what puts back what the change replaced.
func Undo(change *Change) (ops []Op) {
	for _, k := range change.Keys {
		ops = append(ops, Op{Key: k.Key, Value: k.Before})
	}
	return ops
}
