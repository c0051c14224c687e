package sketch

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/mirror"
	"github.com/refitd/refitd/sketch/internal/piece"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// A Store is a sample with its ledger. All methods are safe for concurrent use; Apply and the other writers run one at
// a time. It is one type: what changes in one transaction has one lock; rooms below internal have the work.
type Store struct {
	settings   policy.Settings
	backend    storage.Backend
	home       *home // nil in memory
	outboxRows int   // dead letters at most, 0 keeps none
	heads      heads

	mu         sync.Mutex // guards what follows
	samples    reservoir.Samples
	ledger     ledger.Book
	bounds     map[int32]*piece.Bound // the last time bound of each
	markers    map[Digest]Marker
	reasons    map[string]int64
	aux        []byte
	outbox     []string // keys of the dead letters, oldest first
	pending    piece.Piece
	duplicates int64               // applied since the start under an identity that was in the sample
	err        error               // the first storage error (I9)
	note       func(*Change) error // of Recorded
	mirror     mirror.Notes
	shares     map[uint32]codec.Counters // by shard, of what was merged

	progress        Progress // nil reports nothing
	checkpointEvery int64
	cost            func(payload []byte) int
	merges          bool
}

// sealAll seals the samples, before rows are taken out of them for another reason than a better one.
func (s *Store) sealAll() {
	s.samples.Seal()
	s.pending.Counted = true
}

// Begin makes the ledger row of a partition, durably. It does nothing if there is one: start is decided once. start
// must be a number, not "earliest", so that a restart cannot decide otherwise.
func (s *Store) Begin(topic string, number int32, start int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ledger.Current(topic, number); ok || s.err != nil {
		return s.err
	}
	if topic == "" || len(topic) > 249 || strings.Contains(topic, "\x00") || number < 0 || start < 0 {
		return fmt.Errorf("sketch: begin %q/%d at %d: %w", topic, number, start, ErrPart)
	}
	incarnation, _ := s.ledger.Incarnation(topic)
	s.touch(s.ledger.Adopt(ledger.Account{Row: ledger.NewRow(topic, number, incarnation, start)}))
	return s.commit(nil)
}

// Position returns the next offset of a partition; ok is false before Begin.
func (s *Store) Position(topic string, number int32) (next int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.ledger.Current(topic, number); ok {
		return s.ledger.At(i).Next, true
	}
	return 0, false
}

// Row returns the ledger's row of a partition; ok is false before Begin. O(1).
func (s *Store) Row(topic string, number int32) (row LedgerRow, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.ledger.Current(topic, number)
	if ok {
		row = s.ledger.At(i).Row
	}
	return row, ok
}

// Ledger returns a copy of the ledger, ordered by topic and partition.
func (s *Store) Ledger() []LedgerRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Rows()
}

// Size returns the rows by role and the bytes of their stored keys and values, from memory; State and Sample count them
// anew.
func (s *Store) Size() (rows [NumRoles]int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.samples.All {
		if r.Stubs {
			continue
		}
		rows[r.Role] += len(r.Entries)
		bytes += r.Bytes
	}
	return rows, bytes
}

// Duplicates returns how many events were applied since the store was opened under an identity that was in the sample
// already.
func (s *Store) Duplicates() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.duplicates
}

// Seed returns the seed of the priorities.
func (s *Store) Seed() uint64 { return s.settings.Seed }

// Lineage returns the id of the state. It changes where a sample stops being that of all events: after ForgetSubject,
// and with another size.
func (s *Store) Lineage() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings.Lineage
}

// Aux returns a copy of the bytes last given to Apply; nil if none were.
func (s *Store) Aux() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.aux)
}

// Halt writes down why reading of a partition stopped. It does not make Apply refuse: that is the reader's part.
func (s *Store) Halt(topic string, number int32, text string) error {
	if len(text) > maxHaltBytes {
		text = strings.ToValidUTF8(text[:maxHaltBytes], "")
	}
	return s.change(topic, number, func(l *ledger.Account) error {
		l.Halted = text
		return nil
	})
}

// Resume removes the text of Halt.
func (s *Store) Resume(topic string, number int32) error { return s.Halt(topic, number, "") }

// AcceptGap declares the offsets from next to logStart-1 lost and continues at logStart, with a checkpoint there: a
// verification can start behind the gap. It does nothing if logStart is not above next.
func (s *Store) AcceptGap(topic string, number int32, logStart int64) error {
	return s.change(topic, number, func(l *ledger.Account) error {
		s.skip(l, logStart)
		return nil
	})
}

// AcceptHalt is AcceptGap and Resume in one transaction.
func (s *Store) AcceptHalt(topic string, number int32, logStart int64) error {
	return s.change(topic, number, func(l *ledger.Account) error {
		l.Halted = ""
		s.skip(l, logStart)
		return nil
	})
}

// skip accounts for the offsets below to as lost.
func (s *Store) skip(l *ledger.Account, to int64) {
	if lost := to - l.Next; lost > 0 {
		l.Gap += lost
		l.Next = to
		place, _ := s.ledger.Current(l.Topic, l.Partition)
		s.checkpoint(place)
	}
}

func (s *Store) change(topic string, number int32, f func(*ledger.Account) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	i, ok := s.ledger.Current(topic, number)
	if !ok {
		return fmt.Errorf("sketch: %s/%d: partition was not begun: %w", topic, number, ErrPart)
	}
	if err := f(s.ledger.At(i)); err != nil {
		return err
	}
	s.touch(i)
	return s.commit(nil)
}

// Close writes the witness and releases the state directory. No other method may be running or follow. A store whose
// storage failed, or whose disk is full (the error wraps ErrSpace), is left as a kill would leave it, which loses
// nothing.
func (s *Store) Close() error {
	if s.home == nil {
		return s.backend.Close()
	}
	if s.err != nil {
		storage.Abandon(s.backend)
		return s.home.lock.Close()
	}
	return errors.Join(s.Witness(), s.backend.Close(), s.home.lock.Close())
}

// SetProgress makes later passes over the store report their progress to p. It is not safe for concurrent use.
func (s *Store) SetProgress(p Progress) { s.progress = p }

// maxHaltBytes bounds the text of a halt.
const maxHaltBytes = 1024
