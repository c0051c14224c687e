package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/sasl"
)

// source is the broker side: one Transport, with its connections in reach so that they can be dropped.
type source struct {
	opts      *Options
	addr      net.Addr
	transport *kafka.Transport
	client    *kafka.Client

	// authenticating counts connections inside SASL: a broker may end those that it refuses without a word.
	authenticating atomic.Int32

	mu    sync.Mutex
	conns map[*trackedConn]struct{}
}

// countedSASL counts the exchanges that have begun and not succeeded.
type countedSASL struct {
	sasl.Mechanism
	open *atomic.Int32
}

type countedExchange struct {
	sasl.StateMachine
	open *atomic.Int32
}

func (m countedSASL) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	exchange, first, err := m.Mechanism.Start(ctx)
	m.open.Add(1)
	return countedExchange{exchange, m.open}, first, err
}

func (e countedExchange) Next(ctx context.Context, challenge []byte) (done bool, response []byte, err error) {
	if done, response, err = e.StateMachine.Next(ctx, challenge); done && err == nil {
		e.open.Add(-1)
	}
	return done, response, err
}

type trackedConn struct {
	net.Conn
	src *source
}

func (c *trackedConn) Close() error {
	c.src.mu.Lock()
	delete(c.src.conns, c)
	c.src.mu.Unlock()
	return c.Conn.Close()
}

func newSource(opts *Options) (*source, error) {
	mechanism, err := opts.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	s := &source{opts: opts, addr: kafka.TCP(opts.Brokers...), conns: make(map[*trackedConn]struct{})}
	dialer := net.Dialer{Timeout: 3 * time.Second}
	if mechanism != nil {
		mechanism = countedSASL{mechanism, &s.authenticating}
	}
	s.transport = &kafka.Transport{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c := &trackedConn{conn, s}
			s.mu.Lock()
			s.conns[c] = struct{}{}
			s.mu.Unlock()
			return c, nil
		},
		MetadataTopics: opts.Topics,
		ClientID:       opts.ClientID,
		TLS:            opts.TLS,
		SASL:           mechanism,
	}
	s.client = &kafka.Client{Addr: s.addr, Transport: s.transport, Timeout: opts.RequestTimeout}
	return s, nil
}

// forget makes the transport look for leaders and connect anew. Requests on their way are not disturbed.
func (s *source) forget() { s.transport.CloseIdleConnections() }

// drop closes every connection, so that requests on their way fail.
func (s *source) drop() {
	s.forget()
	s.mu.Lock()
	conns := s.conns
	s.conns = make(map[*trackedConn]struct{})
	s.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close() // nothing is left to write
	}
}

// topics returns the topics of the options. The transport answers from a copy that is at most a few seconds old.
func (s *source) topics(ctx context.Context) ([]kafka.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	m, err := s.client.Metadata(ctx, &kafka.MetadataRequest{Topics: s.opts.Topics})
	if err != nil {
		return nil, s.name(err)
	}
	return m.Topics, nil
}

// offsets returns the first (when is kafka.FirstOffset) or last offset of each partition, or an error for one that has none to tell.
func (s *source) offsets(ctx context.Context, parts []TopicPartition, when int64, level kafka.IsolationLevel) (map[TopicPartition]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	req := &kafka.ListOffsetsRequest{IsolationLevel: level, Topics: make(map[string][]kafka.OffsetRequest)}
	for _, p := range parts {
		req.Topics[p.Topic] = append(req.Topics[p.Topic], kafka.OffsetRequest{Partition: int(p.Partition), Timestamp: when})
	}
	res, err := s.client.ListOffsets(ctx, req)
	if err != nil {
		return nil, err
	}
	out := make(map[TopicPartition]int64, len(parts))
	for topic, list := range res.Topics {
		for _, p := range list {
			tp := TopicPartition{topic, int32(p.Partition)}
			if p.Error != nil {
				return nil, fmt.Errorf("offsets of %s: %w", tp, p.Error)
			}
			out[tp] = p.LastOffset
			if when == kafka.FirstOffset {
				out[tp] = p.FirstOffset
			}
		}
	}
	for _, p := range parts {
		if offset, ok := out[p]; !ok || offset < 0 {
			return nil, fmt.Errorf("offsets of %s: the broker does not say", p)
		}
	}
	return out, nil
}

// fetch sends one Fetch request. All its partitions must have the same leader.
func (s *source) fetch(ctx context.Context, topics []fetch.RequestTopic) (*fetchResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.MaxWait+s.opts.RequestTimeout)
	defer cancel()
	m, err := s.transport.RoundTrip(ctx, s.addr, &fetch.Request{
		ReplicaID:      -1,
		MaxWaitTime:    int32(s.opts.MaxWait.Milliseconds()),
		MinBytes:       1,
		MaxBytes:       maxResponseBytes,
		IsolationLevel: int8(s.opts.Isolation.level()),
		SessionEpoch:   -1, // no session: every request names its partitions
		Topics:         topics,
	})
	if err != nil {
		return nil, s.name(err)
	}
	return m.(*fetchResponse), nil
}

// name calls an end of a connection inside SASL what it is.
func (s *source) name(err error) error {
	if open := s.authenticating.Swap(0); open > 0 && strings.Contains(err.Error(), "EOF") {
		return fmt.Errorf("%w: %w", kafka.SASLAuthenticationFailed, err)
	}
	return err
}

// commit shows offsets to lag tools, from outside of any generation of the group.
func (s *source) commit(ctx context.Context, offsets map[TopicPartition]int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	req := &kafka.OffsetCommitRequest{GroupID: s.opts.GroupID, GenerationID: -1, Topics: make(map[string][]kafka.OffsetCommit)}
	for tp, offset := range offsets {
		req.Topics[tp.Topic] = append(req.Topics[tp.Topic], kafka.OffsetCommit{Partition: int(tp.Partition), Offset: offset})
	}
	res, err := s.client.OffsetCommit(ctx, req)
	if err != nil {
		return err
	}
	var errs []error
	for topic, list := range res.Topics {
		for _, p := range list {
			if p.Error != nil {
				errs = append(errs, fmt.Errorf("%s/%d: %w", topic, p.Partition, p.Error))
			}
		}
	}
	return errors.Join(errs...)
}

// explain turns an error of the broker or the network into what an operator can act on.
func (s *source) explain(err error) string {
	var op *net.OpError
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "kafka.(*Client).Metadata: "), "kafka.(*Client).ListOffsets: ")
	switch {
	case refused(err):
		return fmt.Sprintf("SASL authentication failed for user %q with %s: the broker refused user name or password (%s)",
			s.opts.SASL.Username, s.opts.SASL.Mechanism, text)
	case errors.Is(err, kafka.UnsupportedSASLMechanism):
		return fmt.Sprintf("the broker does not offer the SASL mechanism %s (%s)", s.opts.SASL.Mechanism, text)
	case errors.Is(err, kafka.TopicAuthorizationFailed):
		return "not allowed to read: user needs the ACL operations Read and Describe on the topic (" + text + ")"
	case errors.Is(err, kafka.GroupAuthorizationFailed):
		return "not allowed to commit: user needs the ACL operation Read on the group (" + text + ")"
	case strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ") || strings.Contains(text, "TLS"):
		return fmt.Sprintf("TLS with %s failed: %s", strings.Join(s.opts.Brokers, ", "), text)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Sprintf("cannot reach a broker at %s: %s", strings.Join(s.opts.Brokers, ", "), text)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("cannot reach a broker at %s: no answer in %v", strings.Join(s.opts.Brokers, ", "), s.opts.RequestTimeout)
	case strings.Contains(text, "EOF"):
		return fmt.Sprintf("the broker closed the connection (%s); does it expect TLS or SASL?", text)
	}
	return text
}

// refused reports whether the credentials are wrong; trying fast again could lock the account.
func refused(err error) bool {
	var broker kafka.Error
	return errors.As(err, &broker) && broker == kafka.SASLAuthenticationFailed || strings.Contains(err.Error(), "SASL Authentication Failed")
}
