package sketch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/mirror"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/share"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// Merge takes the share of a shard into a store of Options.Merges. A bottom-k sample is a function of the set of
// events, and so is the union of such samples cut to k: each row that the sample of all events has is among the largest
// of its shard, too. So once all shares are merged, rows and accounts are those of a store that applied all records
// itself. Merging a share again changes nothing: accounts only grow, and thresholds only rise.
//
// It returns by how many events the accounts of each topic grew. An error wrapping ErrForeign or ErrBehind means that
// nothing was merged.
func (s *Store) Merge(m *Share) (events map[string]int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	h, err := share.Read(m, &s.settings, &s.ledger)
	if err != nil {
		return nil, err
	}
	duplicates := s.duplicates
	defer func() { s.duplicates = duplicates }() // what is sent again is none
	events = s.advance(h)
	if m.Only == nil {
		s.contribute(m.Shard, h.Counters)
	} else if m.Carry {
		s.carry(m.Shard, h.Counters.Reasons)
	}
	for i := range m.Pairs {
		if !m.Takes(&m.Pairs[i]) {
			continue
		}
		if err := s.mergePair(m, &m.Pairs[i]); err != nil {
			return nil, s.stop(err)
		}
	}
	thresholds := make([]Threshold, len(s.samples.All))
	for i := range thresholds[:int(NumRoles)+len(h.Counters.Classes)] {
		thresholds[i].Evicted, thresholds[i].Rank = h.Counters.Of(i)
	}
	for i, t := range s.joint(thresholds) {
		if _, err := s.raise(s.samples.All[i], t); err != nil {
			return nil, err
		}
	}
	s.pending.Put([]byte{codec.PrefixMerged}, false, func(b, key []byte) []byte {
		return codec.Seal(key, append(binary.BigEndian.AppendUint64(b, uint64(m.Resume)), m.Memo...), len(b))
	})
	return events, s.commit(nil)
}

// Merged returns Resume and Memo of the last share merged; ok is false before one was.
func (s *Store) Merged() (resume int64, memo []byte, ok bool, err error) {
	err = s.backend.View(func(c storage.Cut) (err error) {
		resume, memo, ok, err = mirror.Merged(c)
		return err
	})
	return resume, memo, ok, err
}

// Fingerprint returns a digest of what samples have to agree in to be merged; see Agrees.
func (s *Store) Fingerprint() Digest {
	s.mu.Lock()
	policy := s.settings
	s.mu.Unlock()
	policy.Format, policy.Lineage, policy.Origin, policy.ConfigHash, policy.Since = 0, "", "", "", nil
	policy.Partial, policy.Unsettled, policy.NotOfLog = false, false, false
	return sha256.Sum256(codec.AppendSettings(nil, []byte{codec.PrefixSettings}, &policy))
}

// CheckPair returns an error wrapping ErrForeign for a pair with which every share would be refused, and for one of a
// partition that owns does not accept. Nobody can say of which partition a row was that is gone; a schema is of none.
func (s *Store) CheckPair(p *Pair, owns func(topic string, partition int32) bool) error {
	s.mu.Lock()
	row, err := share.CheckPair(p, &s.settings)
	start := int64(0)
	if row != nil {
		if place := s.ledger.Place(string(row.Topic), row.Partition, row.Incarnation); place >= 0 {
			start = s.ledger.At(place).Start
		}
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sketch: %w: %w", ErrForeign, err)
	}
	var topic string
	var number int32
	switch {
	case row != nil && row.Offset < start:
		return fmt.Errorf("sketch: row of %s/%d has offset %d, its accounts begin at %d: %w", row.Topic, row.Partition,
			row.Offset, start, ErrForeign)
	case row != nil:
		topic, number = string(row.Topic), row.Partition
	case p.Key[0] == codec.PrefixStub && p.Value != nil:
		return s.checkStub(p, owns)
	case p.Key[0] == codec.PrefixRow, p.Key[0] == codec.PrefixStub, p.Key[0] == codec.PrefixSchema:
		return nil
	default:
		if topic, number, err = PartitionOf(p.Key); err != nil {
			return err
		}
	}
	if !owns(topic, number) {
		return fmt.Errorf("sketch: pair of %s/%d, which is not its partition: %w", topic, number, ErrForeign)
	}
	return nil
}

// Agrees returns an error wrapping ErrForeign unless Head.Settings of another store are those of a sample of other
// partitions, by the same rules.
func (s *Store) Agrees(sealed []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	theirs, err := codec.DecodeSettings([]byte{codec.PrefixSettings}, sealed)
	if err == nil {
		err = s.settings.Agrees(theirs)
	}
	if err != nil {
		return fmt.Errorf("sketch: %w: %w", ErrForeign, err)
	}
	return nil
}

// advance makes the accounts those of a head that is not stale.
func (s *Store) advance(h *share.Account) map[string]int64 {
	events := map[string]int64{}
	grew := func(topic string, n int64) {
		if n > 0 {
			events[topic] += n
		}
	}
	for i := range h.Ledger {
		l := &h.Ledger[i]
		place := s.ledger.Place(l.Topic, l.Partition, l.Incarnation)
		if place < 0 {
			if current, ok := s.ledger.Current(l.Topic, l.Partition); ok && !l.Archived {
				s.archive(current)
			}
			fresh := *l
			fresh.Rows = [NumRoles]int64{}
			s.touch(s.ledger.Adopt(fresh))
			grew(l.Topic, l.Applied)
			continue
		}
		own := s.ledger.At(place)
		if l.Archived && !own.Archived {
			s.archive(place)
		}
		if own.Next == l.Next && own.Halted == l.Halted {
			continue
		}
		grew(l.Topic, l.Applied-own.Applied)
		rows, over := own.Rows, own.Archived
		*own = *l
		own.Rows, own.Archived = rows, over
		s.touch(place)
	}
	return events
}

// archive ends the incarnation of a partition.
func (s *Store) archive(place int32) {
	s.pending.Drop(codec.AccountKey(s.ledger.At(place)))
	s.ledger.Archive(place)
	s.touch(place)
	if !s.settings.NotOfLog {
		s.settings.NotOfLog = true
		s.pending.PutSettings(&s.settings)
	}
}

// contribute replaces what a shard has counted, and adds up what all have.
func (s *Store) contribute(shard uint32, c codec.Counters) {
	if s.shares == nil {
		s.shares = map[uint32]codec.Counters{}
	}
	s.shares[shard] = c
	s.pending.Put(mirror.ShareKey(shard), false, func(b, key []byte) []byte { return codec.AppendCounters(b, key, &c) })
	s.addUp()
	s.pending.Counted = true
}

func (s *Store) addUp() {
	s.reasons = map[string]int64{}
	for _, r := range s.samples.All[NumRoles:] {
		r.Eligible = 0
	}
	for _, shard := range slices.Sorted(maps.Keys(s.shares)) {
		c := s.shares[shard]
		for reason, n := range c.Reasons {
			s.reasons[reason] += n
		}
		for i := range c.Classes {
			s.samples.All[int(NumRoles)+i].Eligible += c.Classes[i].Eligible
		}
	}
}

// loadShares brings what the shards have counted into memory.
func (s *Store) loadShares(c storage.Cut) error {
	return c.Each([]byte{codec.PrefixMerged}, func(key, value []byte) error {
		if len(key) == 1 || mirror.IsCarried(key) {
			return nil
		}
		if len(key) != 1+4 {
			return fault.Corrupt("key %x is of no shard", key)
		}
		counted, err := codec.DecodeCounters(key, value)
		if s.shares == nil {
			s.shares = map[uint32]codec.Counters{}
		}
		s.shares[binary.BigEndian.Uint32(key[1:])] = counted
		return err
	})
}

// mergePair takes one changed key. A row that was put out at its shard is put out here by better ones, or by the
// shard's threshold.
func (s *Store) mergePair(m *Share, p *Pair) error {
	size := int64(len(p.Key) + len(p.Value))
	if p.Key[0] == codec.PrefixStub {
		return s.mergeStub(m, p)
	}
	if p.Key[0] != codec.PrefixRow {
		if err := s.commitIfFull(size, 1); err != nil {
			return err
		}
		if p.Value == nil {
			s.pending.Drop(p.Key)
		} else {
			s.pending.Put(p.Key, false, func(b, _ []byte) []byte { return append(b, p.Value...) })
		}
		return nil
	}
	if p.Value == nil {
		return nil
	}
	role, id, _ := codec.ParseRowKey(p.Key)
	row, err := codec.DecodeRow(p.Key, p.Value)
	if err != nil {
		return err
	}
	place := s.ledger.Place(string(row.Topic), row.Partition, row.Incarnation)
	// From Next on they are of a process that ended before its head: its successor sends them again. Below Start there
	// is nothing.
	if place < 0 || row.Offset >= s.ledger.At(place).Next || row.Offset < s.ledger.At(place).Start {
		return nil
	}
	if gone, err := s.isForgotten(&row, id, m.Values); err != nil || gone {
		return err
	}
	if err := s.commitIfFull(size, 1+joinOps+s.costOf(row.Payload)/MinCost); err != nil {
		return err
	}
	s.touch(place) // the piece before may have written its account
	return s.offer(
		s.ledger.At(place),
		place,
		&Record{Offset: row.Offset, Time: row.Time, Weight: row.Weight, Payload: row.Payload, Role: role,
			id: id, group: row.Group},
	)
}

// isForgotten reports whether a row is of a subject that is to be forgotten.
func (s *Store) isForgotten(row *codec.Row, id policy.Identity,
	values func(field string, payload []byte) ([][]byte, error)) (bool, error) {
	for _, m := range s.markers {
		at, ok := ledger.CutOf(&m, string(row.Topic), row.Partition)
		if !ok || row.Incarnation > at.Incarnation || row.Incarnation == at.Incarnation && row.Offset >= at.Next {
			continue
		}
		if m.Row != nil && bytes.Equal(m.Row, id[:]) {
			return true, nil
		}
		named, err := values(m.Field, row.Payload)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(named, func(value []byte) bool { return SubjectHash(m.Field, value) == m.Hash }) {
			return true, nil
		}
	}
	return false, nil
}
