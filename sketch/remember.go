package sketch

import (
	"slices"

	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/witness"
)

// The markers of a state go with it when it is lost or an older one takes its place. So they are also kept in files
// outside of it, each a witness of the state as it was when the last of them was written.

// ReadForgotten reads what KeepForgotten wrote. The error wraps fs.ErrNotExist if there is no such file, ErrCorrupt if
// it cannot be read, and ErrFormat if it is of a later version.
func ReadForgotten(path string) (*Witness, error) {
	w, err := witness.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return w, witness.CheckFormat(w, path)
}

// KeepForgotten writes the markers of the state to a file outside of it, durably. It does nothing if the state has no
// markers.
func (s *Store) KeepForgotten(path string) error {
	w, err := s.witnessOf()
	if err != nil || len(w.Forgotten) == 0 {
		return err
	}
	return witness.WriteFile(w, path)
}

// RememberOf adds the markers of another state, or of this one at another time, in the terms of this one: see remember.
// Erase must follow.
func (s *Store) RememberOf(w *Witness) error { return s.remember(s.markersOf(w)) }

// Knows reports whether RememberOf would change nothing.
func (s *Store) Knows(w *Witness) bool {
	markers := s.markersOf(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(markers, func(m Marker) bool {
		old, ok := s.markers[m.Hash]
		old.Cut = slices.Clone(old.Cut)
		return !ok || ledger.Extend(&old, m.Cut)
	})
}

// markersOf returns the markers of another state in the terms of this one.
func (s *Store) markersOf(w *Witness) []Marker {
	s.mu.Lock()
	defer s.mu.Unlock()
	markers := w.Forgotten
	if w.Lineage != s.settings.First() { // the other state counted incarnations separately
		markers = witness.CarriedTo(w, func(topic string) uint32 {
			incarnation, _ := s.ledger.Incarnation(topic)
			return incarnation
		})
	}
	if w.Seed != s.settings.Seed { // identities are hashed with it
		markers = slices.Clone(markers)
		for i := range markers {
			markers[i].Row = nil
		}
	}
	return markers
}

// remember adds the markers of another state, such as the one in whose place a backup is put: those that the state
// lacks are to be forgotten in it too, as far as they were there. Erase must follow.
func (s *Store) remember(markers []Marker) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	for _, m := range markers {
		old, ok := s.markers[m.Hash]
		if old.Cut = slices.Clone(old.Cut); !ledger.Extend(&old, m.Cut) && ok {
			continue // it reaches as far
		}
		m.Cut, m.Rows, m.Done = old.Cut, old.Rows, false
		if m.Row == nil {
			m.Row = old.Row
		}
		s.settings.Renew(s.ledger.Positions())
		s.putMarker(&m)
		s.sealAll()
		s.pending.PutSettings(&s.settings)
		if err := s.commit(nil); err != nil {
			return err
		}
	}
	return nil
}

// UnfinishedSubjects returns the subjects whose rows Erase has to look for: the fields by the hash of field and value.
func (s *Store) UnfinishedSubjects() map[Digest]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[Digest]string)
	for hash, m := range s.markers {
		if !m.Done {
			out[hash] = m.Field
		}
	}
	return out
}

// Unfinished reports whether Erase has rows to look for.
func (s *Store) Unfinished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.markers {
		if !m.Done {
			return true
		}
	}
	return false
}
