package sketch

import (
	"fmt"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// commit writes the pending piece and, unless it is nil, aux. Nothing pending is no transaction.
func (s *Store) commit(aux []byte) error {
	p := &s.pending
	if p.IsEmpty() && aux == nil {
		return nil
	}
	for _, place := range p.Changed {
		l := s.ledger.At(place)
		if err := l.Audit(); err != nil {
			return s.stop(err)
		}
		p.PutAccount(l)
	}
	p.PutBounds(s.ledger.At)
	if p.Counted {
		c := s.counters()
		p.PutCounters(&c)
	}
	if aux != nil {
		p.PutSealed([]byte{codec.PrefixAux}, false, aux)
	}
	if s.mirror.On {
		s.mirror.AddChanges(&s.pending)
	}
	if s.note != nil {
		change, err := storage.ChangeOf(s.backend, p.Ops)
		if err == nil {
			err = s.note(change)
		}
		if err != nil {
			return s.stop(err)
		}
	}
	if err := failpoint.At(failpoint.SketchCommit); err != nil {
		return s.stop(err)
	}
	if err := s.backend.Commit(p.Ops); err != nil {
		return s.stop(err)
	}
	if err := failpoint.At(failpoint.SketchCommitted); err != nil {
		return s.stop(err)
	}
	if aux != nil {
		s.aux = append(s.aux[:0], aux...)
	}
	s.show(p.Changed...)
	p.Reset()
	return nil
}

// commitIfFull commits what is pending, without aux, unless so many ops and bytes more fit into the piece.
func (s *Store) commitIfFull(bytes int64, ops int) error {
	maxOps, maxBytes := s.backend.Limits()
	if len(s.pending.Ops) > 0 &&
		(int64(len(s.pending.Ops)+len(s.pending.Changed)+ops+spareOps) > maxOps || s.pending.Bytes+bytes+
			spareBytes > maxBytes) {
		return s.commit(nil)
	}
	return nil
}

// stop makes err the answer to every later write.
func (s *Store) stop(err error) error {
	s.err = fmt.Errorf("sketch: %w, open the state again: %w", ErrStorage, err)
	return s.err
}

func (s *Store) counters() codec.Counters {
	c := codec.Counters{Reasons: s.reasons}
	for role, r := range s.samples.All[:NumRoles] {
		c.Evicted[role], c.Threshold[role] = r.Evicted, r.Threshold
	}
	for _, r := range s.samples.All[NumRoles:] {
		c.Classes = append(c.Classes, codec.ClassCount{Evicted: r.Evicted, Threshold: r.Threshold, Eligible: r.Eligible})
	}
	return c
}

// touch has the account at a place written with the piece at hand.
func (s *Store) touch(place int32) { s.pending.Touch(place, s.ledger.At(place)) }
