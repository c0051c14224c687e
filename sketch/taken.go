package sketch

import (
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/mirror"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// A shard of another number of shards takes its partitions up from those that had them: Merge with Share.Only, from the
// last share of each, then Taken. Rows, accounts and thresholds are then those of a shard that has read these
// partitions itself, but for records rejected by reason, which a shard counts for all of its partitions together. They
// are carried as they are, and added to what the store counts in each head.
//
// A store that takes the place of a shard, with all of its partitions, merges that one's shares whole; Taken then makes
// what it has counted its own.

// Taken ends the handover of partitions: what is applied from here on continues their accounts. It has to be called
// before anything is applied. Until then Merged says that shares are merged into the store, and the handover may
// begin again with the first share.
func (s *Store) Taken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.pending.Drop([]byte{codec.PrefixMerged})
	for shard := range s.shares {
		s.pending.Drop(mirror.ShareKey(shard))
	}
	s.shares, s.pending.Counted = nil, true
	s.settings.Partial, s.settings.NotOfLog, s.settings.Since = true, true, s.ledger.Positions()
	s.pending.PutSettings(&s.settings)
	if err := s.commit(nil); err != nil {
		return err
	}
	s.ledger.ClearCheckpoints()
	clear(s.bounds)
	return s.backend.View(func(c storage.Cut) error {
		if err := s.loadCheckpoints(c); err != nil {
			return err
		}
		return s.loadBounds(c)
	})
}

// carry keeps what a shard has counted by reason.
func (s *Store) carry(shard uint32, reasons map[string]int64) {
	s.pending.Put(
		append([]byte{codec.PrefixMerged, codec.PrefixCounters}, mirror.ShareKey(shard)[1:]...),
		false,
		func(b, key []byte) []byte {
			return codec.AppendCounters(b, key, &codec.Counters{Reasons: reasons})
		},
	)
}
