package consumer

import "context"

// Fate says what became of an offset that the broker delivered.
type Fate uint8

const (
	// Delivered is a record of a committed transaction, or of no transaction.
	Delivered Fate = iota
	// Control is a transaction marker.
	Control
	// Aborted is a record of an aborted transaction.
	Aborted
)

// Record is one offset of a partition as the broker delivered it. Key and Value alias the fetch buffer and are valid
// until the sink returns; both are nil for control and aborted records.
type Record struct {
	Offset    int64
	Timestamp int64  // milliseconds since 1970, UTC
	Appended  bool   // Timestamp is when the broker appended the batch (LogAppendTime), rather than what the producer says
	Key       []byte // nil if the record has none
	Value     []byte // nil is a tombstone
	// Headers are their number, then each name and value after its length; numbers and lengths are varints.
	// Nil if the record has no headers. They alias the fetch buffer, too.
	Headers []byte
	CRC     uint32 // Castagnoli CRC of key, value and time stamp, zero for control and aborted records
	Fate    Fate
}

// Batch is what one fetch brought for one partition: every offset in [Base, Next) is either in Records, in increasing
// order, or a hole that compaction left.
type Batch struct {
	Topic         string
	Partition     int32
	Base          int64 // the offset that was asked for
	Next          int64 // where the next fetch starts
	LogStart      int64 // first offset the broker still holds
	HighWatermark int64 // end of the log
	LastStable    int64 // end of what read_committed may see
	Records       []Record
}

// A Sink stores batches. It is called from one goroutine at a time, in offset order within a partition. An error ends
// the consumer: a record that cannot be stored is never skipped. A *PauseError only puts the partition off, a
// *HaltError halts it.
type Sink interface {
	Apply(ctx context.Context, b *Batch) error
}

// A Queue is a Sink that can take the next batch while it stores the last ones, in order. The consumer then calls Take
// in place of Apply, and a batch counts as stored when a later Flush has returned nil; there is one at the latest when
// all of a response has been taken. The records of a batch may be used during Take alone.
type Queue interface {
	Sink
	// Take is Apply, but for when the batch is stored. The error may be of a batch before.
	Take(ctx context.Context, b *Batch) error
	// Flush waits until all batches are stored. It is also called when the consumer has to end.
	Flush() error
}
