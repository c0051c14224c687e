package avro

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/consumer/event/protobuf"
)

// A shape is an event in each format.
type shape struct {
	name               string
	schema             event.Schema
	mapping            func(t testing.TB) *event.Mapping // nil where fields have their own names
	json, avsc, proto3 string
}

var shapes = []shape{
	{
		name:   "four fields",
		schema: shortRatings,
		json:   `{"user":"u1234567","item":"i7654321","rating":4,"ts":1700000000000}`,
		avsc: `{"type":"record","name":"R","fields":[{"name":"user","type":"string"},{"name":"item","type":"string"},
			{"name":"rating","type":"int"},{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}}]}`,
		proto3: `message R { string user = 1; string item = 2; int32 rating = 3; int64 ts = 4; }`,
	},
	{
		name: "ten fields",
		schema: event.Schema{Task: event.Regression, Label: "rating", Time: "ts", TimeUnit: "ms",
			Categorical: []string{"user", "item", "shop", "city", "device"}, Numeric: []string{"price", "age", "stars"}},
		json: `{"user":"u1234567","item":"i7654321","shop":"s123","city":"Wien","device":"phone","price":12.5,"age":31,
			"stars":4.25,"rating":4,"ts":1700000000000}`,
		avsc: `{"type":"record","name":"R","fields":[{"name":"user","type":"string"},{"name":"item","type":"string"},
			{"name":"shop","type":"string"},{"name":"city","type":"string"},{"name":"device","type":"string"},
			{"name":"price","type":"double"},{"name":"age","type":"int"},{"name":"stars","type":"double"},
			{"name":"rating","type":"int"},{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}}]}`,
		proto3: `message R { string user = 1; string item = 2; string shop = 3; string city = 4; string device = 5;
			double price = 6; int32 age = 7; double stars = 8; int32 rating = 9; int64 ts = 10; }`,
	},
	{
		name:   "list, union and text nobody asks for",
		schema: ratings,
		json: `{"user":"u1234567","item":"i7654321","rating":4.5,"ts":1700000000000,"price":2.25,"tags":["a","b"],
			"comment":"a text that nobody asks for"}`,
		avsc: `{"type":"record","name":"R","fields":[{"name":"user","type":"string"},{"name":"item","type":"string"},
			{"name":"rating","type":"double"},{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},
			{"name":"price","type":["null","double"]},{"name":"tags","type":{"type":"array","items":"string"}},
			{"name":"comment","type":"string"}]}`,
		proto3: `message R { string user = 1; string item = 2; double rating = 3; int64 ts = 4;
			optional double price = 5; repeated string tags = 6; string comment = 7; }`,
	},
	{
		name:   "nested",
		schema: shortRatings,
		mapping: func(t testing.TB) *event.Mapping {
			return place(t, "user=who.id", "item=what.item.sku", "rating=what.stars")
		},
		json: `{"who":{"id":"u1234567","name":"Ann"},"what":{"item":{"sku":"i7654321"},"stars":4.5},"ts":1700000000000}`,
		avsc: `{"type":"record","name":"R","fields":[
			{"name":"who","type":{"type":"record","name":"W","fields":[{"name":"id","type":"string"},{"name":"name","type":"string"}]}},
			{"name":"what","type":{"type":"record","name":"T","fields":[
				{"name":"item","type":{"type":"record","name":"I","fields":[{"name":"sku","type":"string"}]}},
				{"name":"stars","type":"double"}]}},
			{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}}]}`,
		proto3: `message R { message W { string id = 1; string name = 2; } message I { string sku = 1; }
			message T { I item = 1; double stars = 2; } W who = 1; T what = 2; int64 ts = 3; }`,
	},
	{
		name:    "Debezium",
		schema:  shortRatings,
		mapping: func(testing.TB) *event.Mapping { return &event.Mapping{Envelope: event.Debezium} },
		json: `{"before":null,"after":{"user":"u1234567","item":"i7654321","rating":4.5,"ts":1700000000000},
			"source":{"db":"shop","table":"ratings","lsn":123456},"op":"u","ts_ms":1700000000001}`,
		avsc: `{"type":"record","name":"E","fields":[{"name":"before","type":["null",{"type":"record","name":"R","fields":[
			{"name":"user","type":"string"},{"name":"item","type":"string"},{"name":"rating","type":"double"},
			{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}}]}]},{"name":"after","type":["null","R"]},
			{"name":"source","type":{"type":"record","name":"S","fields":[{"name":"db","type":"string"},
				{"name":"table","type":"string"},{"name":"lsn","type":"long"}]}},
			{"name":"op","type":"string"},{"name":"ts_ms","type":"long"}]}`,
		proto3: `message R { string user = 1; string item = 2; double rating = 3; int64 ts = 4; }
			message S { string db = 1; string table = 2; int64 lsn = 3; }
			message E { R before = 1; R after = 2; S source = 3; string op = 4; int64 ts_ms = 5; }`,
	},
}

var shortRatings = event.Schema{Task: event.Regression, Label: "rating", Time: "ts", TimeUnit: "ms",
	Categorical: []string{"user", "item"}}

// protoOf returns the message of a piece of JSON behind its indexes: the last one of a schema.
func protoOf(t testing.TB, w *event.Writer, text string) []byte {
	t.Helper()
	file, err := protobuf.Describe(w)
	if err != nil {
		t.Fatal(err)
	}
	last := file.Messages().Len() - 1
	m := dynamicpb.NewMessage(file.Messages().Get(last))
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if last == 0 {
		return append([]byte{0}, data...)
	}
	return append([]byte{2, byte(2 * last)}, data...)
}

// decoders returns decoders of the event in each format.
func (s *shape) decoders(t testing.TB) map[string]func(ev *event.Event) *event.Rejection {
	t.Helper()
	library, err := avro.Parse(s.avsc)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := library.DecodeJSON([]byte(s.json), &value); err != nil {
		t.Fatal(err)
	}
	w := map[string]*event.Writer{
		"avro":     written(s.avsc),
		"protobuf": {Format: event.FormatProtobuf, Text: `syntax = "proto3"; ` + s.proto3},
	}
	values := map[string][]byte{
		"avro":     confluent(encoded(t, s.avsc, value)),
		"protobuf": confluent(protoOf(t, w["protobuf"], s.json)),
	}
	m := new(event.Mapping)
	if s.mapping != nil {
		m = s.mapping(t)
	}
	const now = 1_700_000_000_001
	decoders := make(map[string]func(ev *event.Event) *event.Rejection)
	for format, compile := range map[string]event.Compiler{"avro": Compile, "protobuf": protobuf.Compile} {
		d := event.NewMapped(s.schema, event.DefaultLimits(), m, nil)
		d.Read(event.Reading{Format: format, Compilers: map[string]event.Compiler{format: compile},
			Writers: known{seven: w[format]}, Changed: func(framing.ID) string { return "" }})
		value := values[format]
		decoders[format] = func(ev *event.Event) *event.Rejection {
			r, _ := d.DecodeRecord(ev, &event.Record{Value: value, Time: now})
			return r
		}
	}
	var j event.Decoder = event.NewJSON(s.schema, event.DefaultLimits())
	if s.mapping != nil {
		j = event.NewMapped(s.schema, event.DefaultLimits(), m, nil)
	}
	text := []byte(s.json)
	decoders["json"] = func(ev *event.Event) *event.Rejection { return j.Decode(ev, text, now) }
	return decoders
}

// TestAllocations: a binary event takes no memory, and is the JSON event.
func TestAllocations(t *testing.T) {
	for i := range shapes {
		decoders := shapes[i].decoders(t)
		var want event.Event
		if r := decoders["json"](&want); r != nil {
			t.Fatalf("%s: %v", shapes[i].name, r)
		}
		for format, decode := range decoders {
			var ev event.Event
			if r := decode(&ev); r != nil {
				t.Fatalf("%s in %s: %v", shapes[i].name, format, r)
			}
			if got, want := fmt.Sprintf("%#v", ev), fmt.Sprintf("%#v", want); got != want {
				t.Errorf("%s in %s: %s, want %s", shapes[i].name, format, got, want)
			}
			if n := testing.AllocsPerRun(1000, func() { decode(&ev) }); n != 0 && format != "json" {
				t.Errorf("%s in %s: %g allocations an event", shapes[i].name, format, n)
			}
		}
	}
}

// BenchmarkFormats decodes the same events in each format, in turn, as the machine is not the same all the time.
func BenchmarkFormats(b *testing.B) {
	for i := range shapes {
		decoders := shapes[i].decoders(b)
		b.Run(shapes[i].name, func(b *testing.B) {
			var ev event.Event
			took := make(map[string][]float64)
			for b.Loop() {
				for _, format := range []string{"json", "avro", "protobuf"} {
					const turn = 2000
					decode, began := decoders[format], time.Now()
					for range turn {
						if r := decode(&ev); r != nil {
							b.Fatal(r)
						}
					}
					took[format] = append(took[format], float64(time.Since(began).Nanoseconds())/turn)
				}
			}
			least := func(format string) float64 { return slices.Min(took[format]) }
			for format := range took {
				b.ReportMetric(least(format), format+"-ns")
			}
			b.ReportMetric(least("json")/least("avro"), "avro-of-json's-speed")
			b.ReportMetric(least("json")/least("protobuf"), "protobuf-of-json's-speed")
		})
	}
}
