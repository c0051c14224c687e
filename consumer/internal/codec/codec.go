// Package codec decompresses record batches of Kafka into bounded memory.
//
// It knows the four codecs by their numbers and the framing of the Java client around snappy. It does not read batches
// or records, and opens no connection. What is damaged is an error that wraps [ErrCorrupt]; what is sound, but larger
// than the limit, a [TooBigError]. A [Decoder] serves one goroutine.
package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// The codecs of record batches by their number in the attributes.
const (
	Gzip   = 1
	Snappy = 2
	LZ4    = 3
	Zstd   = 4
)

// xerialMagic starts the framing that the Java client puts around snappy blocks; two version numbers of 4 bytes follow
// it.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// ErrCorrupt is wrapped by errors about bytes that are not what a broker may send.
var ErrCorrupt = errors.New("damaged record batch")

// Corrupt returns an error that wraps [ErrCorrupt].
func Corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// Decoder decompresses record batches. The zero value is ready; it is not safe for concurrent use.
type Decoder struct {
	zstd    *zstd.Decoder
	zstdMax int
}

// TooBigError is about a batch whose bytes are what the producer sent, but too many once decompressed.
type TooBigError struct {
	limit int
	Next  int64 // the offset behind the batch
}

func (e *TooBigError) Error() string {
	return fmt.Sprintf("decompresses to more than %d bytes, the limit for one batch", e.limit)
}

func tooBig(limit int) error { return &TooBigError{limit: limit} }

// Decompress appends at most limit decompressed bytes of src to dst, which is empty.
func (c *Decoder) Decompress(dst, src []byte, codec uint16, limit int) ([]byte, error) {
	var err error
	switch codec {
	case Gzip, LZ4:
		dst, err = decompressStream(dst, src, compress.Compression(codec).Codec(), limit)
	case Snappy:
		dst, err = decompressSnappy(dst, src, limit)
	case Zstd:
		dst, err = c.decompressZstd(dst, src, limit)
	default:
		return dst, fmt.Errorf("compression codec %d is unknown to this build", codec)
	}
	if err == nil && len(dst) > limit {
		err = tooBig(limit)
	}
	return dst, err
}

// decompressStream grows dst as the stream yields, never by what a header promises.
func decompressStream(dst, src []byte, codec compress.Codec, limit int) ([]byte, error) {
	r := codec.NewReader(bytes.NewReader(src))
	defer r.Close()
	for end := limit + 1; len(dst) < end; {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), end)])
		dst = dst[:len(dst)+n]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, Corrupt("%s: %v", codec.Name(), err)
		}
	}
	return dst, nil
}

func decompressSnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return snappyBlock(dst, src, limit)
	}
	if len(src) < 16 {
		return dst, Corrupt("snappy: a frame header of %d bytes", len(src))
	}
	for src = src[16:]; len(src) > 0; {
		if len(src) < 4 || int64(binary.BigEndian.Uint32(src)) > int64(len(src)-4) {
			return dst, Corrupt("snappy: a block is out of bounds")
		}
		size := 4 + int(binary.BigEndian.Uint32(src))
		var err error
		if dst, err = snappyBlock(dst, src[4:size], limit); err != nil {
			return dst, err
		}
		src = src[size:]
	}
	return dst, nil
}

func snappyBlock(dst, src []byte, limit int) ([]byte, error) {
	size, err := s2.DecodedLen(src)
	switch {
	case err != nil:
		return dst, Corrupt("snappy: %v", err)
	case size > limit-len(dst):
		return dst, tooBig(limit)
	case size > 64*len(src): // no element makes more than 64 bytes, of two or more
		return dst, Corrupt("snappy: %d bytes cannot hold %d", len(src), size)
	}
	at := len(dst)
	dst = slices.Grow(dst, size)[:at+size]
	if _, err := s2.Decode(dst[at:], src); err != nil {
		return dst[:at], Corrupt("snappy: %v", err)
	}
	return dst, nil
}

func (c *Decoder) decompressZstd(dst, src []byte, limit int) ([]byte, error) {
	if c.zstd == nil || c.zstdMax != limit {
		// The window bounds what a frame makes the decoder hold beyond its output.
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)),
			zstd.WithDecoderMaxWindow(uint64(max(limit, zstd.MinWindowSize))))
		if err != nil {
			return dst, fmt.Errorf("zstd: %w", err)
		}
		c.zstd, c.zstdMax = z, limit
	}
	out, err := c.zstd.DecodeAll(src, dst)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded):
		return dst, tooBig(limit)
	case err != nil:
		return dst, Corrupt("zstd: %v", err)
	}
	return out, nil
}
