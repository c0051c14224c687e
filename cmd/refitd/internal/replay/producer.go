package replay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	requestTimeout = 30 * time.Second // of one request, as Kafka's request.timeout.ms
	retryPause     = 100 * time.Millisecond
	queueRecords   = 4096   // records waiting for one partition
	batchRecords   = 2000   // records in one request
	batchBytes     = 900000 // keys and values in one request, below the brokers' usual limit of 1 MiB
)

// producer has one goroutine and at most one request under way for each partition, which keeps the order. Each request
// takes what is waiting, so that batches grow with the load and a lone record does not wait. kafka-go's Writer would
// send a batch again after an error that leaves open whether the broker took it; this one does not.
type producer struct {
	ctx          context.Context // done after the first error
	group        *errgroup.Group
	client       *kafka.Client
	topic        string
	ids          []int
	lanes        []*lane
	balancer     kafka.Murmur2Balancer
	keyless      int // records without a key so far: they go round
	acknowledged atomic.Int64
	progress     *progress.Meter
}

// lane is one partition.
type lane struct {
	partition   int
	queue       chan kafka.Message // closed by close
	first, last int64              // -1 until something was acknowledged
}

// newProducer starts the goroutines; close waits for them.
func newProducer(ctx context.Context, client *kafka.Client, topic string, partitions int) *producer {
	p := &producer{client: client, topic: topic}
	p.group, p.ctx = errgroup.WithContext(ctx)
	// What is under way when the caller cancels is finished: its records would otherwise be neither sent nor not sent.
	finish := context.WithoutCancel(ctx)
	for i := range partitions {
		l := &lane{partition: i, queue: make(chan kafka.Message, queueRecords), first: -1, last: -1}
		p.ids, p.lanes = append(p.ids, i), append(p.lanes, l)
		p.group.Go(func() error { return p.drain(finish, l) })
	}
	return p
}

// send queues a record for the partition of its key. It blocks while the queue is full and ctx is not done.
func (p *producer) send(ctx context.Context, m kafka.Message) error {
	partition := p.keyless % len(p.ids)
	if m.Key != nil {
		partition = p.balancer.Balance(m, p.ids...)
	} else {
		p.keyless++
	}
	select {
	case p.lanes[partition].queue <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close sends what is queued and returns the first error. No send may follow.
func (p *producer) close() error {
	for _, l := range p.lanes {
		close(l.queue)
	}
	return p.group.Wait()
}

// drain sends the queue of one partition until it is closed and empty.
func (p *producer) drain(ctx context.Context, l *lane) error {
	var batch []kafka.Message
	for m := range l.queue {
		batch = batch[:0]
		bytes := 0
		for more := true; more; {
			if m.Time.IsZero() {
				m.Time = time.Now()
			}
			batch = append(batch, m)
			bytes += len(m.Key) + len(m.Value)
			if len(batch) >= batchRecords || bytes >= batchBytes {
				break
			}
			select {
			case m, more = <-l.queue:
			default:
				more = false
			}
		}
		base, err := p.produce(ctx, l.partition, batch)
		if err != nil {
			return fmt.Errorf("topic %s partition %d: %w", p.topic, l.partition, err)
		}
		if l.first < 0 {
			l.first = base
		}
		l.last = base + int64(len(batch)) - 1
		p.acknowledged.Add(int64(len(batch)))
		p.progress.Add(int64(len(batch)))
	}
	return nil
}

// produce sends one batch with acks=all and returns the offset of its first record. It tries again, for as long as a
// request may take, while the broker answers that it is not, or not yet, the partition's leader.
func (p *producer) produce(ctx context.Context, partition int, batch []kafka.Message) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	records := make([]kafka.Record, len(batch))
	for {
		for i, m := range batch { // again for each attempt: a request reads its keys and values to their end
			records[i] = kafka.Record{Time: m.Time, Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(m.Value)}
		}
		response, err := p.client.Produce(ctx, &kafka.ProduceRequest{Topic: p.topic, Partition: partition,
			RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
		if err == nil {
			err = response.Error
		}
		if err == nil {
			return response.BaseOffset, nil
		}
		if !isNotTaken(err) {
			return 0, err
		}
		if pauseErr := backoff.Sleep(ctx, retryPause); pauseErr != nil {
			return 0, err
		}
	}
}

// isNotTaken reports whether the error says that the broker certainly did not append the batch and another attempt may
// succeed.
func isNotTaken(err error) bool {
	for _, e := range []kafka.Error{kafka.NotLeaderForPartition, kafka.LeaderNotAvailable, kafka.UnknownTopicOrPartition,
		kafka.NotEnoughReplicas} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// offsets returns what was written to each partition. Call it after close.
func (p *producer) offsets() []report.ReplayPartition {
	out := make([]report.ReplayPartition, len(p.lanes))
	for i, l := range p.lanes {
		out[i].Partition = int32(l.partition)
		if l.first >= 0 {
			out[i].First, out[i].Last = &l.first, &l.last
		}
	}
	return out
}

// prepareTopic creates the topic unless it exists and returns its number of partitions.
func prepareTopic(ctx context.Context, client *kafka.Client, topic string, partitions int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	created := false
	for {
		meta, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
		if err != nil {
			return 0, err
		}
		if len(meta.Topics) != 1 {
			return 0, fmt.Errorf("the broker described %d topics instead of %s", len(meta.Topics), topic)
		}
		err = meta.Topics[0].Error
		if n := len(meta.Topics[0].Partitions); err == nil && n > 0 {
			return n, nil
		}
		if err != nil && !isNotTaken(err) {
			return 0, fmt.Errorf("topic %s: %w", topic, err)
		}
		if !created {
			if err := createTopic(ctx, client, topic, partitions); err != nil {
				return 0, err
			}
			created = true
			continue
		}
		if err := backoff.Sleep(ctx, retryPause); err != nil {
			return 0, fmt.Errorf("topic %s was created but has no leader yet: %w", topic, err)
		}
	}
}

func createTopic(ctx context.Context, client *kafka.Client, topic string, partitions int) error {
	response, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{
			{Topic: topic, NumPartitions: partitions, ReplicationFactor: -1},
		}}) // -1: the broker's default
	if err == nil {
		err = response.Errors[topic]
	}
	if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}
