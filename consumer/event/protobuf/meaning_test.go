package protobuf

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/eventtest"
	"github.com/refitd/refitd/consumer/event/framing"
)

// encoded returns a message of a type of a schema, from its form in JSON, behind the index of the type.
func encoded(t *testing.T, w *event.Writer, index int, object string) []byte {
	t.Helper()
	file, err := Describe(w)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(file.Messages().Get(index))
	if err := protojson.Unmarshal([]byte(object), m); err != nil {
		t.Fatal(err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m) // by number
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]byte(eventtest.Seven), 2, byte(2*index)), data...)
}

// TestDebezium: changes of rows are what the same messages in JSON are, deletes and tombstones are removal requests.
func TestDebezium(t *testing.T) {
	w := &event.Writer{Format: event.FormatProtobuf, Text: `syntax = "proto3";
message Value { int64 user = 1; string item = 2; double rating = 3; int64 at = 4; optional double price = 5; }
message Source { string table = 1; }
message Envelope { Value before = 1; Value after = 2; Source source = 3; string op = 4; }`}
	from, err := event.ParseSource("after.at")
	if err != nil {
		t.Fatal(err)
	}
	when, err := event.ParseCondition(`source.table == "ratings"`)
	if err != nil {
		t.Fatal(err)
	}
	mapping := &event.Mapping{Envelope: event.Debezium, When: []event.Condition{when},
		Fields: []event.MappedField{{Name: "ts", From: from}}}
	s := ratings
	s.TimeUnit = "us"
	plain := event.NewMapped(s, event.DefaultLimits(), mapping, nil)
	typed := event.NewMapped(s, event.DefaultLimits(), mapping, nil)
	typed.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w},
		Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
	row := fmt.Sprintf(`{"user":%d,"item":"i1","rating":4.5,"at":1700000000123000,"price":-2.5}`, int64(math.MaxInt64))
	for name, c := range map[string]struct{ value, want string }{
		"a change":         {`{"op":"u","before":` + row + `,"after":` + row + `,"source":{"table":"ratings"}}`, ""},
		"a new row":        {`{"op":"c","after":` + row + `,"source":{"table":"ratings"}}`, ""},
		"another table":    {`{"op":"c","after":` + row + `,"source":{"table":"users"}}`, "filtered"},
		"a delete":         {`{"op":"d","before":` + row + `,"source":{"table":"ratings"}}`, "removal_request"},
		"another's delete": {`{"op":"d","before":` + row + `,"source":{"table":"users"}}`, "filtered"},
		"a truncation":     {`{"op":"t","source":{"table":"ratings"}}`, "filtered"},
		"a tombstone":      {"", "removal_request"},
	} {
		var text, value []byte
		if c.value != "" {
			text, value = []byte(c.value), encoded(t, w, 2, c.value)
		}
		var got, want event.Event
		r, wait := typed.DecodeRecord(&got, &event.Record{Value: value, Time: 1_700_000_000_200})
		other, _ := plain.DecodeRecord(&want, &event.Record{Value: text, Time: 1_700_000_000_200})
		if wait != nil || reason(r) != c.want || reason(other) != c.want {
			t.Errorf("%s: %v, %v, JSON %v", name, r, wait, other)
		}
		if c.want != "" {
			continue
		}
		if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b || got.Categorical[0] != "9223372036854775807" ||
			got.Time != 1_700_000_000_123 {
			t.Errorf("%s: %s, JSON %s", name, a, b)
		}
	}
}

// TestDate: a google.type.Date is the time at which its day begins, and days since 1970 as a name; one without a day is
// neither.
func TestDate(t *testing.T) {
	const text = `syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }`
	w := &event.Writer{Format: event.FormatProtobuf, Text: `syntax = "proto3"; import "google/type/date.proto";
message R { double rating = 1; google.type.Date ts = 2; google.type.Date user = 3; string item = 4; }`,
		References: []event.Reference{{Name: "google/type/date.proto", Text: text}}}
	d := event.NewMapped(ratings, event.DefaultLimits(), new(event.Mapping), nil)
	d.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w},
		Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
	for name, c := range map[string]struct{ date, want string }{
		"a leap day": {`{"year":2024,"month":2,"day":29}`, "19782 1709164800000"},
		"no day":     {`{"year":2024,"month":2}`, "wrong_type"},
		"no year":    {`{"month":2,"day":29}`, "wrong_type"},
	} {
		var ev event.Event
		value := encoded(t, w, 0, `{"rating":4,"ts":`+c.date+`,"user":`+c.date+`,"item":"i"}`)
		r, _ := d.DecodeRecord(&ev, &event.Record{Value: value, Time: 2e12})
		got := reason(r)
		if r == nil {
			got = fmt.Sprint(ev.Categorical[0], " ", ev.Time)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	leaves, err := Outline(w, new(framing.Frame), 32)
	if err != nil || len(leaves) != 4 || !leaves[1].IsTime || leaves[1].Unit != event.Days {
		t.Errorf("%+v, %v", leaves, err)
	}
}

// TestReader: with a reader's schema fields are found by their numbers, whatever the writer calls them and the message,
// also within others and in a message that is not the first; without it they are gone.
func TestReader(t *testing.T) {
	w := &event.Writer{Format: event.FormatProtobuf, Text: `syntax = "proto3"; package v2;
message Other {} message Grade { double stars = 1; int64 at = 2; Thing thing = 3; string rating = 9; }
message Thing { string sku = 4; string user = 7; }`}
	reader := &event.Writer{Format: event.FormatProtobuf, Text: `syntax = "proto3";
message Rating { double rating = 1; int64 ts = 2; What what = 3; message What { string item = 4; string user = 7; } }`}
	item, err := event.ParseSource("what.item")
	if err != nil {
		t.Fatal(err)
	}
	user, err := event.ParseSource("what.user")
	if err != nil {
		t.Fatal(err)
	}
	mapping := &event.Mapping{Fields: []event.MappedField{{Name: "item", From: item}, {Name: "user", From: user}}}
	value := encoded(t, w, 1, `{"stars":4.5,"at":7,"thing":{"sku":"i","user":"u"},"rating":"none"}`)
	for name, fixed := range map[string]*event.Writer{"": reader, "missing_field": nil} {
		lost := map[string]bool{}
		d := event.NewMapped(ratings, event.DefaultLimits(), mapping, nil)
		d.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w}, Fixed: fixed,
			Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile},
			Lost:      func(_ framing.ID, field string) { lost[field] = true }})
		var ev event.Event
		r, wait := d.DecodeRecord(&ev, &event.Record{Value: value, Time: 10})
		if wait != nil || r == nil != (name == "") || lost["ts"] != (fixed == nil) {
			t.Errorf("%q: %v, %v, lost %v", name, r, wait, lost)
		}
		if fixed != nil && (ev.Label != 4.5 || ev.Time != 7 || fmt.Sprint(ev.Categorical) != "[u i]") {
			t.Errorf("%+v", ev)
		}
	}
}

// TestMerged: of a message that is there several times members are merged, as the library does; what is in none has its
// default.
func TestMerged(t *testing.T) {
	w := &event.Writer{Format: event.FormatProtobuf, Text: `syntax = "proto3"; message R { double rating = 1; int64 ts = 2;
string user = 3; What what = 4; } message What { string item = 1; double price = 2; int32 more = 3; repeated string tags = 5; }`}
	mapping := new(event.Mapping)
	for _, name := range []string{"item", "price", "tags"} {
		from, err := event.ParseSource("what." + name)
		if err != nil {
			t.Fatal(err)
		}
		mapping.Fields = append(mapping.Fields, event.MappedField{Name: name, From: from})
	}
	d := event.NewMapped(ratings, event.DefaultLimits(), mapping, nil)
	d.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w},
		Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
	const rest = `"rating":4,"ts":5,"user":"u"`
	for _, c := range []struct{ one, two, want string }{
		{`{` + rest + `,"what":{"item":"i","price":2.5,"tags":["a"]}}`, `{"what":{"item":"j"}}`, "[u j] [2.5] [[a]]"},
		{`{"what":{"price":2.5}}`, `{` + rest + `,"what":{"tags":["a"]}}`, "[u ] [2.5] [[a]]"},
		{`{` + rest + `}`, `{"what":{}}`, "[u ] [0] [[]]"},
		{`{` + rest + `}`, `{}`, "[u ] [NaN] [[]]"},
	} {
		value := append(encoded(t, w, 0, c.one), encoded(t, w, 0, c.two)[len(eventtest.Seven)+2:]...)
		var ev event.Event
		r, wait := d.DecodeRecord(&ev, &event.Record{Value: value, Time: 10})
		if got := fmt.Sprint(ev.Categorical, " ", ev.Numeric, " ", ev.Multi); r != nil || wait != nil || got != c.want {
			t.Errorf("%s, %s: %v, %v, %s", c.one, c.two, r, wait, got)
		}
	}
}

// TestWellKnown: schemas that serializers take for known are no references, and options say nothing of the bytes,
// whether or not there is a reference for them. Another import that nobody has is said where a type of it is missing.
func TestWellKnown(t *testing.T) {
	const fields = `double rating = 1; int64 ts = 2; string item = 3; `
	for name, c := range map[string]struct{ text, more, want string }{
		"Kafka Connect's": {`import "confluent/meta.proto"; import "confluent/type/decimal.proto"; option (confluent.file_meta) = {doc: "x"};
			message R { option (confluent.message_meta) = {params: [{key: "a", value: "b"}], tags: ["PII"]}; ` + fields +
			`confluent.type.Decimal price = 4 [(confluent.field_meta) = {params: [{key: "scale", value: "2"}]}]; string user = 5; }`,
			`"price":{"value":"AQI=","scale":2},"user":"u"`, "u 2.58"},
		"a date": {`import "google/type/date.proto"; message R { ` + fields + `google.type.Date user = 4; }`,
			`"user":{"year":2024,"month":2,"day":29}`, "19782 NaN"},
		"a decimal": {`import "google/type/decimal.proto"; message R { ` + fields + `google.type.Decimal price = 4; string user = 5; }`,
			`"price":{"value":"-1.5"},"user":"u"`, "u -1.5"},
		"a weekday": {`import "google/type/dayofweek.proto"; message R { ` + fields + `google.type.DayOfWeek user = 4; }`,
			`"user":"SUNDAY"`, "SUNDAY NaN"},
		"rules of fields": {`import "buf/validate/validate.proto"; message R { ` + fields +
			`string user = 4 [(buf.validate.field).string.min_len = 1, deprecated = true]; }`, `"user":"u"`, "u NaN"},
	} {
		w := &event.Writer{Format: event.FormatProtobuf, Text: `syntax = "proto3"; package shop; ` + c.text}
		d := event.NewMapped(ratings, event.DefaultLimits(), new(event.Mapping), nil)
		d.Read(event.Reading{Format: event.FormatProtobuf, Writers: known{seven: w},
			Compilers: map[string]event.Compiler{event.FormatProtobuf: Compile}})
		var ev event.Event
		value := encoded(t, w, 0, `{"rating":4,"ts":5,"item":"i",`+c.more+`}`)
		r, wait := d.DecodeRecord(&ev, &event.Record{Value: value, Time: 2e12})
		if r != nil || wait != nil || fmt.Sprint(ev.Categorical[0], " ", ev.Numeric[0]) != c.want {
			t.Errorf("%s: %v, %v, %+v, want %s", name, r, wait, ev, c.want)
		}
		if leaves, err := Outline(w, new(framing.Frame), 32); err != nil || len(leaves) < 4 {
			t.Errorf("%s: %+v, %v", name, leaves, err)
		}
	}
	for path := range wellKnown {
		w := &event.Writer{Text: `syntax = "proto3"; import public "` + path + `"; message R {}`}
		if _, err := Describe(w); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	_, err := Describe(&event.Writer{Text: `syntax = "proto3"; import "shop/item.proto"; message R { shop.Item item = 1; }`})
	if err == nil || !strings.Contains(err.Error(), "shop/item.proto") {
		t.Errorf("a reference that is missing: %v", err)
	}
}
