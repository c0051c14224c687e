package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/consumer"
)

const (
	// maxGuardedBytes is the largest answer that is looked at. franz-go refuses larger ones (kgo.BrokerMaxReadBytes).
	maxGuardedBytes = 100 << 20
	confirmTimeout  = 10 * time.Second // of the second answer
	readCommitted   = 1                // the isolation level of a request
	correlation     = 8                // bytes of the size and the correlation id with which every answer begins
)

// guarded returns a dial whose connections look at the answers to fetches and about offsets before franz-go does,
// which believes base offsets, log starts, log ends, offsets of groups and errors though no CRC covers them. What would
// skip records is asked about on another connection, with a client of the options given. If that contradicts an answer
// to a fetch, the connection ends: franz-go then fetches the same on a new one. Requests have to name all their
// partitions (kgo.DisableFetchSessions).
func guarded(connect dial, options []kgo.Opt, refused func(topic string, partition int32, reason string)) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		living, end := context.WithCancel(context.Background())
		return &guard{
			Conn:    conn,
			address: address,
			options: append(options[:len(options):len(options)], kgo.Dialer(connect)),
			refused: refused,
			living:  living,
			end:     end,
			asked:   make(map[int32]kmsg.Request),
			seen:    make(map[place]*consumer.Numbers),
		}, nil
	}
}

// guard is a connection. One goroutine writes and one reads.
type guard struct {
	net.Conn
	address string
	options []kgo.Opt // of the client that confirms
	refused func(topic string, partition int32, reason string)
	living  context.Context // until Close
	end     context.CancelFunc

	mu    sync.Mutex
	asked map[int32]kmsg.Request // not yet answered, by correlation id

	// Of the goroutine that reads.
	checked   []byte // that is to be read next
	left      int    // bytes of the answer behind it that are not looked at
	witnesses [2]witness
	seen      map[place]*consumer.Numbers
}

// A witness asks the broker at the other end of a guard again. It has a connection from its first question on.
type witness struct {
	client *kgo.Client
	broker *kgo.Broker
}

// Write notes fetches and questions for offsets. franz-go writes each request at once.
func (g *guard) Write(b []byte) (int, error) {
	if len(b) > 4 && int(binary.BigEndian.Uint32(b)) == len(b)-4 {
		g.note(b[4:])
	}
	return g.Conn.Write(b)
}

func (g *guard) note(request []byte) {
	r := kbin.Reader{Src: request}
	key, version, id := r.Int16(), r.Int16(), r.Int32()
	var req kmsg.Request
	switch kmsg.Key(key) {
	case kmsg.Fetch:
		req = kmsg.NewPtrFetchRequest()
	case kmsg.ListOffsets:
		req = kmsg.NewPtrListOffsetsRequest()
	case kmsg.OffsetFetch:
		req = kmsg.NewPtrOffsetFetchRequest()
	case kmsg.OffsetForLeaderEpoch:
		req = kmsg.NewPtrOffsetForLeaderEpochRequest()
	default:
		return
	}
	req.SetVersion(version)
	r.NullableString() // client id
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if !r.Ok() || req.ReadFrom(append([]byte(nil), r.Src...)) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[id] = req
}

// Read gives on what was looked at.
func (g *guard) Read(b []byte) (int, error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case len(g.checked) > 0:
		n := copy(b, g.checked)
		g.checked = g.checked[n:]
		return n, nil
	case g.left > 0:
		n, err := g.Conn.Read(b[:min(len(b), g.left)])
		g.left -= n
		return n, err
	}
	if err := g.next(); err != nil {
		return 0, err
	}
	return g.Read(b)
}

// next reads the beginning of an answer, and the whole one if it is to be looked at.
func (g *guard) next() error {
	answer := make([]byte, correlation)
	if _, err := io.ReadFull(g.Conn, answer[:4]); err != nil {
		return err
	}
	size := int(int32(binary.BigEndian.Uint32(answer)))
	if size < correlation-4 { // the old form of signing in
		g.checked, g.left = answer[:4], max(size, 0)
		return nil
	}
	if _, err := io.ReadFull(g.Conn, answer[4:]); err != nil {
		return err
	}
	id := int32(binary.BigEndian.Uint32(answer[4:]))
	g.mu.Lock()
	req := g.asked[id]
	delete(g.asked, id)
	g.mu.Unlock()
	if req == nil || size > maxGuardedBytes {
		g.checked, g.left = answer, size-(correlation-4)
		return nil
	}
	whole := make([]byte, 4+size)
	copy(whole, answer)
	if _, err := io.ReadFull(g.Conn, whole[correlation:]); err != nil {
		return err
	}
	var err error
	switch req := req.(type) {
	case *kmsg.FetchRequest:
		err = g.look(req, whole[correlation:])
	case *kmsg.ListOffsetsRequest:
		whole, err = g.settle(req, whole)
	default:
		whole, err = g.agree(req, whole)
	}
	if err != nil {
		return err
	}
	g.checked = whole
	return nil
}

// errRefused ends a connection. franz-go takes it for one that broke.
var errRefused = fmt.Errorf("a second answer on another connection contradicts the answer to a fetch: %w",
	io.ErrUnexpectedEOF)

// A place is a partition of a fetch.
type place struct {
	topic     string
	id        [16]byte
	partition int32
}

// errUnconfirmed ends a connection, too.
func errUnconfirmed(err error) error {
	return errors.Join(fmt.Errorf("an answer cannot be confirmed on another connection: %w", err), io.ErrUnexpectedEOF)
}

// look returns an error unless all that is odd in an answer is confirmed.
func (g *guard) look(req *kmsg.FetchRequest, body []byte) error {
	answers, err := answersOf(req, body)
	if err != nil {
		return nil //nolint:nilerr // franz-go says better what is wrong with it
	}
	var again kmsg.FetchRequest
	odd := make(map[place]string)
	for _, t := range req.Topics {
		partitions := t.Partitions
		t.Partitions = nil
		for _, p := range partitions {
			at := place{t.Topic, t.TopicID, p.Partition}
			if a := answers[at]; a != nil {
				if g.seen[at] == nil {
					g.seen[at] = new(consumer.Numbers)
				}
				if text := a.Odd(g.seen[at]); text != "" {
					odd[at] = text
					t.Partitions = append(t.Partitions, p)
				}
			}
		}
		if len(t.Partitions) > 0 {
			again.Topics = append(again.Topics, t)
		}
	}
	if len(odd) == 0 {
		return nil
	}
	topics := again.Topics
	again = *req
	again.Topics, again.ForgottenTopics = topics, nil
	second, err := g.fetch(&again)
	if err != nil {
		return errUnconfirmed(err)
	}
	for at, text := range odd {
		if b := second[at]; b == nil || !answers[at].ConfirmedBy(b) {
			if g.refused != nil {
				g.refused(g.name(at), at.partition, text)
			}
			err = errRefused
		} else {
			answers[at].Noted(g.seen[at])
		}
	}
	return err
}

// throttledFetches is how often a fetch is asked again that a quota answers with nothing. Chosen by hand.
const throttledFetches = 5

// fetch asks a witness for a fetch. A broker with a quota answers with no partitions at first; franz-go then waits for
// as long as the broker says before it asks again.
func (g *guard) fetch(req *kmsg.FetchRequest) (map[place]*consumer.Answer, error) {
	for tries := 0; ; tries++ {
		r, err := g.ask(0, req)
		if err != nil {
			return nil, err
		}
		res := r.(*kmsg.FetchResponse)
		if len(res.Topics) > 0 || res.ThrottleMillis <= 0 || tries == throttledFetches {
			return collect(req, res), nil
		}
	}
}

// answersOf reads the body of an answer to a fetch.
func answersOf(req *kmsg.FetchRequest, body []byte) (map[place]*consumer.Answer, error) {
	res, err := parse(req, body)
	if err != nil {
		return nil, err
	}
	return collect(req, res.(*kmsg.FetchResponse)), nil
}

// parse reads the body of an answer.
func parse(req kmsg.Request, body []byte) (kmsg.Response, error) {
	r, res := kbin.Reader{Src: body}, req.ResponseKind()
	if res.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	return res, res.ReadFrom(r.Src)
}

func collect(req *kmsg.FetchRequest, res *kmsg.FetchResponse) map[place]*consumer.Answer {
	out := make(map[place]*consumer.Answer)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			out[place{t.Topic, t.TopicID, p.Partition}] = &consumer.Answer{From: p.FetchOffset, LogStart: -1}
		}
	}
	found := make(map[place]*consumer.Answer)
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			at := place{t.Topic, t.TopicID, p.Partition}
			if a := out[at]; a != nil {
				a.Code, a.HighWatermark, a.LogStart, a.Records = p.ErrorCode, p.HighWatermark, p.LogStartOffset, p.RecordBatches
				a.Committed = req.IsolationLevel == readCommitted
				for _, t := range p.AbortedTransactions {
					a.Aborted = append(a.Aborted, consumer.AbortedTransaction{Producer: t.ProducerID, First: t.FirstOffset})
				}
				found[at] = a
			}
		}
	}
	return found
}

// ask asks the same broker by a witness, whose connection lasts as long as this one.
func (g *guard) ask(by int, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(g.living, confirmTimeout)
	defer cancel()
	w := &g.witnesses[by]
	if w.client == nil {
		client, err := kgo.NewClient(g.options...)
		if err != nil {
			return nil, err
		}
		w.client = client
		context.AfterFunc(g.living, client.Close)
	}
	if w.broker == nil {
		brokers, err := kadm.NewClient(w.client).ListBrokers(ctx)
		if err != nil {
			return nil, err
		}
		for _, b := range brokers {
			if net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))) == g.address {
				w.broker = w.client.Broker(int(b.NodeID))
			}
		}
		if w.broker == nil {
			return nil, fmt.Errorf("no broker is at %s any more", g.address)
		}
	}
	return w.broker.Request(ctx, req)
}

// name returns the topic of a place. Requests since Kafka 3.1 have its id alone.
func (g *guard) name(at place) string {
	if at.topic != "" {
		return at.topic
	}
	ctx, cancel := context.WithTimeout(g.living, confirmTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.TopicID = at.id
	req.Topics = append(req.Topics, topic)
	if res, err := req.RequestWith(ctx, g.witnesses[0].client); err == nil {
		for _, t := range res.Topics {
			if t.TopicID == at.id && t.Topic != nil {
				return *t.Topic
			}
		}
	}
	return fmt.Sprintf("%x", at.id)
}

// Close ends the connection and those that confirm.
func (g *guard) Close() error {
	g.end()
	return g.Conn.Close()
}
