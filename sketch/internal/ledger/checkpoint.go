package ledger

import "math/bits"

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

// LoadCheckpoint adds the checkpoint of a row to those of the account at a place, which are added in the order of Next.
func (b *Book) LoadCheckpoint(place int32, row *Row) {
	b.marks[place] = append(b.marks[place], mark{row.Records(), row.Next})
}

// AddCheckpoint adds a checkpoint of the account at a place, as it is now, and calls drop with the next offset of each
// of the older ones that are not kept any more. every is the number of records between two checkpoints.
func (b *Book) AddCheckpoint(place int32, every int64, drop func(next int64)) {
	l := b.At(place)
	newest := l.Records() / every
	kept := b.marks[place][:0]
	for _, m := range b.marks[place] {
		if n := m.records / every; n != newest && keepsCheckpoint(n, newest-n) {
			kept = append(kept, m)
			continue
		}
		drop(m.next)
	}
	b.marks[place] = append(kept, mark{l.Records(), l.Next})
}

// ClearCheckpoints leaves out all checkpoints.
func (b *Book) ClearCheckpoints() { clear(b.marks) }
