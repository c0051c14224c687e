package consumer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/refitd/refitd/consumer/internal/codec"
)

// kafka-go parses record sets itself, and so that they cannot be read safely: it hides the last offset delta of a
// batch and trusts the lengths in records. Registering our type of response instead of that of kafka-go makes
// Transport.RoundTrip return the topics of a Fetch response as the bytes that came. The effect is global:
// kafka.Client.Fetch would panic. A test pins the kafka-go version that this relies on.
func init() { protocol.Register(&fetch.Request{}, &fetchResponse{}) }

const (
	// maxResponseBytes is what we ask a broker to keep a response below. A single batch that is larger still comes.
	maxResponseBytes = 16 << 20
	// maxBodyBytes is what we accept. It leaves room for the largest message.max.bytes in use.
	maxBodyBytes = 128 << 20
)

// fetchResponse is the Fetch response of the Kafka protocol, versions 4 to 11. Topics differ by version: one of the
// fields is set.
type fetchResponse struct {
	ThrottleTimeMs int32     `kafka:"min=v1,max=v11"`
	ErrorCode      int16     `kafka:"min=v7,max=v11"`
	SessionID      int32     `kafka:"min=v7,max=v11"`
	TopicsV0       topicsV0  `kafka:"min=v0,max=v3"` // of brokers before 0.11
	TopicsV4       topicsV4  `kafka:"min=v4,max=v4"`
	TopicsV5       topicsV5  `kafka:"min=v5,max=v10"`
	TopicsV11      topicsV11 `kafka:"min=v11,max=v11"`

	refs atomic.Int32 // holders but one
}

func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch }

// rawTopics is the rest of a response. Its buffer goes back to bodies when the response has been applied.
type rawTopics struct{ body *[]byte }

type (
	topicsV0  struct{ rawTopics }
	topicsV4  struct{ rawTopics }
	topicsV5  struct{ rawTopics }
	topicsV11 struct{ rawTopics }
)

func (t *topicsV0) ReadFrom(r io.Reader) (int64, error)  { return t.read(r, layout{}) }
func (t *topicsV4) ReadFrom(r io.Reader) (int64, error)  { return t.read(r, layoutV4) }
func (t *topicsV5) ReadFrom(r io.Reader) (int64, error)  { return t.read(r, layoutV5) }
func (t *topicsV11) ReadFrom(r io.Reader) (int64, error) { return t.read(r, layoutV11) }

// layout says which fields of a partition a version has.
type layout struct{ known, logStart, replica bool }

var (
	layoutV4  = layout{known: true}
	layoutV5  = layout{known: true, logStart: true}
	layoutV11 = layout{known: true, logStart: true, replica: true}
)

// bodies are buffers. A new one has room for as much as came last: to grow there copies a response five times.
var (
	bodies = sync.Pool{New: func() any { b := make([]byte, 0, max(64<<10, latest.Load())); return &b }}
	latest atomic.Int64 // bytes of the last response and some more, of a large message no more than others have
)

var errTooLong = fmt.Errorf("the broker's answer has more than %d bytes: lower message.max.bytes of the topic",
	maxBodyBytes)

// read reads r to its end. The buffer grows to what the lengths in the response say that is still to come, and not by
// doubling, which would take a large message several times.
func (t *rawTopics) read(r io.Reader, l layout) (int64, error) {
	t.body = bodies.Get().(*[]byte)
	b := (*t.body)[:0]
	for {
		if len(b) == cap(b) {
			if least := l.need(b); least > maxBodyBytes {
				return int64(len(b)), errTooLong
			} else if least > 2*cap(b) {
				b = append(make([]byte, 0, least+bodySpare), b...)
			} else {
				b = append(b, 0)[:len(b)]
			}
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*t.body = b
		switch {
		case errors.Is(err, io.EOF):
			latest.Store(int64(min(len(b), maxResponseBytes) + bodySpare))
			return int64(len(b)), nil
		case err != nil:
			return int64(len(b)), err
		case len(b) > maxBodyBytes:
			return int64(len(b)), errTooLong
		}
	}
}

// bodySpare is room for what comes after a large record set: most often a few empty partitions.
const bodySpare = 64 << 10

// need returns how many bytes a response has at least that begins with b.
func (l layout) need(b []byte) int {
	if !l.known {
		return len(b)
	}
	c := cursor{b: b}
	for topics := c.int32(); topics > 0 && !c.bad; topics-- {
		c.string()
		for n := c.int32(); n > 0 && !c.bad; n-- {
			p := partitionResponse{}
			c.header(&p, l)
			size := int(max(c.int32(), 0))
			if !c.bad && size > len(c.b) {
				return len(b) - len(c.b) + size
			}
			c.take(size)
		}
	}
	return len(b)
}

// header reads what comes before the records of a partition.
func (c *cursor) header(p *partitionResponse, l layout) {
	p.partition, p.code, p.high, p.stable, p.logStart = c.int32(), c.int16(), c.int64(), c.int64(), -1
	if l.logStart {
		p.logStart = c.int64()
	}
	for k := c.int32(); k > 0 && !c.bad; k-- {
		p.aborted = append(p.aborted, AbortedTransaction{Producer: c.int64(), First: c.int64()})
	}
	if l.replica {
		c.int32() // preferred read replica: always -1, as requests name no rack
	}
}

// partitionResponse is the answer for one partition. Offsets are -1 where the broker did not say.
type partitionResponse struct {
	topic     string
	partition int32
	code      int16
	high      int64 // high watermark
	stable    int64 // last stable offset
	logStart  int64
	aborted   []AbortedTransaction // by first offset
	records   []byte               // aliases the response

	unconfirmed error // why there is nothing in it to be used, nil if there is

	next int64          // the offset behind it, once it was followed
	left map[int64]bool // transactions that run on there, by producer, with whether they are aborted
}

// release gives the buffer of the response back when its last holder calls it; nothing that aliases it may be used any
// more.
func (r *fetchResponse) release() {
	if r.refs.Add(-1) >= 0 {
		return
	}
	for _, t := range []*rawTopics{&r.TopicsV0.rawTopics, &r.TopicsV4.rawTopics, &r.TopicsV5.rawTopics,
		&r.TopicsV11.rawTopics} {
		if t.body == nil {
			continue
		}
		if cap(*t.body) <= maxResponseBytes+bodySpare { // the buffer of a larger message is not kept for small ones
			bodies.Put(t.body)
		}
		t.body = nil
	}
}

// partitions parses the topics of the response.
func (r *fetchResponse) partitions() ([]partitionResponse, error) {
	c := cursor{}
	var l layout
	switch {
	case r.TopicsV11.body != nil:
		c.b, l = *r.TopicsV11.body, layoutV11
	case r.TopicsV5.body != nil:
		c.b, l = *r.TopicsV5.body, layoutV5
	case r.TopicsV4.body != nil:
		c.b, l = *r.TopicsV4.body, layoutV4
	default:
		return nil, errors.New("the broker speaks no Fetch version from 4 on: Kafka 0.11 or later is needed")
	}
	var out []partitionResponse
	for topics := c.int32(); topics > 0 && !c.bad; topics-- {
		topic := c.string()
		for n := c.int32(); n > 0 && !c.bad; n-- {
			p := partitionResponse{topic: topic}
			c.header(&p, l)
			// Brokers send them in this order; nothing promises it.
			slices.SortFunc(p.aborted, func(a, b AbortedTransaction) int { return cmp.Compare(a.First, b.First) })
			p.records = c.take(int(max(c.int32(), 0)))
			out = append(out, p)
		}
	}
	if c.bad {
		return nil, codec.Corrupt("a Fetch response ends early")
	}
	return out, nil
}

// cursor reads big-endian fields and remembers whether it ran out of bytes.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n > len(c.b) {
		c.b, c.bad = nil, true
		return nil
	}
	field := c.b[:n:n]
	c.b = c.b[n:]
	return field
}

func (c *cursor) int16() int16 {
	if b := c.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) int32() int32 {
	if b := c.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) int64() int64 {
	if b := c.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (c *cursor) string() string { return string(c.take(int(max(c.int16(), 0)))) }
