package sketch

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

// A LedgerRow accounts for the offsets Start..Next-1 of one partition:
//
//	Applied + Rejected + Control + Aborted + Holes + Gap = Next - Start
type LedgerRow struct {
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

	Eligible [NumRoles]int64 // applied records by role; the sum is Applied
	Rows     [NumRoles]int64 // those of them that are in the sample now

	LastOffset int64  // of the last applied or rejected record, -1 if none: what a reader compares before it resumes
	LastCRC    uint32 // of that record
	Watermark  int64  // newest event time applied, milliseconds; NoTime if none
	Digest     Digest // chained over the applied and rejected records
	Halted     string // why reading stopped for an operator to decide; "" = it did not

	archived bool // of an incarnation that is over
}

func newLedgerRow(topic string, partition int32, incarnation uint32, start int64) LedgerRow {
	r := LedgerRow{
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
func (l *LedgerRow) AtStart() LedgerRow {
	return newLedgerRow(l.Topic, l.Partition, l.Incarnation, l.Start)
}

// Records is the number of records that the digest is chained over.
func (l *LedgerRow) Records() int64 { return l.Applied + l.Rejected }

// Unaccounted returns the offsets between Start and Next that the accounts do not explain: 0, or the state is damaged
// (I3).
func (l *LedgerRow) Unaccounted() int64 { return l.Next - l.Start - l.accounted() }

// chain binds a record to the digest: d' = SHA-256(d ‖ offset ‖ CRC ‖ fate), one block. Only applied and rejected
// records are bound:
// markers and aborted records vanish when the broker compacts, and independent clients do not show them.
func (l *LedgerRow) chain(r *Record) {
	var b [45]byte
	copy(b[:], l.Digest[:])
	binary.BigEndian.PutUint64(b[32:], uint64(r.Offset))
	binary.BigEndian.PutUint32(b[40:], r.CRC)
	b[44] = byte(r.Fate)
	l.Digest = sha256.Sum256(b[:])
	l.LastOffset, l.LastCRC = r.Offset, r.CRC
}

// accounted is the left side of I3.
func (l *LedgerRow) accounted() int64 {
	return l.Applied + l.Rejected + l.Control + l.Aborted + l.Holes + l.Gap
}

// audit returns an error unless the accounts add up (I3).
func (l *LedgerRow) audit() error {
	if l.Unaccounted() != 0 {
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
	if eligible != l.Applied {
		return fault.Corrupt("ledger of %s/%d has roles for %d of %d applied events", l.Topic, l.Partition, eligible,
			l.Applied)
	}
	return nil
}
