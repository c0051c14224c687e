package sketch

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/witness"
)

// ReadWitness returns the witness of a state directory without opening the state. The error wraps ErrNoState if dir
// has no witness, ErrCorrupt if it cannot be read, and ErrFormat if it is of a later version.
func ReadWitness(dir string) (*Witness, error) {
	w, err := readWitness(dir)
	if err == nil && w == nil {
		err = fmt.Errorf("sketch: %s: %w", dir, ErrNoState)
	}
	return w, err
}

// readWitness returns nil if there is no witness.
func readWitness(dir string) (*Witness, error) {
	w, err := witness.Read(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return w, witness.CheckFormat(w, dir)
}

// witnessOf returns the witness of the store after a commit: Apply holds the mutex from its first change to its last.
func (s *Store) witnessOf() (*Witness, error) {
	rows := s.Ledger()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return witness.Of(rows, s.sortedMarkers(), &s.settings), nil
}

// Testify returns what Witness writes down.
func (s *Store) Testify() (*Witness, error) { return s.witnessOf() }

// Witness writes down how far the state has come, durably, so that the next Open notices if Badger has lost some of it.
// Close does it too. It does nothing for a store in memory and for one of OpenExisting, and returns the storage error
// of a store that has one.
func (s *Store) Witness() error {
	if s.home == nil || !s.home.witnesses {
		return nil
	}
	if err := s.gone(); err != nil {
		return err
	}
	return s.bearWitness()
}

// bearWitness replaces the witness by what may be said now, unless it says so already.
func (s *Store) bearWitness() error {
	s.home.mu.Lock()
	defer s.home.mu.Unlock()
	w, err := s.witnessOf()
	if err != nil {
		return err
	}
	text, err := witness.Text(w)
	if err != nil || bytes.Equal(text, s.home.witness) {
		return err
	}
	if err := witness.Write(w, s.home.dir); err != nil {
		return err
	}
	s.home.witness = text
	return nil
}

// gone returns an error wrapping ErrGone if the files of the store are not where they were.
func (s *Store) gone() error {
	if d, ok := s.backend.(*storage.Disk); ok {
		return d.Gone()
	}
	return nil
}

// Rollbacks returns the partitions that Open found behind their witness, by topic and partition.
func (s *Store) Rollbacks() []Rollback {
	if s.home == nil {
		return nil
	}
	return s.home.rollbacks
}
