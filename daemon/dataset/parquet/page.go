package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs of compression.
const (
	codecNone = iota
	codecSnappy
	codecGzip
	codecLZO
	codecBrotli
	codecLZ4 // as Hadoop frames it, or as a block without a frame
	codecZstd
	codecLZ4Raw
)

// Types of pages.
const (
	dataPage = iota
	indexPage
	dictionaryPage
	dataPageV2
)

// pageHeader is what each page begins with.
type pageHeader struct {
	kind                     int32
	uncompressed, compressed int32
	crc                      uint32
	hasCRC                   bool
	values                   int32
	encoding                 int32
	definitions, repetitions int32 // encodings of the levels in a page of version 1, their bytes in one of version 2
	compressedV2             bool
	described                bool // the header has the part of its type
}

func readPageHeader(t *thrift) pageHeader {
	h := pageHeader{kind: -1, compressedV2: true}
	t.fields(func(id int64, kind byte) bool {
		switch {
		case id == 1 && kind == thriftI32:
			h.kind = t.int32()
		case id == 2 && kind == thriftI32:
			h.uncompressed = t.int32()
		case id == 3 && kind == thriftI32:
			h.compressed = t.int32()
		case id == 4 && kind == thriftI32:
			h.crc, h.hasCRC = uint32(t.int32()), true
		case id == 5 && kind == thriftStruct:
			h.described = h.kind == dataPage
			h.readNumbers(t, &h.values, &h.encoding, &h.definitions, &h.repetitions)
		case id == 7 && kind == thriftStruct:
			h.described = h.kind == dictionaryPage
			h.readNumbers(t, &h.values, &h.encoding)
		case id == 8 && kind == thriftStruct:
			h.described = h.kind == dataPageV2
			h.readNumbers(t, &h.values, nil, nil, &h.encoding, &h.definitions, &h.repetitions)
		default:
			return false
		}
		return true
	})
	return h
}

// readNumbers reads the fields of a structure that are numbers, by their ids from 1; nil skips one.
func (h *pageHeader) readNumbers(t *thrift, into ...*int32) {
	t.fields(func(id int64, kind byte) bool {
		switch {
		case id >= 1 && id <= int64(len(into)) && into[id-1] != nil && kind == thriftI32:
			*into[id-1] = t.int32()
		case id == 7 && (kind == thriftTrue || kind == thriftFalse):
			h.compressedV2 = kind == thriftTrue
		default:
			return false
		}
		return true
	})
}

const (
	firstHeader = 1 << 10  // of which a header usually has fewer bytes
	maxHeader   = 16 << 20 // it may hold statistics with values
)

// readHeader reads the header at a place in the file and returns where its page begins.
func (f *File) readHeader(at, end int64) (pageHeader, int64, error) {
	for size := min(firstHeader, end-at); ; size = min(8*size, end-at) {
		b := make([]byte, size)
		if _, err := f.r.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return pageHeader{}, 0, err
		}
		t := &thrift{b: b}
		h := readPageHeader(t)
		if errors.Is(t.err, io.ErrUnexpectedEOF) && size < end-at && size < maxHeader {
			continue
		}
		if t.err != nil {
			return h, 0, fmt.Errorf("the header of a page: %w", t.err)
		}
		begin := at + size - int64(len(t.b))
		if h.compressed < 0 || h.uncompressed < 0 || h.values < 0 || int64(h.compressed) > end-begin {
			return h, 0, fmt.Errorf("a page of %d bytes, of which the column has %d", h.compressed, end-begin)
		}
		return h, begin, nil
	}
}

// content reads a page that a header describes and decompresses it. What it returns is counted by hold.
func (f *File) content(h *pageHeader, begin int64, codec int32) ([]byte, error) {
	if h.compressed > maxHeld || h.uncompressed > maxHeld {
		return nil, f.hold(maxHeld + 1)
	}
	packed := make([]byte, h.compressed)
	if _, err := f.r.ReadAt(packed, begin); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if h.hasCRC && crc32.ChecksumIEEE(packed) != h.crc {
		return nil, errors.New("a page has another checksum than its header")
	}
	levels := 0
	if h.kind == dataPageV2 { // whose levels come first and are not compressed
		d, r := h.definitions, h.repetitions
		if d < 0 || r < 0 || int64(d)+int64(r) > int64(min(h.compressed, h.uncompressed)) {
			return nil, errors.New("a page has more bytes of levels than bytes")
		}
		levels = int(d + r)
		if !h.compressedV2 {
			codec = codecNone
		}
	}
	size := int(h.uncompressed) - levels
	if codec == codecNone && len(packed)-levels != size {
		return nil, fmt.Errorf("a page of %d bytes states %d", len(packed), h.uncompressed)
	}
	if codec == codecNone || size == 0 {
		return packed, f.hold(int64(len(packed)))
	}
	if err := f.hold(int64(levels + size)); err != nil {
		return nil, err
	}
	plain, err := decompress(codec, packed[levels:], size)
	if err == nil && len(plain) != size {
		err = fmt.Errorf("it has %d bytes and states %d", len(plain), size)
	}
	if err != nil {
		return nil, fmt.Errorf("a page compressed by %s: %w", codecName(codec), err)
	}
	if levels > 0 {
		plain = append(packed[:levels:levels], plain...)
	}
	return plain, nil
}

func codecName(codec int32) string {
	names := [...]string{"no codec", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"}
	if codec < 0 || int(codec) >= len(names) {
		return fmt.Sprintf("codec %d", codec)
	}
	return names[codec]
}

// The most that a byte of both codecs can become.
const (
	snappyRatio = 64
	lz4Ratio    = 256
)

// decompress returns at most size+1 bytes: more than that is none of what the page states.
func decompress(codec int32, packed []byte, size int) ([]byte, error) {
	switch codec {
	case codecSnappy:
		n, err := snappy.DecodedLen(packed)
		if err != nil || n != size || n > snappyRatio*len(packed) {
			return nil, fmt.Errorf("%d bytes state %d, and the page %d", len(packed), n, size)
		}
		return snappy.Decode(nil, packed)
	case codecGzip:
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		return readUpTo(r, packed, size)
	case codecBrotli:
		return readUpTo(brotli.NewReader(bytes.NewReader(packed)), packed, size)
	case codecZstd:
		r, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return readUpTo(r, packed, size)
	case codecLZ4Raw:
		return decompressBlock(packed, size)
	case codecLZ4:
		if plain, ok := decompressHadoop(packed, size); ok {
			return plain, nil
		}
		return decompressBlock(packed, size)
	}
	return nil, errors.New("not supported: write the file with another compression, such as zstd")
}

// maxWindow bounds what decompression of zstd holds.
const maxWindow = 128 << 20

// readUpTo reads size bytes and looks for one more. Memory is taken as they come, so that a size that is only
// stated takes none.
func readUpTo(r io.Reader, packed []byte, size int) ([]byte, error) {
	const usualRatio = 16
	b := bytes.NewBuffer(make([]byte, 0, min(size, usualRatio*len(packed))+bytes.MinRead))
	_, err := b.ReadFrom(io.LimitReader(r, int64(size)+1))
	return b.Bytes(), err
}

func decompressBlock(packed []byte, size int) ([]byte, error) {
	if size > lz4Ratio*len(packed) {
		return nil, fmt.Errorf("%d bytes cannot become the %d that the page states", len(packed), size)
	}
	plain := make([]byte, size)
	n, err := lz4.UncompressBlock(packed, plain)
	return plain[:max(n, 0)], err
}

// decompressHadoop reads blocks that each begin with both of their sizes. It is what it is only if all sizes fit.
func decompressHadoop(packed []byte, size int) (plain []byte, ok bool) {
	const sizes = 8
	for len(packed) >= sizes {
		to, from := binary.BigEndian.Uint32(packed), binary.BigEndian.Uint32(packed[4:])
		packed = packed[sizes:]
		if uint64(from) > uint64(len(packed)) || uint64(to) > uint64(size-len(plain)) {
			return nil, false
		}
		block, err := decompressBlock(packed[:from], int(to))
		if err != nil || len(block) != int(to) {
			return nil, false
		}
		plain, packed = append(plain, block...), packed[from:]
	}
	return plain, len(packed) == 0 && len(plain) == size
}
