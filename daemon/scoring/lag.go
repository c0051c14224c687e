package scoring

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/snapshot/backoff"
)

// look counts the offsets that the brokers do not hold any more: the log of a partition starts behind what was to be
// read next, which is in next or, at first, in committed.
func (s *Scorer) look(fetches kgo.Fetches, next map[string]map[int32]int64,
	committed map[string]map[int32]kgo.EpochOffset) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if next[p.Topic] == nil {
			next[p.Topic] = make(map[int32]int64)
		}
		expected, known := next[p.Topic][p.Partition]
		if c, ok := committed[p.Topic][p.Partition]; ok && c.Offset > expected { // another member has had it since
			expected, known = c.Offset, true
		}
		if known && p.LogStartOffset > expected {
			s.Metrics.lost.WithLabelValues(s.Settings.Name).Add(float64(p.LogStartOffset - expected))
			s.Log.Error("offsets are gone before they were scored", "note", "the log starts behind them", "topic", p.Topic,
				"partition", p.Partition, "offset", expected, "log_start", p.LogStartOffset)
			next[p.Topic][p.Partition] = p.LogStartOffset
		}
		if n := len(p.Records); n > 0 {
			next[p.Topic][p.Partition] = p.Records[n-1].Offset + 1
		}
	})
}

// failedFetch returns the first error of reading that the client does not mend at once.
func (s *Scorer) failedFetch(fetches kgo.Fetches) (first error) {
	fetches.EachError(func(topic string, partition int32, err error) {
		loss, lost := errors.AsType[*kgo.ErrDataLoss](err)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // of our own wait
		case lost:
			s.Log.Error(
				"brokers lost records that were read",
				"note", "reading continues where their logs agree, and some offsets may be answered again",
				"topic",
				topic,
				"partition",
				partition,
				"error",
				loss,
			)
		case first == nil && topic == "":
			first = fmt.Errorf("scoring: read: %w", err)
		case first == nil:
			first = fmt.Errorf("scoring: read topic %s partition %d: %w", topic, partition, err)
		}
	})
	return first
}

// watchLag keeps the lag of the group until ctx is done: the one figure that also shows that nothing is read at all.
func (s *Scorer) watchLag(ctx context.Context, client *kgo.Client) {
	admin := kadm.NewClient(client)
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, prepareTimeout)
		lag, err := s.groupLag(asked, admin)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			text := s.explain(fmt.Errorf("scoring: lag of the group: %w", err))
			if old := s.unseen.Swap(&text); old == nil || *old != text {
				s.Log.Warn("lag of the scores is not known", "group", s.Group, "reason", text)
			}
		default:
			s.unseen.Store(nil)
			s.lag.Store(lag)
			s.Metrics.lag.WithLabelValues(s.Settings.Name).Set(float64(lag))
		}
		_ = backoff.Sleep(ctx, lagEvery) // the end is looked for above
	}
}

// groupLag returns the offsets that no member of the group has answered yet.
func (s *Scorer) groupLag(ctx context.Context, admin *kadm.Client) (lag int64, err error) {
	topics := s.Settings.ScoreInput()
	committed, err := s.committed(ctx, admin)
	if err != nil {
		return 0, err
	}
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return 0, err
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	ends.Each(func(end kadm.ListedOffset) {
		from := int64(0)
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			from = start.Offset
		}
		if c, ok := committed.Lookup(end.Topic, end.Partition); ok {
			from = max(from, c.At)
		}
		lag += max(0, end.Offset-from)
	})
	return lag, err
}

// explain turns an error of the brokers into what an operator can act on.
func (s *Scorer) explain(err error) string {
	topic, input := s.Settings.Score.Topic, s.Settings.ScoreInput()
	switch {
	case errors.Is(err, produce.ErrNotCreated):
		return fmt.Sprintf(
			"the cluster has no topic %s: create it, allow that (ACL operation Create), or set another score.topic (%v)",
			topic,
			err,
		)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Sprintf("a topic is missing: %v (score.topic %s, score.input %q)", err, topic, input)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Sprintf(
			"not allowed: the user needs the ACL operation Read on topics %q, and Write and Describe on topic %s (%v)",
			input, topic, err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Sprintf("not allowed: the user needs the ACL operation Read on group %s (score.group)", s.Group)
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return fmt.Sprintf(
			"not allowed: transactions need the ACL operations Write and Describe on transactional ids that begin with %s-",
			s.Group,
		)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return "not allowed to write: brokers before 2.8 want the ACL operation IdempotentWrite on the cluster"
	case errors.Is(err, kerr.ProducerFenced),
		errors.Is(err, kerr.InvalidProducerEpoch),
		errors.Is(err, kerr.FencedInstanceID):
		return "another process runs with a copy of this state and has taken over: stop one of them, or remove the file " +
			"score-member of one and start it again"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "the broker refused user name or password"
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Sprintf("topic %s takes only records smaller than an answer: raise its max.message.bytes to 1 MiB",
			topic)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout):
		return fmt.Sprintf("the brokers do not answer in time: %v", err)
	}
	return err.Error()
}
