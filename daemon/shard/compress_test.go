package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestPacker: large batches of rows are smaller than by gzip, small ones and those for brokers without zstd are by
// gzip; all come back as they were.
func TestPacker(t *testing.T) {
	p, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	rows := func(n int) (b []byte) {
		for i := range n {
			id := sha256.Sum256([]byte(fmt.Sprint(i)))
			b = append(append(b, "p\x00\x00\x00\x01r\x00"...), id[:16]...)
			b = binary.BigEndian.AppendUint64(
				binary.BigEndian.AppendUint64(append(b, make([]byte, 8)...), uint64(i*113)), 1700000000000+uint64(i*97))
			b = fmt.Appendf(b, `ratings{"user":"u%d","item":"i%d","rating":%d,"ts":%d}`, id[16], id[17], id[18]%5,
				1700000000000+i*97)
			b = append(
				append(b, id[20:24]...),
				"i12345678\x00\x00\x00\x00\x00\x00\x00\x01ABCDEFGHIJKLMNOPQRSTUVWXYZ"...)
		}
		return b
	}
	unpack := kgo.DefaultDecompressor()
	for _, test := range []struct {
		what  string
		rows  int
		flags []kgo.CompressFlag
		codec kgo.CompressionCodecType
		most  float64 // of what gzip makes of it
	}{
		{"many", 5000, nil, kgo.CodecZstd, .97},
		{"few", 100, nil, kgo.CodecGzip, 1},
		{"many, for an old broker", 5000, []kgo.CompressFlag{kgo.CompressDisableZstd}, kgo.CodecGzip, 1},
	} {
		in := rows(test.rows)
		got, codec := p.Compress(new(bytes.Buffer), in, test.flags...)
		by, _ := p.small.Compress(new(bytes.Buffer), in)
		out, err := unpack.Decompress(got, codec)
		if err != nil || !bytes.Equal(out, in) || codec != test.codec ||
			float64(len(got)) > test.most*float64(len(by)) {
			t.Errorf("%s: %d bytes by codec %d, %d by gzip; come back %t, %v", test.what, len(got), codec, len(by),
				bytes.Equal(out, in), err)
		}
		t.Logf("%s: %d bytes of %d, %d by gzip", test.what, len(got), len(in), len(by))
	}
}
