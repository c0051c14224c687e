package consumer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/internal/codec"
)

// walkAll scans and walks a record set in pieces of most records, and checks what must hold for any input.
func walkAll(t testing.TB, w *walker, raw []byte, from, limit int64, aborted []AbortedTransaction,
	most int) (out []Record, next int64, err error) {
	t.Helper()
	good, scanned, scanErr := scan(raw, from)
	w.reset(good, from, limit, aborted)
	next = from
	for done := false; !done; {
		var piece []Record
		before := next
		piece, next, done, err = w.walk(nil, most)
		if len(piece) > most {
			t.Fatalf("walk returned %d records, asked for %d", len(piece), most)
		}
		for _, r := range piece {
			if r.Offset < before || r.Offset >= next {
				t.Fatalf("offset %d outside of [%d, %d)", r.Offset, before, next)
			}
			before = r.Offset + 1
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			out = append(out, r)
		}
		if !done && len(piece) == 0 && next == before {
			t.Fatal("walk makes no progress")
		}
	}
	if err == nil && next != min(scanned, max(limit, from)) {
		t.Fatalf("walked to %d, scanned to %d, limit %d", next, scanned, limit)
	}
	return out, next, errors.Join(err, scanErr)
}

// randomLog is a log with holes, empty batches, markers and aborted transactions, and what a reader must make of it:
// want.
func randomLog(t testing.TB,
	rng *rand.Rand) (raw []byte, cuts []int, ends []int64, want []Record, aborted []AbortedTransaction) {
	base := rng.Int64N(1000)
	open := map[int64]int64{} // producer in a transaction that will be aborted → 1, committed → 0
	for range 1 + rng.IntN(12) {
		b := rawBatch{base: base, baseTime: rng.Int64N(1e12), producer: -1, attributes: uint16(rng.IntN(5))}
		if b.attributes == codec.Snappy && rng.IntN(2) == 0 {
			b.attributes |= xerial
		}
		b.maxTime = b.baseTime + 77
		if rng.IntN(4) == 0 {
			b.attributes |= attrLogAppendTime
		}
		fate := Delivered
		switch rng.IntN(4) {
		case 0, 1: // transactional
			b.producer = int64(rng.IntN(3))
			b.attributes |= attrTransactional
			if _, ok := open[b.producer]; !ok {
				open[b.producer] = rng.Int64N(2)
				if open[b.producer] == 1 {
					aborted = append(aborted, AbortedTransaction{b.producer, base})
				}
			}
			if open[b.producer] == 1 {
				fate = Aborted
			}
		case 2: // marker
			for producer, abort := range open {
				b.producer, b.attributes = producer, attrTransactional|attrControl
				b.records = marker(abort == 0)
				fate = Control
				delete(open, producer)
				break
			}
		}
		if fate != Control {
			for delta := int64(0); delta < int64(rng.IntN(30)); delta++ {
				if rng.IntN(3) == 0 {
					continue // a hole
				}
				r := rawRecord{delta: delta, timeDelta: rng.Int64N(200) - 100, headers: rng.IntN(2)}
				if rng.IntN(2) == 0 {
					r.key = fmt.Appendf(nil, "key%d", delta)
				}
				if rng.IntN(5) > 0 {
					r.value = bytes.Repeat([]byte{'v'}, rng.IntN(300))
				}
				b.records = append(b.records, r)
			}
		}
		b.lastDelta = int32(rng.IntN(5))
		if n := len(b.records); n > 0 {
			b.lastDelta += int32(b.records[n-1].delta)
		}
		for _, r := range b.records {
			at := b.baseTime + r.timeDelta
			if b.attributes&attrLogAppendTime != 0 {
				at = b.maxTime
			}
			rec := Record{Offset: base + r.delta, Timestamp: at, Fate: fate}
			if fate == Delivered {
				rec.Key, rec.Value = r.key, r.value
				rec.CRC = recordCRC(&rec, new([8]byte))
			}
			want = append(want, rec)
		}
		raw = append(raw, b.bytes(t)...)
		base += int64(b.lastDelta) + 1
		cuts, ends = append(cuts, len(raw)), append(ends, base)
		base += int64(rng.IntN(2) * rng.IntN(50))
	}
	return raw, cuts, ends, want, aborted
}

func TestWalkerAgainstGenerator(t *testing.T) {
	w := &walker{maxDecompressed: 1 << 20}
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 1))
		raw, cuts, ends, want, aborted := randomLog(t, rng)
		last := rng.IntN(len(cuts))
		end := ends[last]
		set := raw[:cuts[last]]
		if last+1 < len(cuts) { // a partial batch at the end
			set = raw[:cuts[last]+rng.IntN(cuts[last+1]-cuts[last])]
		}
		from, limit := int64(0), int64(math.MaxInt64)
		if rng.IntN(2) == 0 {
			from = rng.Int64N(end)
		}
		if rng.IntN(2) == 0 {
			limit = from + rng.Int64N(end-from+10)
		}
		got, next, err := walkAll(t, w, set, from, limit, aborted, 1+rng.IntN(40))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if next != min(end, limit) {
			t.Fatalf("seed %d: next is %d, want %d", seed, next, min(end, limit))
		}
		i := 0
		for _, r := range want {
			if r.Offset < from || r.Offset >= next {
				continue
			}
			if i >= len(got) || !sameRecord(got[i], r) {
				t.Fatalf("seed %d: record %d of %d is not %+v", seed, i, len(got), r)
			}
			i++
		}
		if i != len(got) {
			t.Fatalf("seed %d: %d records, want %d", seed, len(got), i)
		}
	}
}

func sameRecord(a, b Record) bool {
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && a.CRC == b.CRC && a.Fate == b.Fate &&
		(a.Key == nil) == (b.Key == nil) &&
		(a.Value == nil) == (b.Value == nil) &&
		bytes.Equal(a.Key, b.Key) &&
		bytes.Equal(a.Value, b.Value)
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	first := rawBatch{base: 10, lastDelta: 2, records: []rawRecord{{value: []byte("good")}}}.bytes(t)
	second := rawBatch{base: 13, lastDelta: 0, records: []rawRecord{{value: []byte("abcdef")}}}.bytes(t)
	third := rawBatch{base: 14, lastDelta: 0, records: []rawRecord{{value: []byte("later")}}}.bytes(t)
	w := &walker{maxDecompressed: 1 << 20}
	for bit := range len(second) * 8 {
		damaged := bytes.Clone(second)
		damaged[bit/8] ^= 1 << (bit % 8)
		raw := append(append(bytes.Clone(first), damaged...), third...)
		got, next, err := walkAll(t, w, raw, 10, math.MaxInt64, nil, 100)
		switch at := bit / 8; {
		case at >= 12 && at < 16: // leader epoch: neither covered by the CRC nor used
		case at < 8 && binary.BigEndian.Uint64(damaged) > 13: // base offset: an overlap, or a jump, about which confirm asks
			if len(got) > 1 && got[1].Offset == 13 {
				t.Errorf("bit %d: delivered", bit)
			}
		case at >= 8 && at < 12 && err == nil: // a longer batch looks partial
			if next != 13 {
				t.Errorf("bit %d of the length: next is %d, want 13", bit, next)
			}
		default:
			if !errors.Is(err, ErrCorrupt) || next != 13 || len(got) != 1 {
				t.Errorf("bit %d: %d records, next %d, error %v", bit, len(got), next, err)
			}
		}
	}
}

func TestWalkerRefuses(t *testing.T) {
	one := []rawRecord{{value: []byte("v")}}
	bomb := bytes.Repeat([]byte{0}, 1<<20)
	sealed := func(b rawBatch, records []byte) []byte { return b.seal(records) }
	tests := []struct {
		name string
		raw  []byte
		want string
	}{
		{"magic 1", func() []byte { b := rawBatch{records: one}.bytes(t); b[16] = 1; return b }(), "magic 1"},
		{
			"overlapping bases",
			append(rawBatch{base: 5, lastDelta: 4, records: one}.bytes(t), rawBatch{base: 9, records: one}.bytes(t)...),
			"overlaps",
		},
		{"only offsets below", rawBatch{base: -0, lastDelta: 0, records: one}.bytes(t), "below it only"},
		{"negative base", rawBatch{base: -7, records: one}.bytes(t), "base offset"},
		{"negative last delta", rawBatch{base: 5, lastDelta: -1, records: one}.bytes(t), "last offset delta"},
		{
			"more records than offsets",
			rawBatch{base: 5, lastDelta: 0, records: append(one, rawRecord{delta: 1})}.bytes(t),
			"2 records in 1 offsets",
		},
		{
			"delta beyond the batch",
			rawBatch{base: 5, lastDelta: 1, records: []rawRecord{{delta: 2}}}.bytes(t),
			"offset delta 2",
		},
		{
			"delta twice",
			rawBatch{base: 5, lastDelta: 3, records: []rawRecord{{delta: 1}, {delta: 1}}}.bytes(t),
			"offset delta 1 after 1",
		},
		{"record length", sealed(rawBatch{base: 5, records: one}, []byte{0x7e, 0}), "length of a record"},
		{
			"value length",
			sealed(rawBatch{base: 5, records: one}, []byte{14, 0, 0, 0, 1, 0x7e, 0, 0}),
			"value of a record",
		},
		{"key length", sealed(rawBatch{base: 5, records: one}, []byte{14, 0, 0, 0, 0x7e, 0, 0, 0}), "key of a record"},
		{
			"endless varint",
			sealed(rawBatch{base: 5, records: one}, append([]byte{26, 0}, bytes.Repeat([]byte{0xff}, 12)...)),
			"time of a record",
		},
		{
			"header count",
			sealed(rawBatch{base: 5, records: one}, []byte{14, 0, 0, 0, 1, 1, 0x7e, 0}),
			"headers of a record",
		},
		{
			"missing header",
			sealed(rawBatch{base: 5, records: one}, []byte{12, 0, 0, 0, 1, 1, 2}),
			"a header of a record",
		},
		{
			"bytes after a record",
			sealed(rawBatch{base: 5, records: one}, []byte{14, 0, 0, 0, 1, 1, 0, 0}),
			"1 bytes after a record",
		},
		{
			"bytes after the records",
			sealed(rawBatch{base: 5, records: one}, []byte{12, 0, 0, 0, 1, 1, 0, 9}),
			"bytes after its 1 records",
		},
		{"unknown codec", sealed(rawBatch{base: 5, attributes: 6, records: one}, []byte{1}), "codec 6"},
		{"gzip garbage", sealed(rawBatch{base: 5, attributes: 1, records: one}, []byte("garbage")), "gzip"},
		{"snappy garbage", sealed(rawBatch{base: 5, attributes: 2, records: one}, []byte{0xff, 0xff}), "snappy"},
		{
			"snappy promise",
			sealed(rawBatch{base: 5, attributes: 2, records: one}, []byte{0x80, 0x80, 2, 0}),
			"cannot hold",
		},
		{
			"xerial garbage",
			sealed(rawBatch{base: 5, attributes: 2, records: one},
				append(bytes.Clone(xerialMagic), make([]byte, 12)...)),
			"snappy",
		},
		{"lz4 garbage", sealed(rawBatch{base: 5, attributes: 3, records: one}, []byte("garbage")), "lz4"},
		{"zstd garbage", sealed(rawBatch{base: 5, attributes: 4, records: one}, []byte("garbage")), "zstd"},
	}
	for codec := uint16(1); codec <= 4; codec++ {
		tests = append(tests, struct {
			name string
			raw  []byte
			want string
		}{fmt.Sprintf("bomb of codec %d", codec), rawBatch{base: 5, attributes: codec,
			records: []rawRecord{{value: bomb}}}.bytes(t), "decompresses to more than 65536"})
	}
	tests = append(tests, struct {
		name string
		raw  []byte
		want string
	}{"xerial bomb", rawBatch{base: 5, attributes: 2 | xerial, records: []rawRecord{{value: bomb}}}.bytes(t),
		"decompresses to more than 65536"})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &walker{maxDecompressed: 1 << 16}
			got, next, err := walkAll(t, w, tt.raw, 5, math.MaxInt64, nil, 10)
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "batch at offset") {
				t.Errorf("error %v, want it to contain %q", err, tt.want)
			}
			if len(got) > 1 || next > 10 {
				t.Errorf("%d records, next %d", len(got), next)
			}
			if cap(w.arena) > 1<<18 {
				t.Errorf("%d bytes allocated", cap(w.arena))
			}
		})
	}
}

// TestBatchesThatDecompressedTogetherAreTooBig shows that the limit is one of a batch, and memory one of a few.
func TestBatchesThatDecompressedTogetherAreTooBig(t *testing.T) {
	var raw []byte
	for base := range int64(50) {
		raw = append(
			raw,
			rawBatch{base: base, attributes: codec.Zstd, records: []rawRecord{{value: make([]byte, 60000)}}}.bytes(t)...)
	}
	w := &walker{maxDecompressed: 1 << 16}
	got, next, err := walkAll(t, w, raw, 0, math.MaxInt64, nil, 1000)
	if len(got) != 50 || next != 50 || err != nil {
		t.Errorf("%d records, next %d, %v", len(got), next, err)
	}
	if cap(w.arena) > 1<<19 {
		t.Errorf("%d bytes held", cap(w.arena))
	}
}

func FuzzWalker(f *testing.F) {
	for seed := range uint64(20) {
		raw, _, _, _, aborted := randomLog(f, rand.New(rand.NewPCG(seed, 2)))
		f.Add(raw, int64(0), int64(len(aborted)), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, from, producer int64, seal bool) {
		if from < 0 {
			return
		}
		if seal { // get past the CRC
			for b := raw; ; {
				batch, rest, ok, err := cutBatch(b)
				if !ok || err != nil {
					break
				}
				binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
				b = rest
			}
		}
		w := &walker{maxDecompressed: 1 << 16}
		walkAll(t, w, raw, from, math.MaxInt64, []AbortedTransaction{{producer, from}}, 7)
		if cap(w.arena) > 1<<19 {
			t.Errorf("%d bytes of decompressed data are held", cap(w.arena))
		}
	})
}

func BenchmarkWalker(b *testing.B) {
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		b.Run(name, func(b *testing.B) {
			const perBatch, batches = 500, 20
			var raw []byte
			rng := rand.New(rand.NewPCG(1, 1))
			for k := range int64(batches) {
				batch := rawBatch{
					base:       k * perBatch,
					lastDelta:  perBatch - 1,
					attributes: uint16(codec),
					baseTime:   1.7e12,
				}
				for i := range int64(perBatch) {
					batch.records = append(
						batch.records,
						rawRecord{delta: i, timeDelta: i, key: fmt.Appendf(nil, "u%d", rng.IntN(10000)),
							value: fmt.Appendf(nil,
								`{"user":"u%d","item":"i%d","rating":%d,"ts":%d,"pad":"0123456789012345678901234567"}`,
								rng.IntN(10000), rng.IntN(10000), 1+rng.IntN(5), 1_700_000_000_000+rng.IntN(1e9))},
					)
				}
				raw = append(raw, batch.bytes(b)...)
			}
			w := &walker{maxDecompressed: 16 << 20}
			var out []Record
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				good, _, err := scan(raw, 0)
				if err != nil {
					b.Fatal(err)
				}
				w.reset(good, 0, math.MaxInt64, nil)
				n := 0
				for done := false; !done; {
					if out, _, done, err = w.walk(out[:0], 4096); err != nil {
						b.Fatal(err)
					}
					n += len(out)
				}
				if n != perBatch*batches {
					b.Fatalf("%d records", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(perBatch*batches), "ns/record")
		})
	}
}
