package consumer

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/refitd/refitd/consumer/internal/codec"
)

// rawBatch describes a record batch as a broker would store it.
type rawBatch struct {
	base       int64
	lastDelta  int32 // at least that of the last record
	attributes uint16
	baseTime   int64
	maxTime    int64
	producer   int64
	records    []rawRecord
}

type rawRecord struct {
	delta      int64
	timeDelta  int64
	key, value []byte
	headers    int
}

// xerialMagic starts the framing that the Java client puts around snappy blocks.
var xerialMagic = []byte("\x82SNAPPY\x00")

const xerial = 0x100 // not a bit of the protocol: asks bytes for the framing of the Java client

// bytes encodes the batch.
func (b rawBatch) bytes(t testing.TB) []byte {
	t.Helper()
	var records []byte
	for _, r := range b.records {
		body := []byte{0}
		body = binary.AppendVarint(body, r.timeDelta)
		body = binary.AppendVarint(body, r.delta)
		body = appendField(body, r.key)
		body = appendField(body, r.value)
		body = binary.AppendVarint(body, int64(r.headers))
		for range r.headers {
			body = appendField(body, []byte("name"))
			body = appendField(body, nil)
		}
		records = binary.AppendVarint(records, int64(len(body)))
		records = append(records, body...)
	}
	return b.seal(compressed(t, b.attributes, records))
}

// seal puts the header before an encoded and compressed record block.
func (b rawBatch) seal(records []byte) []byte {
	out := make([]byte, batchHeaderBytes, batchHeaderBytes+len(records))
	out = append(out, records...)
	binary.BigEndian.PutUint64(out, uint64(b.base))
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-batchPrefixBytes))
	out[16] = 2
	binary.BigEndian.PutUint16(out[21:], b.attributes&0xff)
	binary.BigEndian.PutUint32(out[23:], uint32(b.lastDelta))
	binary.BigEndian.PutUint64(out[27:], uint64(b.baseTime))
	binary.BigEndian.PutUint64(out[35:], uint64(b.maxTime))
	binary.BigEndian.PutUint64(out[43:], uint64(b.producer))
	binary.BigEndian.PutUint32(out[53:], math.MaxUint32) // not numbered
	binary.BigEndian.PutUint32(out[57:], uint32(len(b.records)))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], castagnoli))
	return out
}

func appendField(b, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(field))), field...)
}

func compressed(t testing.TB, attributes uint16, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch attributes & attrCodec {
	case 0:
		return b
	case codec.Gzip:
		w := gzip.NewWriter(&out)
		_, err = w.Write(b)
		w.Close()
	case codec.Snappy:
		if attributes&xerial == 0 {
			return s2.EncodeSnappy(nil, b)
		}
		out.Write(append(xerialMagic, 0, 0, 0, 1, 0, 0, 0, 1))
		for len(b) > 0 {
			n := min(len(b), 100)
			block := s2.EncodeSnappy(nil, b[:n])
			binary.Write(&out, binary.BigEndian, uint32(len(block)))
			out.Write(block)
			b = b[n:]
		}
	case codec.LZ4:
		w := lz4.NewWriter(&out)
		_, err = w.Write(b)
		w.Close()
	case codec.Zstd:
		w, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		return w.EncodeAll(b, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// marker is the record of a transaction marker.
func marker(commit bool) []rawRecord {
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	return []rawRecord{{key: key, value: []byte{0, 0, 0, 0, 0, 0}}}
}
