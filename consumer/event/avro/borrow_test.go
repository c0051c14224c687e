package avro

import (
	"fmt"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestBorrow: an event whose names alias the record is the one that owns them, and takes no memory; text that the
// record does not hold as such is not borrowed.
func TestBorrow(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"user","type":%s},{"name":"item","type":"string"},
		{"name":"rating","type":"double"},{"name":"ts","type":"long"},
		{"name":"tags","type":{"type":"array","items":"string"}}]}`
	for name, c := range map[string]struct {
		user    string
		first   any
		second  any
		aliases bool // of the item, which is text of the record in each
	}{
		"text":   {`"string"`, "u1", "u2", true},
		"symbol": {`{"type":"enum","name":"E","symbols":["a","b"]}`, "a", "b", true},
		"number": {`"long"`, int64(7), int64(8), true},
		"bytes":  {`"bytes"`, []byte{1, 2}, []byte{3, 4}, false},
	} {
		w := fmt.Sprintf(schema, c.user)
		value := func(user any, item string) []byte {
			return confluent(encoded(t, w, map[string]any{"user": user, "item": item, "rating": 4.5, "ts": int64(1_700_000_000),
				"tags": []any{"x" + item, "y"}}))
		}
		owns, borrows := decoderOf(new(event.Mapping), known{seven: written(w)}, nil),
			decoderOf(new(event.Mapping), known{seven: written(w)}, nil)
		var want, got, other event.Event
		first, second := value(c.first, "i1"), value(c.second, "i2")
		if r, wait := owns.DecodeRecord(&want, &event.Record{Value: first, Time: -1}); r != nil || wait != nil {
			t.Fatal(name, r, wait)
		}
		record := event.Record{Value: first, Time: -1}
		if r, wait := borrows.BorrowRecord(&got, &record); r != nil || wait != nil {
			t.Fatal(name, r, wait)
		}
		_, _ = borrows.BorrowRecord(&other, &event.Record{Value: second, Time: -1})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = borrows.BorrowRecord(&got, &record) }); n != 0 {
			t.Errorf("%s: %g allocations an event", name, n)
		}
		for i := range first {
			first[i] = '?'
		}
		if aliases := got.Categorical[1] == "??"; aliases != c.aliases {
			t.Errorf("%s: the item is %q after the bytes of the record have changed", name, got.Categorical[1])
		}
		if got.Categorical[0] != want.Categorical[0] && name != "text" {
			t.Errorf("%s: %q after the bytes of the record have changed", name, got.Categorical[0])
		}
	}
}
