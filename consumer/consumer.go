package consumer

import (
	"context"
	"errors"
)


// Consumer reads every partition of its topics into a sink.
type Consumer struct {
	opts Options
	sink Sink
}

// Status is what the consumer is doing, for readiness and for people.
type Status struct {
	Ready      bool     // every partition is being read, or has halted
	Reasons    []string // why not ready, and every halted partition
	Partitions []PartitionStatus
}

// PartitionStatus is the place of one partition.
type PartitionStatus struct {
	Topic         string
	Partition     int32
	Next          int64 // everything below has been applied
	LogStart      int64
	HighWatermark int64  // end of the log, -1 before the first fetch
	LastStable    int64  // end of what read_committed may see, -1 before the first fetch
	Lag           int64  // HighWatermark - Next, 0 before the first fetch
	Halted        string // the text given to OnHalt, or empty
}

// New returns a consumer of opts that applies batches to sink. It does not connect. The error is that of Options.Validate.
func New(opts Options, sink Sink) (*Consumer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return &Consumer{opts: opts, sink: sink}, nil
}

// Run reads until ctx is done and then returns nil. It returns an error only from the sink. Call it, or RunUntil, once.
func (c *Consumer) Run(ctx context.Context) error { return c.RunUntil(ctx, nil) }

// RunUntil reads as Run does, but only the partitions in ends and only below the offsets given there, and returns nil when each of
// them has been reached or has halted.
func (c *Consumer) RunUntil(ctx context.Context, ends map[TopicPartition]int64) error {
	return errors.New("not built")
}

// Ends returns the end of every partition as it is now: the last stable offset under ReadCommitted, else the high watermark. A
// broker that cannot be reached, refuses us, or has not got a topic is an error. It may be called before Run.
func (c *Consumer) Ends(ctx context.Context) (map[TopicPartition]int64, error) {
	return nil, errors.New("not built")
}

// Status may be called at any time from any goroutine.
func (c *Consumer) Status() Status { return Status{} }
