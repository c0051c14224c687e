package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/sketch/internal/fault"
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
		key := AccountKey(&l)
		value := AppendAccount(nil, key, &l)
		if got, err := DecodeAccount(key, value); err != nil || got != l {
			t.Fatalf("ledger row %+v, %v, want %+v", got, err, l)
		}

		r := Row{
			Incarnation: l.Incarnation,
			Partition:   l.Partition,
			Offset:      number.Draw(t, "offset"),
			Time:        number.Draw(t, "time"),
			Weight:      rapid.Float64Range(1e-300, MaxWeight).Draw(t, "weight"),
			Payload:     rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
		}
		if rapid.Bool().Draw(t, "grouped") {
			r.Group = policy.Identity{1, 2}
		}
		k := MakeRowKey(ledger.Gate, policy.Identity(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")))
		row := AppendRow(nil, k[:], l.Topic, &r)
		got, err := DecodeRow(k[:], row)
		if err != nil || got.Offset != r.Offset || got.Time != r.Time || got.Weight != r.Weight || string(
			got.Topic) != l.Topic ||
			got.Partition != l.Partition || got.Incarnation != l.Incarnation ||
			got.Group != r.Group ||
			!bytes.Equal(got.Payload, r.Payload) {
			t.Fatalf("row %+v, %v, want %+v", got, err, r)
		}
		if len(k)+len(row) != RowBytes(l.Topic, r.Group, r.Payload) {
			t.Fatalf("row of %d bytes, storedRowBytes is %d", len(k)+len(row),
				RowBytes(l.Topic, r.Group, r.Payload))
		}

		c := Counters{Reasons: rapid.MapOf(rapid.StringMatching(`[a-z_]{1,64}`), number).Draw(t, "reasons")}
		c.Evicted[ledger.Train], c.Threshold[ledger.Train] = true, rapid.Uint64().Draw(t, "threshold")
		for range rapid.IntRange(0, 3).Draw(t, "classes") {
			c.Classes = append(
				c.Classes,
				ClassCount{
					rapid.Bool().Draw(t, "evicted"),
					rapid.Uint64().Draw(t, "threshold"),
					number.Draw(t, "eligible"),
				},
			)
		}
		ck := []byte{PrefixCounters}
		cv := AppendCounters(nil, ck, &c)
		if got, err := DecodeCounters(ck, cv); err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("counters %+v, %v, want %+v", got, err, c)
		}

		bit := rapid.IntRange(0, 8*len(row)-1).Draw(t, "bit")
		row[bit/8] ^= 1 << (bit % 8)
		if _, err := DecodeRow(k[:], row); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("bit %d flipped: %v", bit, err)
		}
		other := k
		other[3] ^= 0x10
		row[bit/8] ^= 1 << (bit % 8)
		if _, err := DecodeRow(other[:], row); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("row at another key: %v", err)
		}
	})
}

// FuzzDecode: stored bytes, sealed or not, are refused without a panic; what is accepted encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	l := ledger.Account{Row: ledger.NewRow("a", 1, 0, 5)}
	f.Add([]byte("la\x00\x00\x00\x00\x01"), AppendAccount(nil, ledgerKey("a", 1), &l))
	k := MakeRowKey(ledger.Train, policy.Identity{1})
	f.Add(k[:], AppendRow(nil, k[:], "a", &Row{Partition: 1, Weight: 1, Payload: []byte("x")}))
	f.Add([]byte{PrefixCounters},
		AppendCounters(nil, []byte{PrefixCounters}, &Counters{Reasons: map[string]int64{"not_json": 1}}))
	f.Add([]byte{PrefixSettings}, AppendSettings(nil, []byte{PrefixSettings}, &policy.Settings{Format: 1}))
	f.Fuzz(func(t *testing.T, key, body []byte) {
		if len(body) >= CRCBytes {
			body = body[:len(body)-CRCBytes]
		}
		value := Seal(key, bytes.Clone(body), 0) // a fuzzer does not find checksums
		if r, err := DecodeRow(key, value); err == nil {
			if got := AppendRow(nil, key, string(r.Topic), &r); !bytes.Equal(got, value) {
				t.Errorf("row %x encodes to %x", value, got)
			}
		}
		if l, err := DecodeAccount(key, value); err == nil && !bytes.Equal(AppendAccount(nil, key, &l), value) {
			t.Errorf("ledger row %x encodes otherwise", value)
		}
		DecodeCounters(key, value)
		DecodeSettings(key, value)
		if _, err := Unseal(key, binary.BigEndian.AppendUint32(value[:len(body):len(body)], Checksum(key, body)+
			1)); err == nil {
			t.Error("a wrong checksum was accepted")
		}
	})
}
