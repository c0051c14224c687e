package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	readCommitted = 1       // isolation level of the protocol
	fetchBytes    = 4 << 20 // asked for; a larger batch still comes whole (KIP-74)
	fetchWait     = 500     // milliseconds the broker may hold a fetch that finds nothing
	fetchAttempts = cluster.Attempts
	fetchBackoff  = 250 * time.Millisecond
)

// unreadableError says why what the ledger covers of a partition cannot be read again.
type unreadableError struct {
	logStart int64 // first offset the broker still holds, -1 if it holds none
	reason   string
}

func (e *unreadableError) Error() string { return "verify: " + e.reason }

// reader reads stretches of partitions with franz-go's requests and its parser of record batches. It shares no code
// with package consumer, which it checks, but for what connections refuse (cluster.ClientOptions). Its consumer is not
// used: that neither shows how far it has read where there are no records, nor distinguishes aborted records from
// holes.
type reader struct {
	client       *kgo.Client
	admin        *kadm.Client
	decompressor kgo.Decompressor
	topics       []string

	meta       kadm.TopicDetails
	start, end kadm.ListedOffsets // end: of what read_committed may see
	progress   *progress.Meter
	plain      map[string]bool // topics of which the broker says that it does not compact them
}

// newReader connects and lists the extents of the topics. The caller closes the reader.
func newReader(ctx context.Context, k *config.Kafka, topics []string) (_ *reader, err error) {
	options, err := cluster.ClientOptions(k)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	r := &reader{client: client, admin: kadm.NewClient(client), decompressor: kgo.DefaultDecompressor(), topics: topics}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := r.locate(ctx); err != nil {
		return nil, err
	}
	if r.start, err = r.admin.ListStartOffsets(ctx, topics...); err != nil {
		return nil, brokerError(ctx, err)
	}
	if r.end, err = r.admin.ListCommittedOffsets(ctx, topics...); err != nil {
		return nil, brokerError(ctx, err)
	}
	r.plain = make(map[string]bool)
	configs, err := r.admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil && ctx.Err() != nil {
		return nil, brokerError(ctx, err)
	}
	for _, c := range configs { // without the right to see them every topic counts as compacted
		for _, entry := range c.Configs {
			if entry.Key == "cleanup.policy" && entry.Value != nil && !strings.Contains(*entry.Value, "compact") {
				r.plain[c.Name] = true
			}
		}
	}
	return r, nil
}

func (r *reader) close() { r.client.Close() }

// compacts reports whether the broker may have taken single records out of a topic.
func (r *reader) compacts(topic string) bool { return !r.plain[topic] }

// locate learns leaders and topic ids.
func (r *reader) locate(ctx context.Context) error {
	meta, err := r.admin.Metadata(ctx, r.topics...)
	if err != nil {
		return brokerError(ctx, err)
	}
	r.meta = meta.Topics
	return nil
}

// brokerError gives the error of a request its exit code: that of ctx if it is what ended the request.
func brokerError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	return &report.ExitError{
		Code: report.ExitBroker,
		Err:  fmt.Errorf("verify: broker unreachable, or it refused us: %w", err),
		Key:  "kafka.bootstrap_servers",
	}
}

// read gives sink every offset in [from, to), in the order of the log, which starts at logStart. An *unreadableError
// means that the log no longer holds them.
func (r *reader) read(ctx context.Context, topic string, number int32, from, to, logStart int64,
	sink consumer.Sink) error {
	for empty := 0; from < to; {
		answer, err := r.fetch(ctx, topic, number, from)
		if err != nil {
			return err
		}
		b, err := r.batch(topic, answer, from, to)
		if err != nil {
			return err
		}
		b.LogStart = logStart
		if b.Next == from {
			// Below its stable end the broker answers with the next batch there is. Ask again before believing that
			// there is no more: the offsets of a compacted log need not reach its end.
			switch empty++; {
			case answer.LastStableOffset < to:
				return &unreadableError{
					logStart,
					fmt.Sprintf("the log now ends at offset %d, the ledger at %d", answer.LastStableOffset, to),
				}
			case empty < fetchAttempts:
				continue
			}
			b.Next = to
		}
		empty = 0
		if err := sink.Apply(ctx, b); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		r.progress.Add(b.Next - from)
		from = b.Next
	}
	return nil
}

// extent returns the first offset of the log, or an *unreadableError if the log does not reach up to the offset to, or
// does not exist.
func (r *reader) extent(ctx context.Context, topic string, number int32, to int64) (logStart int64, err error) {
	start, known := r.start.Lookup(topic, number)
	end, ended := r.end.Lookup(topic, number)
	switch err := errors.Join(r.meta[topic].Err, start.Err, end.Err); {
	case errors.Is(err, kerr.UnknownTopicOrPartition), err == nil && !(known && ended):
		return 0, &unreadableError{-1, "the cluster has no such partition"}
	case err != nil:
		return 0, brokerError(ctx, fmt.Errorf("offsets of %s/%d: %w", topic, number, err))
	case end.Offset < to:
		return start.Offset, &unreadableError{
			start.Offset,
			fmt.Sprintf("the log ends at offset %d, the ledger at %d", end.Offset, to),
		}
	}
	return start.Offset, nil
}

// fetch asks the leader for the batches from an offset on. Errors that pass are waited for.
func (r *reader) fetch(ctx context.Context, topic string, number int32,
	from int64) (*kmsg.FetchResponseTopicPartition, error) {
	for attempt := 1; ; attempt++ {
		answer, err := r.fetchOnce(ctx, topic, number, from)
		switch {
		case err == nil:
			return answer, nil
		case answer != nil && errors.Is(err, kerr.OffsetOutOfRange):
			logStart := from + 1 // a broker does not say in this answer where its log starts
			if start, err := r.admin.ListStartOffsets(ctx, topic); err == nil {
				if o, ok := start.Lookup(topic, number); ok && o.Err == nil {
					logStart = max(logStart, o.Offset)
				}
			}
			return nil, &unreadableError{logStart, fmt.Sprintf("offset %d is gone", from)}
		case ctx.Err() != nil || attempt == fetchAttempts || !kerr.IsRetriable(err):
			return nil, brokerError(ctx, fmt.Errorf("fetch of %s/%d from offset %d: %w", topic, number, from, err))
		}
		_ = backoff.Sleep(ctx, fetchBackoff) // locate fails if ctx is done
		if err := r.locate(ctx); err != nil {
			return nil, err
		}
	}
}

// fetchOnce is one request. The answer is not nil if the error is the partition's.
func (r *reader) fetchOnce(ctx context.Context, topic string, number int32,
	from int64) (*kmsg.FetchResponseTopicPartition, error) {
	t := r.meta[topic]
	leader, ok := t.Partitions[number]
	switch {
	case t.Err != nil:
		return nil, t.Err
	case !ok:
		return nil, kerr.UnknownTopicOrPartition
	case leader.Leader < 0:
		return nil, kerr.LeaderNotAvailable
	}
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.IsolationLevel = fetchWait, 1, fetchBytes,
		readCommitted
	wanted := kmsg.NewFetchRequestTopicPartition()
	wanted.Partition, wanted.FetchOffset, wanted.PartitionMaxBytes = number, from, fetchBytes
	request.Topics = []kmsg.FetchRequestTopic{
		{Topic: topic, TopicID: t.ID, Partitions: []kmsg.FetchRequestTopicPartition{wanted}},
	}
	answer, err := r.client.Broker(int(leader.Leader)).RetriableRequest(ctx, request)
	if err != nil {
		return nil, err
	}
	response := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return nil, err
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return nil, errors.New("the broker answered for other partitions than it was asked for")
	}
	p := &response.Topics[0].Partitions[0]
	return p, kerr.ErrorForCode(p.ErrorCode)
}

// batch turns an answer into the offsets [from, Next) with Next at most to. An offset is delivered if read_committed
// shows it, aborted if only read_uncommitted does, and else a hole.
func (r *reader) batch(topic string, answer *kmsg.FetchResponseTopicPartition,
	from, to int64) (*consumer.Batch, error) {
	answer.RecordBatches = below(answer.RecordBatches, to)
	parse := func(level kgo.IsolationLevel) (kgo.FetchPartition, int64) {
		return kgo.ProcessFetchPartition(
			kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: from, IsolationLevel: level,
				Topic: topic, Partition: answer.Partition},
			answer,
			r.decompressor,
			nil,
		)
	}
	all, next := parse(kgo.ReadUncommitted())
	if next == from && all.Err != nil {
		return nil, &unreadableError{answer.LogStartOffset, fmt.Sprintf("offset %d: %v", from, all.Err)}
	}
	shown := all.Records
	if len(answer.AbortedTransactions) > 0 {
		committed, end := parse(kgo.ReadCommitted())
		shown, next = committed.Records, min(next, end)
	}
	b := &consumer.Batch{Topic: topic, Partition: answer.Partition, Base: from, Next: min(next, to),
		HighWatermark: answer.HighWatermark, LastStable: answer.LastStableOffset, Records: make([]consumer.Record, 0, len(
			all.Records))}
	for _, a := range all.Records {
		if a.Offset >= b.Next {
			break
		}
		record := consumer.Record{
			Offset:    a.Offset,
			Timestamp: milliseconds(a.Timestamp),
			Appended:  a.Attrs.TimestampType() == 1,
		}
		isShown := len(shown) > 0 && shown[0].Offset == a.Offset
		if isShown {
			shown = shown[1:]
		}
		switch {
		case a.Attrs.IsControl():
			record.Fate = consumer.Control
		case !isShown:
			record.Fate = consumer.Aborted
		default:
			record.Key, record.Value = a.Key, a.Value
			record.Headers = headersOf(a.Headers)
			record.CRC = checksum(a.Key, a.Value, record.Timestamp)
		}
		b.Records = append(b.Records, record)
	}
	return b, nil
}

// below cuts batches that start at or after an offset: the daemon has not read them, so whether they can be read is no
// matter.
// Magic 2 alone has the first offset in its header.
func below(batches []byte, offset int64) []byte {
	const prefix, magicAt = 12, 16
	for at := 0; len(batches)-at > magicAt; {
		b := batches[at:]
		size := prefix + int64(int32(binary.BigEndian.Uint32(b[8:])))
		switch {
		case b[magicAt] == 2 && int64(binary.BigEndian.Uint64(b)) >= offset:
			return batches[:at]
		case size <= magicAt || size > int64(len(b)):
			return batches // franz-go says what is wrong with it
		}
		at += int(size)
	}
	return batches
}

// checksum is consumer.Record.CRC, written again: the Castagnoli CRC of key, value and time stamp (big endian).
func checksum(key, value []byte, timestamp int64) uint32 {
	hash := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	hash.Write(key)
	hash.Write(value)
	hash.Write(binary.BigEndian.AppendUint64(nil, uint64(timestamp)))
	return hash.Sum32()
}

// milliseconds undoes franz-go's time.Unix(0, ms·10⁶), whose product wraps for times after 2262: modulo 2⁶⁴ it is
// ms·2⁶·5⁶, and 5⁶ has an inverse. Exact for |ms| < 2⁵⁷.
func milliseconds(t time.Time) int64 {
	const inverse = 0x790fb65668c26139 // of 5⁶ modulo 2⁶⁴
	return int64(uint64(t.UnixNano())>>6*inverse) << 6 >> 6
}

// headersOf writes headers as they are in a record, nil for none.
func headersOf(headers []kgo.RecordHeader) []byte {
	if len(headers) == 0 {
		return nil
	}
	b := binary.AppendVarint(nil, int64(len(headers)))
	for _, h := range headers {
		b = append(binary.AppendVarint(b, int64(len(h.Key))), h.Key...)
		if h.Value == nil {
			b = binary.AppendVarint(b, -1)
			continue
		}
		b = append(binary.AppendVarint(b, int64(len(h.Value))), h.Value...)
	}
	return b
}
