package sketch

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/refitd/refitd/sketch/internal/storage"
)

// DefaultCheckpointEvery is the number of records between two checkpoints of a partition.
const DefaultCheckpointEvery = 1_000_000

// Which checkpoints are kept: each of the last denseCheckpoints; of those up to twice as old every second one, up to
// four times as old every fourth, and so on, and none that is older than maxCheckpointAge. That makes 64, and the
// oldest one that the log still covers is at most an eighth older than the oldest that was ever made there.
const (
	denseCheckpoints = 16
	maxCheckpointAge = 1024
)

// keepsCheckpoint reports whether the n-th checkpoint is kept when there are newer ones up to the one that is age
// later.
func keepsCheckpoint(n, age int64) bool {
	step := int64(1) << bits.Len64(uint64(age/denseCheckpoints))
	return age < maxCheckpointAge && n%step == 0
}

// A mark is what is kept in memory of a checkpoint.
type mark struct {
	records, next int64
}

// checkpoint stores the account of a partition as it is after its last record, and drops those that are not kept any
// more.
func (s *Store) checkpoint(place int32) {
	l := s.ledger[place]
	l.Rows, l.Halted = [NumRoles]int64{}, ""
	s.pending.put(l.checkpointKey(l.Next), false, func(b, key []byte) []byte { return appendLedger(b, key, &l) })
	newest := l.Records() / s.checkpointEvery
	kept := s.checkpoints[place][:0]
	for _, m := range s.checkpoints[place] {
		if n := m.records / s.checkpointEvery; n != newest && keepsCheckpoint(n, newest-n) {
			kept = append(kept, m)
			continue
		}
		s.pending.drop(l.checkpointKey(m.next))
	}
	s.checkpoints[place] = append(kept, mark{l.Records(), l.Next})
}

// Checkpoints returns the accounts of a partition as they were at earlier offsets, in the order of Next: where a
// verification can start that the log does not reach back for to the beginning (BeginAt). Rows and Halted are not part
// of them. Every 1M records make one, and every gap, which takes the place of the last one; what of them is kept gets
// sparser with age and is some 64 at most.
func (s *Store) Checkpoints(topic string, number int32) ([]LedgerRow, error) {
	s.mu.Lock()
	place, ok := s.places[partition{topic, number}]
	var prefix []byte
	if ok {
		prefix = s.ledger[place].checkpointPrefix()
	}
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("sketch: %s/%d: partition was not begun: %w", topic, number, ErrPart)
	}
	var out []LedgerRow
	err := s.backend.View(func(c storage.Cut) error {
		return c.Each(prefix, func(key, value []byte) error {
			l, err := decodeLedger(key, value)
			if err != nil {
				return err
			}
			out = append(out, l)
			return l.audit()
		})
	})
	return out, err
}

// loadCheckpoints fills the marks of the partitions begun.
func (s *Store) loadCheckpoints(c storage.Cut) error {
	for place := range s.ledger {
		l := &s.ledger[place]
		if l.archived {
			continue
		}
		err := c.Each(l.checkpointPrefix(), func(key, value []byte) error {
			p, err := decodeLedger(key, value)
			s.checkpoints[int32(place)] = append(s.checkpoints[int32(place)], mark{p.Records(), p.Next})
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
func (s *Store) BeginAt(l LedgerRow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.places[partition{l.Topic, l.Partition}]; ok || s.err != nil {
		return s.err
	}
	if err := l.audit(); err != nil {
		return err
	}
	if l.Next > l.Start {
		s.settings.Partial, s.settings.NotOfLog = true, true
		s.pending.putSettings(&s.settings)
	}
	l.Rows, l.Halted, l.archived = [NumRoles]int64{}, "", false
	s.adopt(l)
	s.touch(int32(len(s.ledger) - 1))
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
	incarnation, begun := s.incarnation(topic)
	if !begun {
		return fmt.Errorf("sketch: topic %s was not begun: %w", topic, ErrPart)
	}
	for number, start := range starts {
		if number < 0 || start < 0 {
			return fmt.Errorf("sketch: begin %q/%d at %d: %w", topic, number, start, ErrPart)
		}
	}
	for place := range s.ledger {
		l := &s.ledger[place]
		if l.Topic != topic || l.archived {
			continue
		}
		s.pending.drop(l.key())
		delete(s.places, partition{topic, l.Partition})
		l.archived, l.Halted = true, ""
		s.touch(int32(place))
	}
	for _, number := range slices.Sorted(maps.Keys(starts)) {
		s.adopt(newLedgerRow(topic, number, incarnation+1, starts[number]))
		s.touch(int32(len(s.ledger) - 1))
	}
	s.settings.NotOfLog = true
	s.pending.putSettings(&s.settings)
	return s.commit(nil)
}

// incarnation returns the newest incarnation of a topic, 0 if it was not begun.
func (s *Store) incarnation(topic string) (newest uint32, begun bool) {
	for i := range s.ledger {
		if l := &s.ledger[i]; l.Topic == topic {
			newest, begun = max(newest, l.Incarnation), true
		}
	}
	return newest, begun
}
