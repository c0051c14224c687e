package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/backoff"
)

const (
	// requestTimeout is how long no answer may come while records wait for one, as Kafka's request.timeout.ms.
	requestTimeout = 30 * time.Second
	watchEvery     = time.Second
	retryPause     = 100 * time.Millisecond
	// queueRecords is how many records wait for their acknowledgement at most.
	queueRecords = 16384
)

// producer keeps the order of each partition. A batch whose answer is lost is sent again under the same sequence
// number, so that the broker takes it once.
type producer struct {
	ctx          context.Context // done after the first error
	fail         context.CancelCauseFunc
	sending      context.Context // of what is under way
	drop         context.CancelFunc
	closed       chan struct{}
	watching     sync.WaitGroup
	client       *kgo.Client
	topic        string
	waiting      chan struct{} // one for each record that waits
	keyless      int           // records without a key so far
	answered     atomic.Int64
	acknowledged int64 // this and offsets belong to done until close
	offsets      []report.ReplayPartition
	progress     *progress.Meter
}

// newClient returns a client that is to be closed.
func newClient(brokers []string, topic string) (*kgo.Client, error) {
	return produce.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ClientID("refitd-replay"),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(0), // a lone record does not wait
		kgo.MaxBufferedRecords(2*queueRecords),
		kgo.AllowIdempotentProduceCancellation(), // else what may have arrived waits for ever
		kgo.RetryTimeout(requestTimeout),
		kgo.MetadataMinAge(retryPause),
	)
}

// partitioner is that of the Java client for records with a key. The others go to the partitions in turn.
type partitioner struct{ keyed kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return &topicPartitioner{TopicPartitioner: p.keyed.ForTopic(topic)}
}

type topicPartitioner struct {
	kgo.TopicPartitioner
	keyless int
}

func (p *topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (p *topicPartitioner) Partition(r *kgo.Record, partitions int) int {
	if r.Key != nil {
		return p.TopicPartitioner.Partition(r, partitions)
	}
	p.keyless++
	return (p.keyless - 1) % partitions
}

func newProducer(ctx context.Context, client *kgo.Client, topic string, partitions int) *producer {
	p := &producer{
		client: client, topic: topic, waiting: make(chan struct{}, queueRecords), closed: make(chan struct{}),
	}
	p.ctx, p.fail = context.WithCancelCause(ctx)
	// What is under way when the caller cancels is finished: its records would otherwise be neither sent nor not sent.
	p.sending, p.drop = context.WithCancel(context.WithoutCancel(ctx))
	p.offsets = make([]report.ReplayPartition, partitions)
	for i := range p.offsets {
		p.offsets[i].Partition = int32(i)
	}
	p.watching.Go(p.watch)
	return p
}

// watch drops what is under way after an error, and once no answer has come for requestTimeout. The client has such a
// limit for the age of records, but counts it from their time stamps, which may be those of the events.
func (p *producer) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	defer p.drop()
	last, quiet := int64(0), time.Duration(0)
	for p.failed() == nil {
		select {
		case <-p.closed:
			return
		case <-tick.C:
		}
		if answered := p.answered.Load(); answered != last || len(p.waiting) == 0 {
			last, quiet = answered, 0
		} else if quiet += watchEvery; quiet >= requestTimeout {
			p.fail(fmt.Errorf("topic %s: no answer for %v", p.topic, requestTimeout))
		}
	}
}

// send queues a record for the partition of its key. It blocks while the queue is full and ctx is not done.
func (p *producer) send(ctx context.Context, r *kgo.Record) error {
	select {
	case p.waiting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.Key == nil {
		p.keyless++
	}
	p.client.Produce(p.sending, r, p.done)
	return nil
}

// done takes up the answer for a record. The client calls it for one after the other.
func (p *producer) done(r *kgo.Record, err error) {
	<-p.waiting
	p.answered.Add(1)
	if err != nil {
		p.fail(fmt.Errorf("topic %s partition %d: %w", p.topic, r.Partition, err))
		return
	}
	for int(r.Partition) >= len(p.offsets) { // of a topic that has got partitions since
		p.offsets = append(p.offsets, report.ReplayPartition{Partition: int32(len(p.offsets))})
	}
	at := &p.offsets[r.Partition]
	if at.First == nil {
		at.First, at.Last = &r.Offset, new(int64)
	}
	*at.Last = r.Offset
	p.acknowledged++
	p.progress.Add(1)
}

// close sends what is queued, or drops it after an error, and returns the first error. No send may follow.
func (p *producer) close() error {
	err := p.client.Flush(context.WithoutCancel(p.ctx)) // which ends, as watch may drop what is left
	close(p.closed)
	p.watching.Wait()
	return errors.Join(p.failed(), err)
}

// failed returns the first error of a record.
func (p *producer) failed() error {
	if err := context.Cause(p.ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// prepareTopic creates the topic unless it exists and returns its number of partitions.
func prepareTopic(ctx context.Context, client *kgo.Client, topic string, partitions int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := produce.Ensure(ctx, client, topic, int32(partitions), nil); err != nil {
		return 0, fmt.Errorf("topic %s: %w", topic, err)
	}
	for {
		found, err := kadm.NewClient(client).ListTopics(ctx, topic)
		if err != nil {
			return 0, err
		}
		if err = found.Error(); err == nil && len(found[topic].Partitions) > 0 {
			return len(found[topic].Partitions), nil
		}
		if err != nil && !kerr.IsRetriable(err) {
			return 0, fmt.Errorf("topic %s: %w", topic, err)
		}
		if err := backoff.Sleep(ctx, retryPause); err != nil {
			return 0, fmt.Errorf("topic %s was created but has no leader yet: %w", topic, err)
		}
	}
}
