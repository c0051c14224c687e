package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/refitd/refitd/sketch/internal/fault"
)

// NoTime is the watermark of a partition of which no event was applied.
const NoTime = math.MinInt64

// A Digest is a SHA-256 sum.
type Digest [32]byte

// String returns "sha256:" and the sum in hexadecimal.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// MarshalText returns String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Digest) UnmarshalText(text []byte) error {
	sum, ok := strings.CutPrefix(string(text), "sha256:")
	b, err := hex.DecodeString(sum)
	if !ok || err != nil || len(b) != len(d) {
		return fmt.Errorf("sketch: %q is no digest", text)
	}
	copy(d[:], b)
	return nil
}

// A Row accounts for the offsets Start..Next-1 of one partition:
//
//	Applied + Rejected + Control + Aborted + Holes + Gap = Next - Start
type Row struct {
	Topic       string
	Partition   int32
	Incarnation uint32 // of a recreated topic, from 0; part of the identity of events

	Start, Next int64 // the first offset accounted for, and the first that is not yet
	Applied     int64
	Rejected    int64
	Control     int64 // transaction markers
	Aborted     int64 // records of aborted transactions
	Holes       int64 // offsets the log passes over: compacted away
	Gap         int64 // offsets declared lost by AcceptGap

	Eligible [NumRoles]int64 // applied records by role; the sum is Applied, or 0 where records are set aside
	Rows     [NumRoles]int64 // those of them that are in the sample now

	LastOffset int64  // of the last applied or rejected record, -1 if none: what a reader compares before it resumes
	LastCRC    uint32 // of that record
	Watermark  int64  // newest event time applied, milliseconds; NoTime if none
	Digest     Digest // chained over the applied and rejected records
	Halted     string // why reading stopped for an operator to decide; "" = it did not
}

// NewRow returns the row of a partition of which nothing was read.
func NewRow(topic string, partition int32, incarnation uint32, start int64) Row {
	r := Row{
		Topic:       topic,
		Partition:   partition,
		Incarnation: incarnation,
		Start:       start,
		Next:        start,
		LastOffset:  -1,
		Watermark:   NoTime,
	}
	b := append([]byte("refitd ledger 1\x00"), topic...)
	b = binary.BigEndian.AppendUint32(b, r.Incarnation)
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	r.Digest = sha256.Sum256(b)
	return r
}

// AtStart returns the row as it was when its incarnation of the partition was begun.
func (l *Row) AtStart() Row {
	return NewRow(l.Topic, l.Partition, l.Incarnation, l.Start)
}

// Records is the number of records that the digest is chained over.
func (l *Row) Records() int64 { return l.Applied + l.Rejected }

// unaccounted returns the offsets between Start and Next that the accounts do not explain: 0, or the state is damaged
// (I3).
func (l *Row) unaccounted() int64 { return l.Next - l.Start - l.accounted() }

// Chain binds a record to the digest: d' = SHA-256(d ‖ offset ‖ CRC ‖ fate), one block. Only applied and rejected
// records are bound:
// markers and aborted records vanish when the broker compacts, and independent clients do not show them.
func (l *Account) Chain(offset int64, crc uint32, fate Fate) {
	var b [45]byte
	copy(b[:], l.Digest[:])
	binary.BigEndian.PutUint64(b[32:], uint64(offset))
	binary.BigEndian.PutUint32(b[40:], crc)
	b[44] = byte(fate)
	l.Digest = sha256.Sum256(b[:])
	l.LastOffset, l.LastCRC = offset, crc
}

// accounted is the left side of I3.
func (l *Row) accounted() int64 {
	return l.Applied + l.Rejected + l.Control + l.Aborted + l.Holes + l.Gap
}

// Audit returns an error unless the accounts add up (I3).
func (l *Account) Audit() error {
	if l.unaccounted() != 0 {
		return fault.Corrupt("ledger of %s/%d accounts for %d offsets between %d and %d", l.Topic, l.Partition, l.accounted(),
			l.Start, l.Next)
	}
	var eligible int64
	for role := range NumRoles {
		if l.Rows[role] < 0 || l.Rows[role] > l.Eligible[role] {
			return fault.Corrupt("ledger of %s/%d has %d rows of role %s from %d events", l.Topic, l.Partition, l.Rows[role],
				role, l.Eligible[role])
		}
		eligible += l.Eligible[role]
	}
	if eligible != l.Applied && eligible != 0 { // none of a partition whose records are set aside
		return fault.Corrupt("ledger of %s/%d has roles for %d of %d applied events", l.Topic, l.Partition, eligible,
			l.Applied)
	}
	return nil
}

// Position is how far a partition has been applied.
type Position struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Incarnation uint32 `json:"incarnation,omitempty"`
	Next        int64  `json:"next"`
}

// A TimeBound says that of the offsets From..To-1 of a partition no event may be newer than Latest, milliseconds: those
// that said so were given another time before they were applied (Record.Bound). It is kept because the clock that
// decided it has moved on when the log is read again.
type TimeBound struct {
	From, To int64
	Latest   int64
}
