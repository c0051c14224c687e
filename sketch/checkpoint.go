package sketch

import (
	"fmt"
	"maps"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// DefaultCheckpointEvery is the number of records between two checkpoints of a partition.
const DefaultCheckpointEvery = 1_000_000

// checkpoint stores the account of a partition as it is after its last record, and drops those that are not kept any
// more.
func (s *Store) checkpoint(place int32) {
	l := *s.ledger.At(place)
	l.Rows, l.Halted = [NumRoles]int64{}, ""
	s.pending.Put(codec.CheckpointKey(&l, l.Next), false,
		func(b, key []byte) []byte { return codec.AppendAccount(b, key, &l) })
	s.ledger.AddCheckpoint(place, s.checkpointEvery, func(next int64) { s.pending.Drop(codec.CheckpointKey(&l, next)) })
}

// Checkpoints returns the accounts of a partition as they were at earlier offsets, in the order of Next: where a
// verification can start that the log does not reach back for to the beginning (BeginAt). Rows and Halted are not part
// of them. Every 1M records make one, and every gap, which takes the place of the last one; what of them is kept gets
// sparser with age and is some 64 at most.
func (s *Store) Checkpoints(topic string, number int32) ([]LedgerRow, error) {
	s.mu.Lock()
	place, ok := s.ledger.Current(topic, number)
	var prefix []byte
	if ok {
		prefix = codec.CheckpointPrefix(s.ledger.At(place))
	}
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("sketch: %s/%d: partition was not begun: %w", topic, number, ErrPart)
	}
	var out []LedgerRow
	err := s.backend.View(func(c storage.Cut) error {
		return c.Each(prefix, func(key, value []byte) error {
			l, err := codec.DecodeAccount(key, value)
			if err != nil {
				return err
			}
			out = append(out, l.Row)
			return l.Audit()
		})
	})
	return out, err
}

// loadCheckpoints fills the marks of the partitions begun.
func (s *Store) loadCheckpoints(c storage.Cut) error {
	for place := range int32(s.ledger.Size()) {
		l := s.ledger.At(place)
		if l.Archived {
			continue
		}
		err := c.Each(codec.CheckpointPrefix(l), func(key, value []byte) error {
			p, err := codec.DecodeAccount(key, value)
			s.ledger.LoadCheckpoint(place, &p.Row)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// BeginAt begins a partition with an account: at a checkpoint, or at the start of a later incarnation
// (LedgerRow.AtStart). A sample that begins at a checkpoint does not have the rows from before it, and says that it is
// under-filled.
func (s *Store) BeginAt(row LedgerRow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ledger.Current(row.Topic, row.Partition); ok || s.err != nil {
		return s.err
	}
	l := ledger.Account{Row: row}
	if err := l.Audit(); err != nil {
		return err
	}
	if l.Next > l.Start {
		s.settings.Partial, s.settings.NotOfLog = true, true
		s.pending.PutSettings(&s.settings)
	}
	l.Rows, l.Halted = [NumRoles]int64{}, ""
	s.touch(s.ledger.Adopt(l))
	return s.commit(nil)
}

// RaiseIncarnation continues with a topic that was deleted and made again, which the operator has accepted: starts
// has the first offset of each of its partitions. Their accounts begin there; those of the old topic are archived,
// and the rows it gave stay in the sample. A partition that starts does not name is not read any more, until Begin.
func (s *Store) RaiseIncarnation(topic string, starts map[int32]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	incarnation, begun := s.ledger.Incarnation(topic)
	if !begun {
		return fmt.Errorf("sketch: topic %s was not begun: %w", topic, ErrPart)
	}
	for number, start := range starts {
		if number < 0 || start < 0 {
			return fmt.Errorf("sketch: begin %q/%d at %d: %w", topic, number, start, ErrPart)
		}
	}
	for place := range int32(s.ledger.Size()) {
		l := s.ledger.At(place)
		if l.Topic != topic || l.Archived {
			continue
		}
		s.pending.Drop(codec.AccountKey(l))
		s.ledger.Archive(place)
		s.touch(place)
	}
	for _, number := range slices.Sorted(maps.Keys(starts)) {
		s.touch(s.ledger.Adopt(ledger.Account{Row: ledger.NewRow(topic, number, incarnation+1, starts[number])}))
	}
	s.settings.NotOfLog = true
	s.pending.PutSettings(&s.settings)
	return s.commit(nil)
}
