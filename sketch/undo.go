package sketch

import "github.com/refitd/refitd/sketch/internal/storage"

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

// Undoable returns an error wrapping ErrChanged unless the state is as the change left it.
func (s *Store) Undoable(change *Change) error {
	return s.backend.View(func(c storage.Cut) error { return storage.Undoable(c, change) })
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
	if err := s.backend.Commit(storage.Undo(change)); err != nil {
		return s.stop(err)
	}
	return nil
}
