package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"github.com/refitd/refitd/consumer/internal/frames"
	"github.com/refitd/refitd/consumer/internal/session"
)

// How old what is known of topics and brokers may be. After an error both are asked for anew.
const (
	metadataAge      = 10 * time.Second
	groupMetadataAge = 30 * time.Second // which a group needs for the addresses of brokers alone
)

// source is the broker side, with its connections in reach so that they can be dropped.
type source struct {
	opts      *Options
	addr      net.Addr
	transport *kafka.Transport
	client    *kafka.Client
	// Those of the group are apart: a broker with a quota takes nothing for a while from a connection on which it
	// answered a fetch.
	groups *kafka.Transport
	group  *kafka.Client
	// Those that confirm what other answers say. They have no connection before there is something to confirm.
	second  *kafka.Transport
	witness *kafka.Client

	dialer *session.Dialer
	// refusedPause is the least time between two tries with credentials that were refused, so that no account is
	// locked, and between two requests that we are not allowed to make.
	refusedPause time.Duration

	mu      sync.Mutex
	refusal error     // of the last try to authenticate, nil if it went well
	tried   bool      // a connection was made since
	retry   time.Time // no connection is made before, if refusal is set
}

func newSource(opts *Options, m *metrics) (*source, error) {
	own, err := opts.SASL.SASL()
	if err != nil {
		return nil, err
	}
	s := &source{
		opts:         opts,
		addr:         kafka.TCP(opts.Brokers...),
		refusedPause: 10 * time.Second,
	}
	s.dialer = &session.Dialer{Mechanism: own, TLS: watchExpiry(opts.TLS, m), Connect: opts.Dial, ClientID: opts.ClientID,
		Timeout: opts.RequestTimeout, Accepted: s.accepted, SignedIn: func(error) {}}
	if s.dialer.Connect == nil {
		s.dialer.Connect = (&net.Dialer{Timeout: 3 * time.Second}).DialContext
	}
	client := func(brokersAge time.Duration) (*kafka.Transport, *kafka.Client) {
		t := &kafka.Transport{
			Dial:           s.dial,
			MetadataTTL:    brokersAge,
			MetadataTopics: opts.Topics,
			ClientID:       opts.ClientID,
		}
		return t, &kafka.Client{Addr: s.addr, Transport: t, Timeout: opts.RequestTimeout}
	}
	s.transport, s.client = client(metadataAge)
	s.groups, s.group = client(groupMetadataAge)
	s.second, s.witness = client(metadataAge)
	return s, nil
}

// forget makes the transport look for leaders and connect anew. Requests on their way are not disturbed.
func (s *source) forget() {
	s.transport.CloseIdleConnections()
	s.groups.CloseIdleConnections()
	s.second.CloseIdleConnections()
}

// drop closes every connection, so that requests on their way fail.
func (s *source) drop() {
	s.forget()
	s.dialer.Drop()
}

// dial connects to a broker and signs in, unless it is too early for that.
func (s *source) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := s.mayDial(); err != nil {
		return nil, err
	}
	return s.dialer.Dial(ctx, network, address)
}

// topics returns the topics of the options. The transport answers from a copy that is at most metadataAge old. A topic
// whose partitions are not numbered from 0 on has an error.
func (s *source) topics(ctx context.Context, by *kafka.Client) ([]kafka.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	m, err := by.Metadata(ctx, &kafka.MetadataRequest{Topics: s.opts.Topics})
	if err := s.answered(err); err != nil {
		return nil, err
	}
	for i := range m.Topics {
		t := &m.Topics[i]
		for number, p := range t.Partitions { // they are in order
			if t.Error == nil && p.ID != number {
				t.Error = fmt.Errorf("%w: it has a partition %d in place of %d", frames.ErrFrame, p.ID, number)
			}
		}
	}
	return m.Topics, nil
}

// unlike returns by name why topics do not have as many partitions as a second answer, on another connection, says.
func (s *source) unlike(ctx context.Context, topics []kafka.Topic) (map[string]error, error) {
	second, err := s.topics(ctx, s.witness)
	if err != nil {
		return nil, err
	}
	has, out := make(map[string]int, len(second)), make(map[string]error)
	for _, t := range second {
		has[t.Name] = len(t.Partitions)
	}
	for _, t := range topics {
		if n := len(t.Partitions); t.Error == nil && n != has[t.Name] {
			out[t.Name] = fmt.Errorf("topic %s has %d partitions, or %d: %w", t.Name, n, has[t.Name], errContradicted)
		}
	}
	return out, nil
}

// listAtOnce is how many offsets are asked for at a time: kafka-go makes a request, and perhaps a connection, for each
// partition.
const listAtOnce = 8

// offsets returns the first (when is kafka.FirstOffset) or last offset of each partition, or an error for one that the
// broker does not name.
func (s *source) offsets(ctx context.Context, by *kafka.Client, parts []TopicPartition, when int64,
	level kafka.IsolationLevel) (
	map[TopicPartition]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	out := make(map[TopicPartition]int64, len(parts))
	for at, n := 0, 1; at < len(parts); at, n = at+n, listAtOnce { // one at first: most often all fail or none does
		if err := s.listOffsets(ctx, by, out, parts[at:min(at+n, len(parts))], when, level); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *source) listOffsets(ctx context.Context, by *kafka.Client, out map[TopicPartition]int64,
	parts []TopicPartition, when int64, level kafka.IsolationLevel) error {
	req := &listoffsets.Request{ReplicaID: -1, IsolationLevel: int8(level)}
	for _, p := range parts {
		req.Topics = append(req.Topics, listoffsets.RequestTopic{Topic: p.Topic, Partitions: []listoffsets.RequestPartition{
			{Partition: p.Partition, CurrentLeaderEpoch: -1, Timestamp: when}}})
	}
	// kafka.Client.ListOffsets panics on an answer about a partition that was not asked about.
	m, err := by.Transport.RoundTrip(ctx, s.addr, req)
	if err := s.answered(err); err != nil {
		return err
	}
	for _, t := range m.(*listoffsets.Response).Topics {
		for _, p := range t.Partitions {
			tp := TopicPartition{t.Topic, p.Partition}
			if _, twice := out[tp]; twice || !slices.Contains(parts, tp) {
				return fmt.Errorf("offsets of %s: %w: it is not what was asked", tp, frames.ErrFrame)
			}
			if p.ErrorCode != 0 {
				return fmt.Errorf("offsets of %s: %w", tp, kafka.Error(p.ErrorCode))
			}
			out[tp] = p.Offset
		}
	}
	for _, p := range parts {
		if offset, ok := out[p]; !ok || offset < 0 {
			return fmt.Errorf("offsets of %s: the broker does not say", p)
		}
	}
	return nil
}

// fetch sends one Fetch request. All its partitions must have the same leader.
func (s *source) fetch(ctx context.Context, by *kafka.Transport, topics []fetch.RequestTopic) (*fetchResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.MaxWait+s.opts.RequestTimeout)
	defer cancel()
	m, err := by.RoundTrip(ctx, s.addr, &fetch.Request{
		ReplicaID:      -1,
		MaxWaitTime:    int32(s.opts.MaxWait.Milliseconds()),
		MinBytes:       1,
		MaxBytes:       maxResponseBytes,
		IsolationLevel: int8(s.opts.Isolation.level()),
		SessionEpoch:   -1, // no session: every request names its partitions
		Topics:         topics,
	})
	if err := s.answered(err); err != nil {
		return nil, err
	}
	return m.(*fetchResponse), nil
}

// committed returns what the group shows, without the partitions that it shows nothing for.
func (s *source) committed(ctx context.Context, parts []TopicPartition) (map[TopicPartition]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	req := &kafka.OffsetFetchRequest{GroupID: s.opts.GroupID, Topics: make(map[string][]int)}
	for _, tp := range parts {
		req.Topics[tp.Topic] = append(req.Topics[tp.Topic], int(tp.Partition))
	}
	res, err := s.group.OffsetFetch(ctx, req)
	if err := s.answered(err); err != nil {
		return nil, err
	}
	if errors.Is(res.Error, kafka.GroupIdNotFound) { // nobody has committed to it yet
		return nil, nil
	}
	if res.Error != nil {
		return nil, res.Error
	}
	asked := make(map[TopicPartition]bool, len(parts))
	for _, tp := range parts {
		asked[tp] = true
	}
	out := make(map[TopicPartition]int64, len(parts))
	for topic, list := range res.Topics {
		for _, p := range list {
			tp := TopicPartition{topic, int32(p.Partition)}
			if !asked[tp] {
				return nil, fmt.Errorf("%s: %w: it is not what was asked", tp, frames.ErrFrame)
			}
			if p.Error != nil {
				return nil, fmt.Errorf("%s: %w", tp, p.Error)
			}
			out[tp] = p.CommittedOffset // -1 if nothing is committed
		}
	}
	return out, nil
}

// commit shows offsets to lag tools, from outside of any generation of the group.
func (s *source) commit(ctx context.Context, offsets map[TopicPartition]int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	req := &kafka.OffsetCommitRequest{
		GroupID:      s.opts.GroupID,
		GenerationID: -1,
		Topics:       make(map[string][]kafka.OffsetCommit),
	}
	for tp, offset := range offsets {
		req.Topics[tp.Topic] = append(req.Topics[tp.Topic],
			kafka.OffsetCommit{Partition: int(tp.Partition), Offset: offset})
	}
	res, err := s.group.OffsetCommit(ctx, req)
	if err := s.answered(err); err != nil {
		return err
	}
	for topic, list := range res.Topics {
		for _, p := range list {
			if p.Error != nil { // mostly the same for all
				return fmt.Errorf("%s/%d: %w", topic, p.Partition, p.Error)
			}
		}
	}
	return nil
}
