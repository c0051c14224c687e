package mirror

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// ErrForeign: what was to be merged is not of a store that reads other partitions of the same topics under the same
// settings.
var ErrForeign = errors.New("not of the same sample")

// A Pair is a key of the database with its value, sealed as it is stored. The value of a removed key is nil.
type Pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

// A Head is the accounts that the pairs up to it belong to, as they are stored. With them a copy holds all that it
// needs of the records before their positions.
type Head struct {
	Settings []byte `json:"settings"`
	Counters []byte `json:"counters,omitempty"` // none while no record was rejected and no row put out
	Ledger   []Pair `json:"ledger"`
}

// An Excerpt is what a copy of a store lacks at one commit.
type Excerpt struct {
	Pairs []Pair // rows, stubs, checkpoints, time bounds and schemas that changed
	Head  *Head  // nil if there are more changes, which the next excerpt has

	notes   [][]byte        // the notes that it and those before it cover
	commits int64           // of the store when it was made
	unsent  map[string]bool // keys that came and went before it or those before it were made: the copy has never had them
}

// PartitionOf returns the partition of a key of Head.Ledger, of a checkpoint or a time bound.
func PartitionOf(key []byte) (topic string, number int32, err error) {
	after := 0
	if len(key) > 0 {
		if after = codec.KeyTail[key[0]]; key[0] == codec.PrefixBound {
			after = codec.KeyTail[codec.PrefixCheckpoint]
		}
	}
	tail := len(key) - after
	if after == 0 || tail < 3 {
		return "", 0, fmt.Errorf("sketch: key %.40q: %w", key, ErrForeign)
	}
	return string(key[1 : tail-1]), int32(binary.BigEndian.Uint32(key[tail:])), nil
}

// HeadOf reads the accounts of a cut.
func HeadOf(c storage.Cut) (*Head, error) {
	h := new(Head)
	for _, v := range []struct {
		prefix byte
		to     *[]byte
	}{{codec.PrefixSettings, &h.Settings}, {codec.PrefixCounters, &h.Counters}} {
		value, err := c.Get([]byte{v.prefix})
		if err != nil {
			return nil, err
		}
		*v.to = bytes.Clone(value)
	}
	if err := addCarried(c, h); err != nil {
		return nil, err
	}
	for _, prefix := range []byte{codec.PrefixArchive, codec.PrefixLedger} {
		if err := c.Each([]byte{prefix}, func(key, value []byte) error {
			h.Ledger = append(h.Ledger, Pair{bytes.Clone(key), bytes.Clone(value)})
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// A Threshold is what the rank of a row of a sample has to reach, once an event was put out of it.
type Threshold struct {
	Evicted bool   `json:"evicted"`
	Rank    uint64 `json:"rank"`
}

// IsCarried reports whether a key is of what a shard whose partitions were taken up had counted by reason.
func IsCarried(key []byte) bool { return len(key) == 2+4 && key[1] == codec.PrefixCounters }

// addCarried adds what is carried to the counters of a head.
func addCarried(c storage.Cut, h *Head) error {
	own := []byte{codec.PrefixCounters}
	var sum *codec.Counters
	err := c.Each([]byte{codec.PrefixMerged, codec.PrefixCounters}, func(key, value []byte) error {
		if !IsCarried(key) {
			return nil
		}
		carried, err := codec.DecodeCounters(key, value)
		if err != nil {
			return err
		}
		if sum == nil {
			sum = &codec.Counters{Reasons: map[string]int64{}}
			if len(h.Counters) > 0 {
				if *sum, err = codec.DecodeCounters(own, h.Counters); err != nil {
					return err
				}
				sum.Reasons = maps.Clone(sum.Reasons)
			}
		}
		for reason, n := range carried.Reasons {
			sum.Reasons[reason] += n
		}
		return nil
	})
	if err == nil && sum != nil {
		h.Counters = bytes.Clone(codec.AppendCounters(nil, own, sum))
	}
	return err
}

// ShareKey is the key of the counters of a shard whose rows were merged.
func ShareKey(shard uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{codec.PrefixMerged}, shard)
}

// Merged returns what a store keeps of the last share merged into it: where the caller continues reading, and what it
// has to know then; ok is false before one was.
func Merged(c storage.Cut) (resume int64, memo []byte, ok bool, err error) {
	value, ok, err := storage.Stored(c, []byte{codec.PrefixMerged}, codec.Unseal)
	switch {
	case err != nil || !ok:
		return 0, nil, false, err
	case len(value) < 8:
		return 0, nil, false, fault.Corrupt("what was merged has %d bytes", len(value))
	}
	return int64(binary.BigEndian.Uint64(value)), bytes.Clone(value[8:]), true, nil
}
