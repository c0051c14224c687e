package consumer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"

	"github.com/refitd/refitd/consumer/signin"
)

// StartPolicy says where a partition starts that the caller has no offset for.
type StartPolicy string

const (
	// Earliest starts at the first offset the broker still holds.
	Earliest StartPolicy = "earliest"
	// Latest starts at the end of the log as it is when the consumer first sees the topic. Partitions added later start
	// at their first offset: nothing that was written to them has been skipped on purpose.
	Latest StartPolicy = "latest"
)

// Isolation says which records of transactions are delivered.
type Isolation string

const (
	// ReadCommitted delivers records of committed transactions only, and reads up to the last stable offset.
	ReadCommitted Isolation = "read_committed"
	// ReadUncommitted delivers the records of open and aborted transactions too.
	ReadUncommitted Isolation = "read_uncommitted"
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) String() string { return fmt.Sprintf("%s/%d", tp.Topic, tp.Partition) }

// A Cause is trouble that the caller may know a way out of that the consumer does not.
type Cause int

const (
	CauseGap      Cause = iota + 1 // the log starts above the next offset
	CauseOtherLog                  // the log is not the one that was read
	CauseGroupID                   // the broker does not take GroupID
)

// Options configure a Consumer. Start from DefaultOptions; Brokers, Topics, Logger and Registerer have no default. It
// is one type: a field for each setting.
type Options struct {
	Brokers []string // host:port of one or more brokers to start from
	Topics  []string // every partition of these is read, or those that Owns says
	// Owns reports whether a partition is read; nil reads every one. Several consumers may divide a topic.
	Owns     func(topic string, partition int32) bool
	GroupID  string // where offsets are shown to lag tools; empty shows none
	ClientID string
	// Dial connects to a broker; nil is the system's TCP. A simulation passes the Dial of a simulated network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config // nil speaks plaintext
	SASL signin.Credentials

	// Start returns the offset a partition continues at, false if it has none. It is called from one goroutine, not the
	// one that calls the sink; nil means that no partition has one.
	Start func(topic string, partition int32) (offset int64, ok bool)
	// LastRecord, if not nil, returns offset and CRC (Record.CRC) of the last record applied below Start's offset. ok
	// is false if no such record is known. It is called from the goroutine of Start. The broker must still have that
	// record before anything is read: see fingerprint.
	LastRecord  func(topic string, partition int32) (offset int64, crc uint32, ok bool)
	StartPolicy StartPolicy
	// FromStart, if not nil, reports whether a topic starts at its first offset whatever StartPolicy is.
	FromStart func(topic string) bool
	Isolation Isolation
	// Begin, if not nil, is called from the goroutine that calls the sink, before the first batch of a partition that
	// Start had no offset for, with the number that StartPolicy came to: store it, so that a restart does not decide
	// otherwise. An error ends Run.
	Begin func(topic string, partition int32, offset int64) error
	// AcceptGap, if not nil, is called from the same goroutine when the log starts above the next offset, or when a
	// batch decompresses to more than MaxDecompressedBytes. If it returns nil, the offsets below until are given up
	// and reading continues there; an error ends Run. If AcceptGap is nil the partition halts.
	AcceptGap func(topic string, partition int32, until int64) error
	// OnHalt is called for every partition that halts, from the goroutine that calls the sink, after everything below
	// offset was applied. May be nil.
	OnHalt func(topic string, partition int32, offset int64, reason string)
	// OnPause is called, from the same goroutine, for a partition that its sink has refused for some seconds
	// (PauseError), and OnResume when it takes records of it again. May be nil.
	OnPause  func(topic string, partition int32, offset int64, reason string)
	OnResume func(topic string, partition int32)
	// Advice says what an operator can do about a cause. It ends the reasons given for it, to OnHalt and in Status. May
	// be nil.
	Advice map[Cause]string

	Share *Share // fetch together with other consumers; nil fetches alone

	// how long the broker may hold a fetch that finds nothing; longer saves requests on idle topics
	MaxWait              time.Duration
	MaxPartitionBytes    int           // asked for per partition and fetch; a larger batch still comes whole
	MaxBatchRecords      int           // records in one call of the sink
	MaxDecompressedBytes int           // one record batch that decompresses to more is not read
	CommitEvery          time.Duration // between two commits to GroupID
	RefreshEvery         time.Duration // between two looks for new partitions and leaders
	RequestTimeout       time.Duration // a broker that has not answered by then (plus MaxWait) is taken for hung
	StallTimeout         time.Duration // behind and without progress for so long: connections are rebuilt

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// DefaultOptions returns what a production reader should use. 1 MiB a partition is as fast as 8 and needs a third of
// the memory.
func DefaultOptions() Options {
	return Options{
		ClientID:             "refitd",
		StartPolicy:          Earliest,
		Isolation:            ReadCommitted,
		MaxWait:              500 * time.Millisecond,
		MaxPartitionBytes:    1 << 20,
		MaxBatchRecords:      4096,
		MaxDecompressedBytes: 16 << 20,
		CommitEvery:          5 * time.Second,
		RefreshEvery:         10 * time.Second,
		RequestTimeout:       15 * time.Second,
		StallTimeout:         time.Minute,
	}
}

// owns reports whether a partition is read.
func (o *Options) owns(tp TopicPartition) bool {
	return o.Owns == nil || o.Owns(tp.Topic, tp.Partition)
}

// advise ends a text with the advice about its cause.
func (o *Options) advise(text string, about Cause) string {
	return strings.TrimSuffix(text+"; "+o.Advice[about], "; ")
}

// Validate returns every field that cannot be used, with its value, joined into one error.
func (o *Options) Validate() error {
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("consumer: %s is %v, want %s", field, value, want))
	}
	if len(o.Brokers) == 0 {
		bad("Brokers", "empty", "host:port of at least one broker")
	}
	for _, b := range o.Brokers {
		if b == "" || strings.Contains(b, ",") {
			bad("Brokers", fmt.Sprintf("%q", o.Brokers), "one host:port in each entry")
			break
		}
	}
	seen := make(map[string]bool)
	for _, t := range o.Topics {
		if t == "" || seen[t] {
			bad("Topics", fmt.Sprintf("%q", o.Topics), "names that are neither empty nor repeated")
			break
		}
		seen[t] = true
	}
	if len(o.Topics) == 0 {
		bad("Topics", "empty", "at least one topic")
	}
	if o.StartPolicy != Earliest && o.StartPolicy != Latest {
		bad("StartPolicy", fmt.Sprintf("%q", o.StartPolicy), "earliest or latest")
	}
	if o.Isolation != ReadCommitted && o.Isolation != ReadUncommitted {
		bad("Isolation", fmt.Sprintf("%q", o.Isolation), "read_committed or read_uncommitted")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"MaxWait", o.MaxWait}, {"CommitEvery", o.CommitEvery}, {"RefreshEvery", o.RefreshEvery}, {"RequestTimeout",
		o.RequestTimeout},
		{"StallTimeout", o.StallTimeout}} {
		if d.value < time.Millisecond {
			bad(d.field, d.value, "1ms or more")
		}
	}
	if o.MaxPartitionBytes < 1 || o.MaxPartitionBytes > maxResponseBytes {
		bad("MaxPartitionBytes", o.MaxPartitionBytes, fmt.Sprintf("1 to %d", maxResponseBytes))
	}
	if o.MaxBatchRecords < 1 {
		bad("MaxBatchRecords", o.MaxBatchRecords, "1 or more")
	}
	if o.MaxDecompressedBytes < 1 || o.MaxDecompressedBytes > 1<<30 {
		bad("MaxDecompressedBytes", o.MaxDecompressedBytes, "1 byte to 1 GiB")
	}
	if _, err := o.SASL.SASL(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// level is the protocol's number for the isolation.
func (i Isolation) level() kafka.IsolationLevel {
	if i == ReadUncommitted {
		return kafka.ReadUncommitted
	}
	return kafka.ReadCommitted
}
