package shard

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// manyBytes is from where on a batch is worth the slowest compression: that of rows which a shard sends when it begins,
// or has caught up with its log.
const manyBytes = 64 << 10

// PackerBytes is what compressing a large batch takes for the tables of its encoder, which are dropped with the batch.
const PackerBytes = 34 << 20

// packing is one at a time in a process.
var packing sync.Mutex

// A packer compresses what a shard writes: large batches, which most bytes of the topic are in, by the slowest level of
// zstd, which makes a twentieth to a twelfth less of rows than gzip does; the others by gzip, and so all of a broker
// without zstd. It is safe for concurrent use.
type packer struct{ small kgo.Compressor }

func newPacker() (packer, error) {
	c, err := kgo.DefaultCompressor(kgo.GzipCompression())
	if err != nil {
		return packer{}, fmt.Errorf("shard: %w", err)
	}
	return packer{c}, nil
}

// Compress implements kgo.Compressor.
func (p packer) Compress(dst *bytes.Buffer, src []byte, flags ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	for _, f := range flags {
		if f == kgo.CompressDisableZstd {
			return p.small.Compress(dst, src, flags...)
		}
	}
	if len(src) < manyBytes {
		return p.small.Compress(dst, src, flags...)
	}
	packing.Lock()
	defer packing.Unlock()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(1<<20),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, kgo.CodecError
	}
	defer e.Close()
	return e.EncodeAll(src, dst.AvailableBuffer()), kgo.CodecZstd
}
