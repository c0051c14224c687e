// Package deadletter sends the rejected records of a model to a separate topic, at least once each: they wait in the
// outbox of the store, which got them in the transaction that counted them, and leave it when the brokers have
// acknowledged them.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/cluster"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/produce"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/backoff"
	"github.com/refitd/refitd/snapshot/failpoint"
)

const (
	batchSize   = 1000             // in one attempt: about 3 MiB at most, or 8 with many short headers
	sendTimeout = 10 * time.Second // of one attempt; what was not acknowledged by then is sent again
	attempts    = 3                // of franz-go, before it returns the reason
	minBackoff  = 200 * time.Millisecond
	maxBackoff  = 30 * time.Second
	lastTimeout = 5 * time.Second // of the last attempts when the daemon stops; what is left waits for its next start
)

// Options of a sender. All are required.
type Options struct {
	Store   *sketch.Store
	Model   string // for headers and metrics
	Topic   string // created if it is missing; until that is allowed dead letters wait
	Kafka   *config.Kafka
	Metrics *Metrics
	Log     *slog.Logger
}

// Sender empties the outbox of one model. Run it once.
type Sender struct {
	Options
	connect []kgo.Opt
	timeout time.Duration // sendTimeout, but for tests
	grace   time.Duration // lastTimeout, but for tests
	wake    chan struct{}
	trouble atomic.Pointer[string] // why the last attempt failed, nil if it did not
}

// New returns a sender; it connects when there is something to send. The error is one of the configuration, with its
// exit code.
func New(o Options) (*Sender, error) {
	connect, err := cluster.ClientOptions(o.Kafka)
	if err != nil {
		return nil, err
	}
	connect = append(connect, kgo.DefaultProduceTopic(o.Topic), kgo.RecordDeliveryTimeout(sendTimeout),
		kgo.RecordRetries(attempts), kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(time.Second), kgo.ProducerLinger(0))
	s := &Sender{Options: o, connect: connect, timeout: sendTimeout, grace: lastTimeout, wake: make(chan struct{}, 1)}
	o.Metrics.sent.WithLabelValues(o.Model)
	o.Metrics.failures.WithLabelValues(o.Model)
	s.Wake()
	return s, nil
}

// Wake lets the sender look at the outbox. It does not block.
func (s *Sender) Wake() {
	s.Metrics.pending.WithLabelValues(s.Model).Set(float64(s.Store.OutboxLen()))
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Trouble says why the last attempt to send failed, or "".
func (s *Sender) Trouble() string {
	if t := s.trouble.Load(); t != nil {
		return *t
	}
	return ""
}

// Run sends until ctx is done and then, for a few seconds at most, what is left. Brokers that do not take dead letters
// are tried again, less and less often; the only errors are those of the store, which has to be opened again.
func (s *Sender) Run(ctx context.Context) error {
	working, stop := context.WithCancel(
		context.WithoutCancel(ctx),
	) // an attempt under way ends with an answer, if one comes soon
	defer stop()
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(s.grace, stop)
		context.AfterFunc(working, func() { late.Stop() })
	})()
	p := producer{Options: &s.Options, connect: s.connect, timeout: s.timeout}
	defer p.close()
	for tries := 0; ; {
		err := s.empty(working, &p)
		if storage, ok := errors.AsType[*storageError](err); ok {
			return storage.err
		}
		var retry <-chan time.Time
		wake := s.wake
		if err == nil {
			tries = 0
			s.clear()
		} else {
			tries++
			pause := backoff.Wait(tries, minBackoff, maxBackoff)
			s.fail(err, pause)
			retry, wake = time.After(pause), nil // new dead letters do not shorten the wait
		}
		select {
		case <-wake:
			continue
		case <-retry:
			continue
		case <-ctx.Done():
		}
		if err == nil {
			err = s.empty(working, &p)
		}
		if storage, ok := errors.AsType[*storageError](err); ok {
			return storage.err
		}
		if err != nil {
			s.Log.Warn("dead letters wait for the next start", "topic", s.Topic, "pending", s.Store.OutboxLen(),
				"reason", explain(s.Topic, err))
		}
		return nil
	}
}

// A storageError is an error of the store, which ends the sender.
type storageError struct{ err error }

func (e *storageError) Error() string { return e.err.Error() }

// empty sends until the outbox is empty or an attempt fails.
func (s *Sender) empty(ctx context.Context, p *producer) error {
	for {
		letters, err := s.Store.DeadLetters(batchSize)
		if err != nil {
			return &storageError{err}
		}
		if len(letters) == 0 {
			return nil
		}
		if err := failpoint.At(failpoint.DeadLettersSend); err != nil {
			return err
		}
		acknowledged, err := p.send(ctx, letters)
		if len(acknowledged) > 0 {
			if err := failpoint.At(failpoint.DeadLettersSent); err != nil {
				return err
			}
			if err := s.Store.Forget(acknowledged); err != nil {
				return &storageError{err}
			}
			s.Metrics.sent.WithLabelValues(s.Model).Add(float64(len(acknowledged)))
			s.Metrics.pending.WithLabelValues(s.Model).Set(float64(s.Store.OutboxLen()))
		}
		if err != nil {
			return err
		}
	}
}

// fail counts a failed attempt. It is logged when the reason is a new one: attempts continue for as long as the
// trouble lasts.
func (s *Sender) fail(err error, pause time.Duration) {
	s.Metrics.failures.WithLabelValues(s.Model).Inc()
	text := explain(s.Topic, err)
	if old := s.trouble.Swap(&text); old == nil || *old != text {
		s.Log.Warn("dead letters cannot be sent", "topic", s.Topic, "pending", s.Store.OutboxLen(), "reason", text,
			"next_try", pause)
	}
}

func (s *Sender) clear() {
	if s.trouble.Swap(nil) != nil {
		s.Log.Info("dead letters are sent again", "topic", s.Topic)
	}
}

// explain turns an error of the brokers into what an operator can act on.
func explain(topic string, err error) string {
	switch {
	case errors.Is(err, produce.ErrNotCreated):
		return fmt.Sprintf(
			"the cluster has no topic %s: create it, allow that (ACL operation Create), or set another "+
				"input.dead_letter.topic (%v)",
			topic,
			err,
		)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Sprintf("the cluster has no topic %s any more: it is created at the next attempt", topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Sprintf("not allowed to write: the user needs the ACL operations Write and Describe on topic %s",
			topic)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return "not allowed to write: brokers before 2.8 want the ACL operation IdempotentWrite on the cluster"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "the broker refused user name or password"
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Sprintf("topic %s takes only records smaller than 8 KiB: raise its max.message.bytes", topic)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout):
		return fmt.Sprintf(
			"topic %s does not acknowledge: its leader, or too many of its replicas, are down or cannot write", topic)
	}
	return err.Error()
}
