package sketch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// TestCodecs: what is encoded comes back, any flipped bit is noticed, and so is another key.
func TestCodecs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Int64()
		l := ledger.Account{Row: ledger.NewRow(rapid.StringMatching(`[a-z._-]{1,249}`).Draw(t, "topic"),
			rapid.Int32Min(0).Draw(t, "partition"), rapid.Uint32().Draw(t, "incarnation"), 0)}
		for _, v := range accountInts(&l) {
			*v = number.Draw(t, "count")
		}
		l.LastCRC, l.Halted = rapid.Uint32().Draw(t, "crc"), rapid.String().Draw(t, "halted")
		l.Archived = rapid.Bool().Draw(t, "archived")
		key := accountKey(&l)
		value := appendLedger(nil, key, &l)
		if got, err := decodeLedger(key, value); err != nil || got != l {
			t.Fatalf("ledger row %+v, %v, want %+v", got, err, l)
		}

		r := Record{
			Offset:  number.Draw(t, "offset"),
			Time:    number.Draw(t, "time"),
			Weight:  rapid.Float64Range(1e-300, maxWeight).Draw(t, "weight"),
			Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
		}
		if rapid.Bool().Draw(t, "grouped") {
			r.group = policy.Identity{1, 2}
		}
		k := makeRowKey(Gate, policy.Identity(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")))
		row := appendRow(nil, k[:], &l, &r)
		got, err := decodeRow(k[:], row)
		if err != nil || got.offset != r.Offset || got.time != r.Time || got.weight != r.Weight || string(
			got.topic) != l.Topic ||
			got.partition != l.Partition || got.incarnation != l.Incarnation ||
			got.group != r.group ||
			!bytes.Equal(got.payload, r.Payload) {
			t.Fatalf("row %+v, %v, want %+v", got, err, r)
		}
		if len(k)+len(row) != storedRowBytes(l.Topic, r.group, r.Payload) {
			t.Fatalf("row of %d bytes, storedRowBytes is %d", len(k)+len(row),
				storedRowBytes(l.Topic, r.group, r.Payload))
		}

		c := counters{reasons: rapid.MapOf(rapid.StringMatching(`[a-z_]{1,64}`), number).Draw(t, "reasons")}
		c.evicted[Train], c.threshold[Train] = true, rapid.Uint64().Draw(t, "threshold")
		for range rapid.IntRange(0, 3).Draw(t, "classes") {
			c.classes = append(
				c.classes,
				classCount{
					rapid.Bool().Draw(t, "evicted"),
					rapid.Uint64().Draw(t, "threshold"),
					number.Draw(t, "eligible"),
				},
			)
		}
		ck := []byte{prefixCounters}
		cv := appendCounters(nil, ck, &c)
		if got, err := decodeCounters(ck, cv); err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("counters %+v, %v, want %+v", got, err, c)
		}

		bit := rapid.IntRange(0, 8*len(row)-1).Draw(t, "bit")
		row[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeRow(k[:], row); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d flipped: %v", bit, err)
		}
		other := k
		other[3] ^= 0x10
		row[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeRow(other[:], row); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("row at another key: %v", err)
		}
	})
}

// FuzzDecode: stored bytes, sealed or not, are refused without a panic; what is accepted encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	l := ledger.Account{Row: ledger.NewRow("a", 1, 0, 5)}
	f.Add([]byte("la\x00\x00\x00\x00\x01"), appendLedger(nil, ledgerKey("a", 1), &l))
	k := makeRowKey(Train, policy.Identity{1})
	f.Add(k[:], appendRow(nil, k[:], &l, &Record{Weight: 1, Payload: []byte("x")}))
	f.Add([]byte{prefixCounters},
		appendCounters(nil, []byte{prefixCounters}, &counters{reasons: map[string]int64{"not_json": 1}}))
	f.Add([]byte{prefixSettings}, appendSettings(nil, []byte{prefixSettings}, &policy.Settings{Format: 1}))
	f.Fuzz(func(t *testing.T, key, body []byte) {
		if len(body) >= crcBytes {
			body = body[:len(body)-crcBytes]
		}
		value := seal(key, bytes.Clone(body), 0) // a fuzzer does not find checksums
		if r, err := decodeRow(key, value); err == nil {
			again := ledger.Account{Row: LedgerRow{Topic: string(r.topic), Partition: r.partition,
				Incarnation: r.incarnation}}
			if got := appendRow(nil, key, &again, &Record{Offset: r.offset, Time: r.time, Weight: r.weight, Payload: r.payload,
				group: r.group}); !bytes.Equal(got, value) {
				t.Errorf("row %x encodes to %x", value, got)
			}
		}
		if l, err := decodeLedger(key, value); err == nil && !bytes.Equal(appendLedger(nil, key, &l), value) {
			t.Errorf("ledger row %x encodes otherwise", value)
		}
		decodeCounters(key, value)
		decodeSettings(key, value)
		if _, err := unseal(key, binary.BigEndian.AppendUint32(value[:len(body):len(body)], checksum(key, body)+
			1)); err == nil {
			t.Error("a wrong checksum was accepted")
		}
	})
}
