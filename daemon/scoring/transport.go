package scoring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/produce"
)

const (
	prepareTimeout     = 20 * time.Second // of what is asked before reading
	transactionTimeout = 30 * time.Second // after which brokers end what a process left that does not come back
	writeTimeout       = 20 * time.Second // of the answers of one read: less, so that no transaction times out
	sessionTimeout     = 10 * time.Second // after which the partitions of such a process go to another member
	fetchBytes         = 4 << 20          // of one answer of a broker
	decompressedBytes  = 16 << 20         // of one batch

	// version of TxnOffsetCommit since which a transaction holds up those who take over its partitions: Kafka 2.5
	stableOffsets = 3
)

// Footprint returns the bytes of the events and answers in hand: a fetch as it comes and as it is decoded, the one
// behind it, the largest batch decompressed, and answers as values, in batches and compressed. Events that are
// compressed to far less than a tenth can take more.
func Footprint() int64 {
	const decoded, copies = 10, 3
	return (1+decoded)*fetchBytes + decompressedBytes + copies*maxBytes
}

// The guarantees, as the status shows them.
const (
	exactlyOnce = "exactly once"
	atLeastOnce = "at least once"
)

// transport reads events and writes answers together with the offsets of what was read.
type transport interface {
	// poll waits for records, most at most.
	poll(ctx context.Context, most int) kgo.Fetches
	// rest is called instead of write if there was nothing.
	rest()
	// write writes the answers for everything that was read. It reports false if nothing was written since partitions
	// went to another member.
	write(ctx context.Context, answers []*kgo.Record) (written bool, err error)
	client() *kgo.Client
	partitions() int // of the topic of the answers
	close()
}

// open looks at the topics, joins the group and returns what reads and writes.
func (s *Scorer) open(ctx context.Context) (transport, error) {
	prepare, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	client, err := kgo.NewClient(s.connect...)
	if err != nil {
		return nil, fmt.Errorf("scoring: %w", err)
	}
	defer client.Close()
	partitions, err := s.ensure(prepare, client)
	if err != nil {
		return nil, err
	}
	if s.Settings.Score.Start == "latest" {
		if err := s.pin(prepare, kadm.NewClient(client)); err != nil {
			return nil, err
		}
	}
	exact, err := s.transactions(prepare, client)
	if err != nil {
		return nil, err
	}
	t, err := s.join(prepare, exact, partitions)
	if _, refused := errors.AsType[*refusedError](err); refused && s.Settings.Score.Transactions == config.Auto {
		s.Log.Warn("transactions are refused",
			"note", "each offset is answered at least once, after a failure perhaps twice",
			"topic", s.Settings.Score.Topic, "group", s.Group, "reason", s.explain(err))
		s.inexact, exact = true, false
		t, err = s.join(prepare, exact, partitions)
	}
	if err != nil {
		return nil, err
	}
	guarantee, value := atLeastOnce, 0.0
	if exact {
		guarantee, value = exactlyOnce, 1
	}
	if old := s.guarantee.Swap(&guarantee); old == nil || *old != guarantee {
		s.Log.Info("events are scored", "topic", s.Settings.Score.Topic, "group", s.Group, "guarantee", guarantee)
	}
	s.Metrics.exact.WithLabelValues(s.Settings.Name).Set(value)
	return t, nil
}

// ensure makes the topic of the answers if it is missing, with as many partitions as the topic of events with the
// most has, and returns how many it has.
func (s *Scorer) ensure(ctx context.Context, client *kgo.Client) (partitions int, err error) {
	admin := kadm.NewClient(client)
	input, err := admin.ListTopics(ctx, s.Settings.ScoreInput()...)
	if err == nil {
		err = input.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("scoring: topics of the events: %w", err)
	}
	for _, t := range input {
		partitions = max(partitions, len(t.Partitions))
	}
	created, err := produce.Ensure(ctx, client, s.Settings.Score.Topic, int32(partitions), nil)
	if err != nil {
		return 0, fmt.Errorf("scoring: topic %s (score.topic): %w", s.Settings.Score.Topic, err)
	}
	if created {
		s.Log.Info("topic created", "topic", s.Settings.Score.Topic, "partitions", partitions)
		return partitions, nil
	}
	output, err := admin.ListTopics(ctx, s.Settings.Score.Topic)
	if err == nil {
		err = output.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("scoring: topic %s (score.topic): %w", s.Settings.Score.Topic, err)
	}
	return len(output[s.Settings.Score.Topic].Partitions), nil
}

// pin gives the group the ends of the logs as offsets where it has none, so that what comes from now on is answered,
// whatever fails before the first answer. If it has members already, they have done that.
func (s *Scorer) pin(ctx context.Context, admin *kadm.Client) error {
	topics := s.Settings.ScoreInput()
	committed, err := s.committed(ctx, admin)
	var ends kadm.ListedOffsets
	if err == nil {
		ends, err = admin.ListEndOffsets(ctx, topics...)
	}
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("scoring: offsets to begin with: %w", err)
	}
	var begin kadm.Offsets
	fresh := true // no partition has an offset: one that comes later is answered from its first record
	ends.Each(func(o kadm.ListedOffset) {
		if c, ok := committed.Lookup(o.Topic, o.Partition); ok && c.At >= 0 {
			fresh = false
			return
		}
		begin.AddOffset(o.Topic, o.Partition, o.Offset, -1)
	})
	if !fresh || len(begin) == 0 {
		return nil
	}
	done, err := admin.CommitOffsets(ctx, s.Group, begin)
	if err == nil {
		err = done.Error()
	}
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("scoring: offsets to begin with: %w", err)
	}
	return nil
}

// committed returns the offsets of the group, -1 where it has none.
func (s *Scorer) committed(ctx context.Context, admin *kadm.Client) (kadm.OffsetResponses, error) {
	committed, err := admin.FetchOffsetsForTopics(ctx, s.Group, s.Settings.ScoreInput()...)
	if errors.Is(err, kerr.GroupIDNotFound) { // as some brokers say of a group that has no offset yet
		return nil, nil
	}
	if err == nil {
		err = committed.Error()
	}
	return committed, err
}

// transactions reports whether to use transactions: as configured, and as the brokers can.
func (s *Scorer) transactions(ctx context.Context, client *kgo.Client) (bool, error) {
	mode := s.Settings.Score.Transactions
	if mode == config.Off || s.inexact {
		return false, nil
	}
	versions, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("scoring: what the brokers can: %w", err)
	}
	able := true
	versions.Each(func(v kadm.BrokerApiVersions) {
		if v.Err != nil {
			err = v.Err
		}
		highest, ok := v.KeyMaxVersion(kmsg.TxnOffsetCommit.Int16())
		able = able && ok && highest >= stableOffsets
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("scoring: what the brokers can: %w", err)
	case able:
		return true, nil
	case mode == config.Required:
		return false, errors.New(
			"the brokers have no transactions that hold up a rebalance, which came with Kafka 2.5: " +
				"upgrade them, or set score.transactions: auto",
		)
	}
	s.inexact = true
	s.Log.Warn(
		"brokers have no transactions of Kafka 2.5",
		"note", "each offset is answered at least once, after a failure perhaps twice",
		"topic",
		s.Settings.Score.Topic,
		"group",
		s.Group,
	)
	return false, nil
}

// refusedError means that the brokers do not let us use transactions.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// join makes a member of the group.
func (s *Scorer) join(ctx context.Context, exact bool, partitions int) (transport, error) {
	options := append(
		[]kgo.Opt{
			kgo.ConsumerGroup(s.Group),
			kgo.ConsumeTopics(s.Settings.ScoreInput()...),
			kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.KeepControlRecords(),
			kgo.DisableAutoCommit(),
			kgo.SessionTimeout(sessionTimeout),
			kgo.HeartbeatInterval(sessionTimeout / 5),
			kgo.FetchMaxWait(s.Kafka.FetchMaxWait.Std()),
			kgo.FetchMaxBytes(fetchBytes),
			kgo.FetchMaxPartitionBytes(int32(s.Kafka.MaxPartitionFetchBytes)),
			kgo.MaxConcurrentFetches(1),
			kgo.MaxDecompressBatchBytes(decompressedBytes),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.RecordDeliveryTimeout(writeTimeout),
			kgo.ProducerLinger(0),
			kgo.MetadataMinAge(time.Second),
			kgo.ProducerBatchCompression(kgo.GzipCompression()),
			kgo.InstanceID(s.Member),
		},
		s.connect...)
	if !exact {
		client, err := kgo.NewClient(append(options, kgo.BlockRebalanceOnPoll())...)
		if err != nil {
			return nil, fmt.Errorf("scoring: %w", err)
		}
		return &repeating{client, partitions}, nil
	}
	session, err := kgo.NewGroupTransactSession(
		append(options, kgo.TransactionalID(s.Group+"-"+s.Member), kgo.TransactionTimeout(transactionTimeout))...)
	if err != nil {
		return nil, fmt.Errorf("scoring: %w", err)
	}
	// Before anything is read: it ends a transaction that an earlier process of this name left open, for which those
	// who take over its offsets wait.
	if _, _, err := session.Client().ProducerID(ctx); err != nil {
		session.Close()
		err = fmt.Errorf("scoring: transactions: %w", err)
		if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) ||
			errors.Is(err, kerr.UnsupportedVersion) {
			return nil, &refusedError{err}
		}
		return nil, err
	}
	return &transactional{session, partitions}, nil
}

// transactional writes answers and offsets in one transaction.
type transactional struct {
	session *kgo.GroupTransactSession
	outputs int
}

func (t *transactional) client() *kgo.Client { return t.session.Client() }
func (t *transactional) partitions() int     { return t.outputs }
func (t *transactional) close()              { t.session.Close() }
func (t *transactional) rest()               {}

func (t *transactional) poll(ctx context.Context, most int) kgo.Fetches {
	return t.session.PollRecords(ctx, most)
}

func (t *transactional) write(ctx context.Context, answers []*kgo.Record) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := t.session.Begin(); err != nil {
		return false, fmt.Errorf("scoring: begin a transaction: %w", err)
	}
	promise := kgo.AbortingFirstErrPromise(t.client())
	for _, r := range answers {
		t.session.Produce(ctx, r, promise.Promise())
	}
	err := promise.Err()
	committed, ended := t.session.End(ctx, kgo.TransactionEndTry(err == nil))
	if err := errors.Join(err, ended); err != nil {
		return false, fmt.Errorf("scoring: answers: %w", err)
	}
	return committed, nil
}

// repeating writes answers, and the offsets once the brokers have them: what fails in between is answered again.
type repeating struct {
	kafka   *kgo.Client
	outputs int
}

func (t *repeating) client() *kgo.Client { return t.kafka }
func (t *repeating) partitions() int     { return t.outputs }
func (t *repeating) close()              { t.kafka.CloseAllowingRebalance() }
func (t *repeating) rest()               { t.kafka.AllowRebalance() }

func (t *repeating) poll(ctx context.Context, most int) kgo.Fetches {
	return t.kafka.PollRecords(ctx, most)
}

func (t *repeating) write(ctx context.Context, answers []*kgo.Record) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	defer t.kafka.AllowRebalance()
	if err := t.kafka.ProduceSync(ctx, answers...).FirstErr(); err != nil {
		return false, fmt.Errorf("scoring: answers: %w", err)
	}
	if err := t.kafka.CommitUncommittedOffsets(ctx); err != nil {
		return false, fmt.Errorf("scoring: offsets of the group: %w", err)
	}
	return true, nil
}
