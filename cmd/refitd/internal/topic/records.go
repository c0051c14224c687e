// Package topic looks at the newest records of a topic, without a group and without leaving a trace.
package topic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What is looked at, at most.
const (
	MaxRecords = 10_000
	maxBytes   = 64 << 20
	maxTime    = 30 * time.Second
	// maxBatch bounds a batch once decompressed, as reading events does by default, and maxFetch what is decompressed
	// at a time.
	maxBatch = 16 << 20
	maxFetch = 256 << 10
	idle     = 3 * time.Second // without a record, where offsets below the end have none: aborted, or compacted away
)

// Newest returns the newest committed records of a topic that have a value, of each partition as many, and how many
// were read, those without one included. Errors have exit code 3.
func Newest(ctx context.Context, k *config.Kafka, name string) (records []offline.Record, read int, err error) {
	return newest(ctx, k, name, MaxRecords)
}

func newest(ctx context.Context, k *config.Kafka, name string,
	limit int) (records []offline.Record, read int, err error) {
	fail := func(err error) ([]offline.Record, int, error) {
		return nil, 0, &report.ExitError{
			Code:  report.ExitBroker,
			Err:   fmt.Errorf("topic: look at %s: %w", name, err),
			Key:   "--topic",
			Topic: name,
		}
	}
	options, err := cluster.ClientOptions(k)
	if err != nil {
		return nil, 0, err
	}
	from, left, err := begin(ctx, options, name, limit)
	if err != nil {
		return fail(err)
	}
	client, err := kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.FetchMaxBytes(maxFetch), kgo.FetchMaxPartitionBytes(maxFetch), kgo.MaxConcurrentFetches(1))...)
	if err != nil {
		return fail(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	bytes := 0
	for len(left) > 0 && bytes < maxBytes && read < limit {
		waiting, stop := context.WithTimeout(ctx, idle)
		fetches := client.PollFetches(waiting)
		stop()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return fail(e.Err)
			}
		}
		if fetches.NumRecords() == 0 {
			break
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, ok := left[r.Partition]; !ok || r.Offset >= end || read >= limit {
				return // came since
			} else if r.Offset == end-1 {
				delete(left, r.Partition)
			}
			if read++; r.Value != nil {
				records = append(records, recordOf(r))
				bytes += len(r.Value) + len(r.Key)
			}
		})
	}
	return records, read, nil
}

// recordOf returns a record as the verbs look at it.
func recordOf(r *kgo.Record) offline.Record {
	out := offline.Record{Partition: r.Partition, Offset: r.Offset, Value: r.Value, Key: r.Key,
		Time: r.Timestamp.UnixMilli()}
	if len(r.Headers) > 0 {
		list := make([]framing.Header, len(r.Headers))
		for i, h := range r.Headers {
			list[i] = framing.Header{Name: h.Key, Value: h.Value}
		}
		out.Headers = framing.AppendHeaders(nil, list...)
	}
	return out
}

// begin returns from which offset of each partition to read and below which, such that there are no more than limit
// together.
func begin(ctx context.Context, options []kgo.Opt, name string,
	limit int) (from map[int32]kgo.Offset, left map[int32]int64, err error) {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if err := topics[name].Err; err != nil {
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil, nil, errors.New("there is no such topic")
		}
		return nil, nil, err
	}
	start, err := admin.ListStartOffsets(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	end, err := admin.ListCommittedOffsets(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(start.Error(), end.Error()); err != nil {
		return nil, nil, err
	}
	from, left = make(map[int32]kgo.Offset), make(map[int32]int64)
	share := int64(max(1, limit/max(1, len(end[name]))))
	for p, e := range end[name] {
		first := max(start[name][p].Offset, e.Offset-share)
		if first < e.Offset {
			from[p], left[p] = kgo.NewOffset().At(first), e.Offset
		}
	}
	return from, left, nil
}
