// Package liar is a network between a broker and its clients that alters answers, for tests.
package liar

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Network alters answers. Listen is for kfake.ListenFn. The hooks are called one at a time; connections are numbered
// from 1 in the order of their first question of that kind, and only those that ask one are numbered.
type Network struct {
	// Fetch is called with the answer for each partition of a fetch and the offset that was asked for.
	Fetch func(conn int, from int64, p *kmsg.FetchResponseTopicPartition)
	// Offsets is called with each answer to ListOffsets and the time that was asked for (-2 first, -1 last).
	Offsets func(conn int, when int64, p *kmsg.ListOffsetsResponseTopicPartition)
	// Answer is called with each answer of the kinds in Kinds.
	Answer func(conn int, req kmsg.Request, res kmsg.Response)
	Kinds  []kmsg.Key
	// Frame, if not nil, returns what is sent in place of an answer, its size in front included.
	Frame func(kind kmsg.Key, frame []byte) []byte

	mu      sync.Mutex
	numbers map[int16]int // connections so far, by kind of question
}

// Listen listens as net.Listen does.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	ln, err := net.Listen(network, address)
	return listener{ln, n}, err
}

type listener struct {
	net.Listener
	network *Network
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, network: l.network, asked: make(map[int32]kmsg.Request), numbers: make(map[int16]int)}, nil
}

// conn is the broker's end of a connection.
type conn struct {
	net.Conn
	network *Network

	mu       sync.Mutex
	requests []byte // not yet whole
	answers  []byte
	asked    map[int32]kmsg.Request // by correlation id
	numbers  map[int16]int          // of this connection, by kind of question
}

// frame cuts the first whole frame off b.
func frame(b []byte) (body, rest []byte, ok bool) {
	if len(b) < 4 || len(b)-4 < int(binary.BigEndian.Uint32(b)) {
		return nil, b, false
	}
	end := 4 + int(binary.BigEndian.Uint32(b))
	return b[4:end], b[end:], true
}

// Read notes the requests that pass.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, b[:n]...)
	for {
		body, rest, ok := frame(c.requests)
		if !ok {
			return n, err
		}
		c.note(body)
		c.requests = rest
	}
}

func (c *conn) note(body []byte) {
	r := kbin.Reader{Src: body}
	key, version, id := r.Int16(), r.Int16(), r.Int32()
	if known := append([]kmsg.Key{kmsg.Fetch, kmsg.ListOffsets}, c.network.Kinds...); c.network.Frame == nil &&
		!slices.Contains(known, kmsg.Key(key)) {
		return
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	r.NullableString() // client id
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if req.ReadFrom(append([]byte(nil), r.Src...)) == nil {
		c.asked[id] = req
	}
	if c.numbers[key] == 0 {
		c.network.mu.Lock()
		defer c.network.mu.Unlock()
		if c.network.numbers == nil {
			c.network.numbers = make(map[int16]int)
		}
		c.network.numbers[key]++
		c.numbers[key] = c.network.numbers[key]
	}
}

// Write alters the answers that pass.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, b...)
	for {
		body, rest, ok := frame(c.answers)
		if !ok {
			return len(b), nil
		}
		kind, altered := c.alter(body)
		altered = append(binary.BigEndian.AppendUint32(nil, uint32(len(altered))), altered...)
		if c.network.Frame != nil && kind >= 0 {
			altered = c.network.Frame(kind, altered)
		}
		if _, err := c.Conn.Write(altered); err != nil {
			return 0, err
		}
		c.answers = rest
	}
}

// alter returns the kind of an answer, -1 for one that is not known, and what is left of it.
func (c *conn) alter(body []byte) (kmsg.Key, []byte) {
	if len(body) < 4 {
		return -1, body
	}
	id := int32(binary.BigEndian.Uint32(body))
	req := c.asked[id]
	if req == nil {
		return -1, body
	}
	delete(c.asked, id)
	kind := kmsg.Key(req.Key())
	res, r := req.ResponseKind(), kbin.Reader{Src: append([]byte(nil), body[4:]...)}
	tagged := res.IsFlexible() && kind != kmsg.ApiVersions
	if tagged {
		kmsg.SkipTags(&r)
	}
	if err := res.ReadFrom(r.Src); err != nil {
		panic(err)
	}
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	switch res := res.(type) {
	case *kmsg.FetchResponse:
		c.fetch(req.(*kmsg.FetchRequest), res)
	case *kmsg.ListOffsetsResponse:
		c.offsets(req.(*kmsg.ListOffsetsRequest), res)
	}
	if c.network.Answer != nil && slices.Contains(c.network.Kinds, kind) {
		c.network.Answer(c.numbers[int16(kind)], req, res)
	}
	out := append([]byte(nil), body[:4]...)
	if tagged {
		out = append(out, 0)
	}
	return kind, res.AppendTo(out)
}

func (c *conn) fetch(req *kmsg.FetchRequest, res *kmsg.FetchResponse) {
	for _, asked := range req.Topics {
		for i := range res.Topics {
			if t := &res.Topics[i]; t.Topic == asked.Topic && t.TopicID == asked.TopicID && c.network.Fetch != nil {
				for _, p := range asked.Partitions {
					for j := range t.Partitions {
						if t.Partitions[j].Partition == p.Partition {
							c.network.Fetch(c.numbers[req.Key()], p.FetchOffset, &t.Partitions[j])
						}
					}
				}
			}
		}
	}
}

func (c *conn) offsets(req *kmsg.ListOffsetsRequest, res *kmsg.ListOffsetsResponse) {
	for _, asked := range req.Topics {
		for i := range res.Topics {
			if t := &res.Topics[i]; t.Topic == asked.Topic && c.network.Offsets != nil {
				for _, p := range asked.Partitions {
					for j := range t.Partitions {
						if t.Partitions[j].Partition == p.Partition {
							c.network.Offsets(c.numbers[req.Key()], p.Timestamp, &t.Partitions[j])
						}
					}
				}
			}
		}
	}
}

// Move moves the base offset of the batch at an index of a record set, as a network can without the CRC saying so. It
// reports false if there is no such batch.
func Move(p *kmsg.FetchResponseTopicPartition, index int, by int64) bool {
	for rest := p.RecordBatches; len(rest) >= 12; index-- {
		if index == 0 {
			p.RecordBatches = append([]byte(nil), p.RecordBatches...)
			at := p.RecordBatches[len(p.RecordBatches)-len(rest):]
			binary.BigEndian.PutUint64(at, uint64(int64(binary.BigEndian.Uint64(at))+by))
			return true
		}
		size := 12 + int(binary.BigEndian.Uint32(rest[8:]))
		if size > len(rest) {
			return false
		}
		rest = rest[size:]
	}
	return false
}

// Batches returns the batches of an answer.
func Batches(p *kmsg.FetchResponseTopicPartition) (batches [][]byte) {
	for rest := p.RecordBatches; len(rest) >= 12; {
		size := 12 + int(binary.BigEndian.Uint32(rest[8:]))
		if size > len(rest) {
			return batches
		}
		batches, rest = append(batches, rest[:size:size]), rest[size:]
	}
	return batches
}
