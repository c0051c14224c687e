package outbox

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/sketch/internal/codec"
)

func TestDeadLetterCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Letter{
			Topic:       rapid.StringMatching(`[a-z._-]{1,249}`).Draw(t, "topic"),
			Partition:   rapid.Int32Min(0).Draw(t, "partition"),
			Incarnation: rapid.Uint32().Draw(t, "incarnation"),
			Offset:      rapid.Int64Min(0).Draw(t, "offset"),
			Reason:      rapid.StringMatching(`[a-z_]{1,64}`).Draw(t, "reason"),
			Time:        rapid.Int64().Draw(t, "time"),
			Size: rapid.IntRange(-1, 1<<30).
				Draw(t, "size"),
			Payload: rapid.SliceOfN(rapid.Byte(), 0, MaxLetterBytes).Draw(t, "payload"),
		}
		key := Key(want.Topic, want.Partition, want.Incarnation, want.Offset)
		record, detail := Letter{Reason: want.Reason, Time: want.Time, Size: want.Size, Payload: want.Payload}, (*Detail)(nil)
		if rapid.Bool().Draw(t, "with a detail") {
			want.Detail = Detail{
				Field:    rapid.StringN(0, 60, 60).Draw(t, "field"),
				Expected: rapid.StringMatching(`[a-z ]{0,64}`).Draw(t, "expected"),
				Got:      rapid.StringMatching(`[a-z ]{0,64}`).Draw(t, "got"),
			}
			detail = &want.Detail
		}
		got, err := decode(key, Append(nil, key, &record, detail))
		if err != nil || !bytes.Equal(got.Payload, want.Payload) {
			t.Fatalf("letter %+v, %v, want %+v", got, err, want)
		}
		got.Payload, want.Payload = nil, nil
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("letter %+v, want %+v", got, want)
		}
	})
}

// TestDeadLetterOfALongField: a name that there is no room for is cut between characters, and one of an older build has
// no detail.
func TestDeadLetterOfALongField(t *testing.T) {
	key := Key("a", 1, 0, 5)
	long := Letter{Reason: strings.Repeat("r", 64), Payload: []byte("value"),
		Detail: Detail{
			Field:    strings.Repeat("ü", 200),
			Expected: strings.Repeat("e", 64),
			Got:      strings.Repeat("g", 64),
		}}
	got, err := decode(key, Append(nil, key, &long, &long.Detail))
	if err != nil || got.Field != strings.Repeat("ü", 30) || got.Expected != long.Expected ||
		got.Got != long.Got ||
		got.Reason != long.Reason ||
		string(got.Payload) != "value" {
		t.Errorf("%+v, %v", got, err)
	}
	before := []byte("\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x02\x08not_json{]")
	got, err = decode(key, codec.Seal(key, before, 0))
	if err != nil || got.Reason != "not_json" || got.Detail != (Detail{}) || got.Time != 1000 ||
		string(got.Payload) != "{]" {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzDeadLetter: stored bytes are refused without a panic; what is accepted encodes to the same bytes.
func FuzzDeadLetter(f *testing.F) {
	key := Key("a", 1, 0, 5)
	f.Add(key, Append(nil, key, &Letter{Reason: "not_json", Size: -1}, nil))
	f.Add(key, Append(nil, key, &Letter{Reason: "not_json", Size: 2, Payload: []byte("{]")}, nil))
	f.Add([]byte("o"), []byte(strings.Repeat("\xff", 40)))
	f.Fuzz(func(t *testing.T, key, body []byte) {
		if len(body) >= codec.CRCBytes {
			body = body[:len(body)-codec.CRCBytes]
		}
		value := codec.Seal(key, bytes.Clone(body), 0) // a fuzzer does not find checksums
		l, err := decode(key, value)
		if err != nil {
			return
		}
		if again := Key(l.Topic, l.Partition, l.Incarnation, l.Offset); !bytes.Equal(again, key) {
			t.Errorf("key %x became %x", key, again)
		}
		record, detail := Letter{Reason: l.Reason, Time: l.Time, Size: l.Size, Payload: l.Payload}, (*Detail)(nil)
		if bytes.Contains(value[13:13+int(value[12])], []byte{0}) && !strings.Contains(l.Reason, "\x00") {
			detail = &l.Detail
		}
		if got := Append(nil, key, &record, detail); !bytes.Equal(got, value) {
			t.Errorf("letter %x encodes to %x", value, got)
		}
	})
}
