// Package frames looks at the answers of brokers before kafka-go decodes them.
//
// kafka-go trusts the numbers in answers. A negative size ends the process, and so does the number of the elements of
// an array, for which it takes memory before one of them has come. So an answer is read whole and decoded by another
// library before kafka-go gets it. Answers to fetches are not: they are large, and package consumer decodes them. What
// an answer says is not looked at here. A [Conn] is used by one goroutine at a time.
package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An answer that is no answer to a fetch has answerBytes at most, and answerTimes the bytes of what was asked: where a
// group asks about partitions both grow with their number. A question about topics names no partitions, so its answer
// has metadataBytes at most: 240,000 partitions of three replicas. Memory is taken as bytes come, whatever the size
// says. Chosen by hand.
const (
	answerBytes   = 4 << 20
	answerTimes   = 8
	metadataBytes = 16 << 20
)

// headBytes are those of a request before its client id, and its size: kind, version and number follow that.
const headBytes = 12

// Conn is a connection on which answers are looked at. It is used by one goroutine at a time, which reads each
// answer whole before it writes the next request.
type Conn struct {
	net.Conn
	Raw bool // what is exchanged is the old form of signing in: a size and bytes

	head   []byte // of the request that is being written, up to headBytes
	unsent int    // bytes of it that are still to come
	ready  []byte // bytes of an answer that are to be read next
	left   int    // bytes of it behind them
}

// Write notes what is asked for.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.Raw {
		return n, err
	}
	for b := b[:n]; len(b) > 0; {
		if c.unsent == 0 && len(c.head) == headBytes {
			c.head = c.head[:0]
		}
		if need := headBytes - len(c.head); need > 0 {
			k := min(need, len(b))
			c.head, b = append(c.head, b[:k]...), b[k:]
			if len(c.head) == headBytes {
				c.unsent = max(0, int(binary.BigEndian.Uint32(c.head))-(headBytes-4))
			}
			continue
		}
		k := min(c.unsent, len(b))
		c.unsent, b = c.unsent-k, b[k:]
	}
	return n, err
}

// Read gives on what was looked at.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(c.ready) == 0 && c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.ready) > 0 {
		n := copy(b, c.ready)
		c.ready = c.ready[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// next reads the size of an answer and, unless it is to a fetch, the answer.
func (c *Conn) next() error {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(c.Conn, frame); err != nil {
		return err
	}
	size := int64(int32(binary.BigEndian.Uint32(frame)))
	if c.Raw {
		if size < 0 || size > answerBytes {
			return fmt.Errorf("%w: an answer of %d bytes", ErrFrame, size)
		}
		c.ready, c.left = frame, int(size)
		return nil
	}
	if len(c.head) < headBytes {
		return fmt.Errorf("%w: nothing was asked", ErrFrame)
	}
	key, version := int16(binary.BigEndian.Uint16(c.head[4:])), int16(binary.BigEndian.Uint16(c.head[6:]))
	switch isFetch := kmsg.Key(key) == kmsg.Fetch; {
	case frame[0] == 21 && frame[1] == 3: // the record type and the version of an alert
		return fmt.Errorf("%w: broker appears to be expecting TLS", io.ErrUnexpectedEOF)
	case size < 4 || !isFetch && size > c.most(kmsg.Key(key)):
		return fmt.Errorf("%w: an answer of %d bytes", ErrFrame, size)
	case isFetch:
		c.ready, c.left = frame, int(size)
		return nil
	}
	body := bytes.NewBuffer(frame)
	if _, err := io.CopyN(body, c.Conn, size); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	frame = body.Bytes()
	if err := decodable(key, version, frame[8:]); err != nil {
		return fmt.Errorf("%w: %s, version %d: %w", ErrFrame, kmsg.NameForKey(key), version, err)
	}
	c.ready = frame
	return nil
}

// most returns how large the answer to what was asked last may be.
func (c *Conn) most(kind kmsg.Key) int64 {
	if kind == kmsg.Metadata {
		return metadataBytes
	}
	return answerBytes + answerTimes*int64(binary.BigEndian.Uint32(c.head))
}

// ErrFrame is about an answer that cannot be one.
var ErrFrame = errors.New("the answer is none of a broker, or was damaged on the way")

// decodable returns why an answer without its size and number cannot be decoded.
func decodable(key, version int16, body []byte) error {
	res := kmsg.ResponseForKey(key)
	if res == nil {
		return fmt.Errorf("kind %d is unknown", key)
	}
	res.SetVersion(version)
	r := kbin.Reader{Src: body}
	if res.IsFlexible() && kmsg.Key(key) != kmsg.ApiVersions {
		kmsg.SkipTags(&r)
	}
	return res.ReadFrom(r.Src)
}
