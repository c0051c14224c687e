package consumer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/refitd/refitd/consumer/internal/codec"
)

// A record batch of magic 2 (Kafka protocol guide, "Record Batch") is a header of 61 bytes, then the records,
// compressed as one block: base offset 0:8, length of what follows 8:12, leader epoch 12:16, magic 16, CRC 17:21 of
// everything from 21 on, attributes 21:23, last offset delta 23:27, base time 27:35, largest time 35:43, producer id
// 43:51, epoch 51:53, sequence 53:57, number of records 57:61.
const (
	batchHeaderBytes = 61
	batchPrefixBytes = 12 // base offset and length, which the length does not count

	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrHorizon       = 0x40 // compaction has kept a marker or a tombstone, until a time
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt is wrapped by every error about bytes that are not what a broker may send: a CRC that does not match, a
// length beyond the end, offsets that overlap.
var ErrCorrupt = codec.ErrCorrupt

// batchError says at which offset reading stopped. It wraps ErrCorrupt if fetching again may help.
type batchError struct {
	offset int64
	err    error
}

func (e *batchError) Error() string { return fmt.Sprintf("batch at offset %d: %v", e.offset, e.err) }
func (e *batchError) Unwrap() error { return e.err }

// header is the decoded part of a batch header that the walker needs.
type header struct {
	base       int64
	crc        uint32
	lastDelta  int32
	attributes uint16
	baseTime   int64
	maxTime    int64
	producer   int64
	epoch      int16 // of the producer
	sequence   int32 // of the first record among those of the producer, -1 if it does not number them
	count      int32
}

func (h *header) next() int64 { return h.base + int64(h.lastDelta) + 1 }

// cutBatch splits the first complete batch off raw. ok is false if raw holds none, as at the end of a response, whose
// last batch may be partial.
func cutBatch(raw []byte) (batch, rest []byte, ok bool, err error) {
	if len(raw) < batchHeaderBytes {
		return nil, nil, false, nil
	}
	if raw[16] != 2 {
		return nil, nil, false, codec.Corrupt("magic %d; only 2 can be read, the format of Kafka since 0.11", int8(raw[16]))
	}
	length := int64(int32(binary.BigEndian.Uint32(raw[8:])))
	if length < batchHeaderBytes-batchPrefixBytes {
		return nil, nil, false, codec.Corrupt("length %d is shorter than a header", length)
	}
	if size := batchPrefixBytes + length; size <= int64(len(raw)) {
		return raw[:size:size], raw[size:], true, nil
	}
	return nil, nil, false, nil
}

// checkCRC covers everything but base offset, length, leader epoch and magic.
func checkCRC(batch []byte) error {
	if want, got := binary.BigEndian.Uint32(batch[17:]), crc32.Checksum(batch[21:], castagnoli); want != got {
		return codec.Corrupt("its CRC is %08x, that of its bytes %08x", want, got)
	}
	return nil
}

func parseHeader(batch []byte) (h header, err error) {
	h = header{
		base:       int64(binary.BigEndian.Uint64(batch)),
		crc:        binary.BigEndian.Uint32(batch[17:]),
		attributes: binary.BigEndian.Uint16(batch[21:]),
		lastDelta:  int32(binary.BigEndian.Uint32(batch[23:])),
		baseTime:   int64(binary.BigEndian.Uint64(batch[27:])),
		maxTime:    int64(binary.BigEndian.Uint64(batch[35:])),
		producer:   int64(binary.BigEndian.Uint64(batch[43:])),
		epoch:      int16(binary.BigEndian.Uint16(batch[51:])),
		sequence:   int32(binary.BigEndian.Uint32(batch[53:])),
		count:      int32(binary.BigEndian.Uint32(batch[57:])),
	}
	switch {
	case h.base < 0 || h.base > math.MaxInt64-math.MaxInt32-1:
		err = codec.Corrupt("base offset %d", h.base)
	case h.lastDelta < 0:
		err = codec.Corrupt("last offset delta %d", h.lastDelta)
	case h.count < 0 || int64(h.count) > int64(h.lastDelta)+1:
		err = codec.Corrupt("%d records in %d offsets", h.count, int64(h.lastDelta)+1)
	}
	return h, err
}

// scan checks every batch of a fetched record set by its CRC and the order of their offsets, and returns the offset
// that follows the last complete one, which is where the next fetch starts: not the offset after the last record,
// because compaction takes records from the end of a batch and leaves its offsets. It is from if there is no complete
// batch. On an error, good is the part before the bad batch.
//
// The CRC does not cover the base offset; that bases do not overlap does, except for the first one.
func scan(raw []byte, from int64) (good []byte, next int64, err error) {
	next = from
	end := int64(-1) // of the batch before
	for rest := raw; ; {
		good = raw[:len(raw)-len(rest)]
		batch, after, ok, err := cutBatch(rest)
		if err == nil && !ok {
			if len(good) > 0 && next == from {
				return nil, from, &batchError{from, codec.Corrupt("the broker answered with offsets below it only")}
			}
			return good, next, nil
		}
		var h header
		if err == nil {
			err = checkCRC(batch)
		}
		if err == nil {
			h, err = parseHeader(batch)
		}
		if err == nil && h.base < end {
			err = codec.Corrupt("its base offset %d overlaps the batch before, which ends at %d", h.base, end-1)
		}
		if err != nil {
			return good, next, &batchError{next, err}
		}
		end, rest = h.next(), after
		next = max(next, end)
	}
}

// abortedTransaction is a range of offsets of one producer that ends at its next abort marker.
type abortedTransaction struct {
	producer int64
	first    int64
}

// walker turns the record set of one partition into records, a piece at a time so that memory stays bounded. Reset it
// for each record set. Record bytes alias the record set or the walker's buffer and are valid until the next call of
// walk.
type walker struct {
	maxDecompressed int
	codecs          codec.Decoder

	rest    []byte
	next    int64 // offsets below have been walked
	limit   int64 // offsets from here on are not wanted
	aborted []abortedTransaction
	open    map[int64]bool // producers inside an aborted transaction

	// The batch being walked.
	head    header
	records []byte // bytes not yet walked
	left    int32  // records not yet walked
	delta   int64  // offset delta of the record before, -1 at first
	fate    Fate

	arena    []byte // decompressed batches
	expanded int    // bytes decompressed since the arena was last empty
	walked   int    // bytes of the records given by the last walk
	scratch  [8]byte
}

// reset starts on a record set that scan found good. Records below from or from limit on are left out. aborted must be
// in the order of first offsets, as brokers send it.
func (w *walker) reset(good []byte, from, limit int64, aborted []abortedTransaction) {
	w.rest, w.next, w.limit, w.aborted = good, from, limit, aborted
	w.records, w.left = nil, 0
	if w.open == nil {
		w.open = make(map[int64]bool)
	}
	clear(w.open)
}

// maxWalked is how many bytes of records are walked at once, and one record more: a sink holds several such batches,
// decoded.
const maxWalked = 512 << 10

// walk appends up to most records to dst, fewer if they are large, and returns it with the offset below which
// everything has now been walked.
// done is true when the record set is at its end. An error is a *batchError; the records before it are good.
func (w *walker) walk(dst []Record, most int) (_ []Record, next int64, done bool, err error) {
	if w.left == 0 {
		w.arena, w.expanded = w.arena[:0], 0
	}
	w.walked = 0
	for n := len(dst) + most; len(dst) < n && w.walked < maxWalked; {
		if w.left > 0 {
			if dst, err = w.take(dst, n-len(dst)); err != nil {
				return dst, w.next, true, &batchError{w.next, err}
			}
			continue
		}
		if w.next >= w.limit {
			return dst, w.next, true, nil
		}
		batch, rest, ok, err := cutBatch(w.rest)
		if err == nil && !ok {
			return dst, w.next, true, nil
		}
		var h header
		if err == nil {
			h, err = parseHeader(batch)
		}
		if err != nil {
			return dst, w.next, true, &batchError{w.next, err}
		}
		if h.attributes&attrCodec != 0 && w.expanded >= w.maxDecompressed {
			return dst, w.next, false, nil
		}
		w.rest = rest
		if err := w.begin(h, batch[batchHeaderBytes:]); err != nil {
			if big, ok := errors.AsType[*codec.TooBigError](err); ok {
				big.Next = h.next()
			}
			return dst, w.next, true, &batchError{w.next, err}
		}
	}
	return dst, w.next, w.left == 0 && (len(w.rest) == 0 || w.next >= w.limit), nil
}

// begin makes h the batch being walked.
func (w *walker) begin(h header, payload []byte) error {
	if h.next() <= w.next { // below the offset that was asked for
		w.track(h)
		return nil
	}
	if h.count == 0 {
		payload = nil
	} else if codec := h.attributes & attrCodec; codec != 0 {
		free := w.arena[len(w.arena):]
		block, err := w.codecs.Decompress(free, payload, codec, w.maxDecompressed)
		if err != nil {
			return err
		}
		w.expanded += len(block)
		if cap(block) == cap(free) {
			w.arena = w.arena[:len(w.arena)+len(block)]
		} else { // it did not fit and is allocated separately; make room for as much next time
			w.arena = make([]byte, 0, min(2*w.expanded, 2*w.maxDecompressed))
		}
		payload = block
	}
	w.head, w.records, w.left, w.delta = h, payload, h.count, -1
	w.track(h)
	if h.count == 0 {
		return w.finish()
	}
	return nil
}

// track opens aborted transactions that begin in h, closes one that h ends, and sets the fate of h's records.
func (w *walker) track(h header) {
	for len(w.aborted) > 0 && w.aborted[0].first < h.next() {
		w.open[w.aborted[0].producer] = true
		w.aborted = w.aborted[1:]
	}
	switch {
	case h.attributes&attrControl != 0:
		w.fate = Control
		delete(w.open, h.producer)
	case h.attributes&attrTransactional != 0 && w.open[h.producer]:
		w.fate = Aborted
	default:
		w.fate = Delivered
	}
}

// finish leaves the batch being walked.
func (w *walker) finish() error {
	if len(w.records) > 0 {
		return codec.Corrupt("%d bytes after its %d records", len(w.records), w.head.count)
	}
	w.next = min(max(w.next, w.head.next()), w.limit)
	return nil
}

// take appends up to most records of the batch being walked.
func (w *walker) take(dst []Record, most int) ([]Record, error) {
	for ; most > 0 && w.left > 0 && w.walked < maxWalked; w.left-- {
		b := w.records
		size, n := varint(b)
		if n <= 0 || size < 0 || size > int64(len(b)-n) {
			return dst, codec.Corrupt("the length of a record is out of bounds")
		}
		body := b[n : n+int(size)]
		w.records = b[n+int(size):]
		w.walked += int(size)
		dst = append(dst, Record{Fate: w.fate})
		r := &dst[len(dst)-1]
		delta, err := r.parse(body)
		if err == nil && (delta <= w.delta || delta > int64(w.head.lastDelta)) {
			err = codec.Corrupt("offset delta %d after %d in a batch that ends at %d", delta, w.delta, w.head.lastDelta)
		}
		if err != nil {
			return dst[:len(dst)-1], err
		}
		w.delta = delta
		if r.Offset = w.head.base + delta; r.Offset < w.next {
			dst = dst[:len(dst)-1]
			continue
		}
		if r.Offset >= w.limit {
			w.left, w.records, w.next = 0, nil, w.limit
			return dst[:len(dst)-1], nil
		}
		if r.Timestamp += w.head.baseTime; w.head.attributes&attrLogAppendTime != 0 {
			r.Timestamp, r.Appended = w.head.maxTime, true
		}
		if w.fate == Delivered {
			r.CRC = recordCRC(r, &w.scratch)
		} else {
			r.Key, r.Value, r.Headers = nil, nil, nil
		}
		w.next = r.Offset + 1
		most--
	}
	if w.left == 0 {
		return dst, w.finish()
	}
	return dst, nil
}

// parse reads one record without its length and returns its offset delta. Timestamp is then the delta to the batch's
// base time.
func (r *Record) parse(b []byte) (offsetDelta int64, err error) {
	if len(b) < 1 {
		return 0, codec.Corrupt("an empty record")
	}
	b = b[1:] // attributes, unused
	var n int
	if r.Timestamp, n = varint(b); n <= 0 {
		return 0, codec.Corrupt("the time of a record is out of bounds")
	}
	b = b[n:]
	if offsetDelta, n = varint(b); n <= 0 {
		return 0, codec.Corrupt("the offset of a record is out of bounds")
	}
	b = b[n:]
	var ok bool
	if r.Key, b, ok = cutBytes(b); !ok {
		return 0, codec.Corrupt("the key of a record is out of bounds")
	}
	if r.Value, b, ok = cutBytes(b); !ok {
		return 0, codec.Corrupt("the value of a record is out of bounds")
	}
	if len(b) == 1 && b[0] == 0 { // no headers, the common case
		return offsetDelta, nil
	}
	r.Headers = b
	headers, n := varint(b)
	if n <= 0 || headers < 0 || headers > int64(len(b)) {
		return 0, codec.Corrupt("the headers of a record are out of bounds")
	}
	b = b[n:]
	for range headers {
		var key []byte
		if key, b, ok = cutBytes(b); ok && key != nil {
			_, b, ok = cutBytes(b)
		}
		if !ok || key == nil {
			return 0, codec.Corrupt("a header of a record is out of bounds")
		}
	}
	if len(b) > 0 {
		return 0, codec.Corrupt("%d bytes after a record", len(b))
	}
	return offsetDelta, nil
}

// cutBytes reads a length and so many bytes; length -1 is nil.
func cutBytes(b []byte) (field, rest []byte, ok bool) {
	size, n := varint(b)
	switch {
	case n <= 0 || size < -1 || size > int64(len(b)-n):
		return nil, nil, false
	case size == -1:
		return nil, b[n:], true
	}
	end := n + int(size)
	return b[n:end:end], b[end:], true
}

// varint reads a zigzag varint of at most 10 bytes and returns how many it took, not above 0 if b does not hold one.
func varint(b []byte) (int64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	if len(b) > 1 && b[1] < 0x80 {
		u := uint64(b[0]&0x7f) | uint64(b[1])<<7
		return int64(u>>1) ^ -int64(u&1), 2
	}
	return binary.Varint(b)
}

// recordCRC is the Castagnoli CRC of key, value and time stamp (big endian), in this order. scratch is for the time
// stamp: a local array would be allocated for each record.
func recordCRC(r *Record, scratch *[8]byte) uint32 {
	binary.BigEndian.PutUint64(scratch[:], uint64(r.Timestamp))
	crc := crc32.Update(0, castagnoli, r.Key)
	crc = crc32.Update(crc, castagnoli, r.Value)
	return crc32.Update(crc, castagnoli, scratch[:])
}
