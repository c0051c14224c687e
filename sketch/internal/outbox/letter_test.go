package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
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
			Payload: rapid.SliceOfN(rapid.Byte(), 0, MaxLetterBytes/2).Draw(t, "payload"),
			Detail:  Detail{KeySize: -1},
		}
		key := Key(want.Topic, want.Partition, want.Incarnation, want.Offset)
		record, detail := Letter{Reason: want.Reason, Time: want.Time, Size: want.Size, Payload: want.Payload}, (*Detail)(nil)
		if rapid.Bool().Draw(t, "with a detail") {
			want.Detail = Detail{
				Field:    rapid.StringN(0, 60, 60).Draw(t, "field"),
				Expected: rapid.StringMatching(`[a-z ]{0,64}`).Draw(t, "expected"),
				Got:      rapid.StringMatching(`[a-z ]{0,64}`).Draw(t, "got"),
				KeySize:  -1,
				Headers:  rapid.SliceOfN(rapid.Byte(), 0, MaxLetterBytes/4).Draw(t, "headers"),
			}
			if rapid.Bool().Draw(t, "with a key") {
				want.Key = rapid.SliceOfN(rapid.Byte(), 0, MaxLetterBytes/4).Draw(t, "key")
				want.KeySize = len(want.Key) + rapid.IntRange(0, 1<<20).Draw(t, "cut off")
			}
			detail = &want.Detail
		}
		got, err := decode(key, Append(nil, key, &record, detail))
		if err != nil || (got.Key == nil) != (want.Key == nil) || (got.Headers == nil) != (len(want.Headers) == 0) {
			t.Fatalf("letter %+v, %v, want %+v", got, err, want)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("letter %+v, want %+v", got, want)
		}
	})
}

// TestDeadLetterOfALongField: a name that there is no room for is cut between characters.
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
}

// TestDeadLetterOfOlderBuilds: letters without a format are read, with and without a detail. Later formats are refused.
func TestDeadLetterOfOlderBuilds(t *testing.T) {
	key := Key("a", 1, 0, 5)
	const about = "\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x02"
	want := Letter{Topic: "a", Partition: 1, Offset: 5, Reason: "not_json", Time: 1000, Size: 2,
		Detail: Detail{KeySize: -1}, Payload: []byte("{]")}
	got, err := decode(key, codec.Seal(key, []byte(about+"\x08not_json{]"), 0))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	want.Reason, want.Field, want.Expected, want.Got = "wrong_type", "item", "a name", "a list"
	before := about + "\x1dwrong_type\x00a name\x00a list\x00item{]"
	if got, err = decode(key, codec.Seal(key, []byte(before), 0)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	now := Append(nil, key, &want, &want.Detail)
	if got, err = decode(key, now); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	now[13]++ // the number of its format
	if _, err = decode(key, codec.Seal(key, now[:len(now)-codec.CRCBytes], 0)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a later format: %v", err)
	}
}

// FuzzDeadLetter: stored bytes are refused without a panic; what is accepted encodes to the same bytes.
func FuzzDeadLetter(f *testing.F) {
	key := Key("a", 1, 0, 5)
	f.Add(key, Append(nil, key, &Letter{Reason: "not_json", Size: -1}, nil))
	f.Add(key, Append(nil, key, &Letter{Reason: "not_json", Size: 2, Payload: []byte("{]")}, nil))
	of := Detail{KeySize: 7, Key: []byte("user"), Headers: []byte("\x02\x02a\x01")}
	f.Add(key, Append(nil, key, &Letter{Reason: "not_json", Size: 2, Payload: []byte("{]")}, &of))
	f.Add(key, codec.Seal(key, []byte(strings.Repeat("\x00", 12)+"\x08not_json{]"), 0))
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
		if strings.Contains(l.Reason, "\x00") { // no build writes one
			return
		}
		record := Letter{Reason: l.Reason, Time: l.Time, Size: l.Size, Payload: l.Payload}
		got, err := decode(key, Append(nil, key, &record, &l.Detail))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(l) {
			t.Errorf("letter %+v became %+v, %v", l, got, err)
		}
	})
}
