package avro

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/protobuf"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	benchAvro = `{"type":"record","name":"R","fields":[{"name":"user","type":"string"},{"name":"item","type":"string"},
		{"name":"rating","type":"double"},{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},
		{"name":"price","type":["null","double"]},{"name":"tags","type":{"type":"array","items":"string"}},{"name":"comment","type":"string"}]}`
	benchProto = `syntax = "proto3"; message R { string user = 1; string item = 2; double rating = 3; int64 ts = 4;
		optional double price = 5; repeated string tags = 6; string comment = 7; }`
	benchJSON = `{"user":"u1234567","item":"i7654321","rating":4.5,"ts":1700000000000,"price":2.25,"tags":["a","b"],"comment":"a text that nobody asks for"}`
)

// benchmarks are decoders of one event in each format, with the bytes of it.
func benchmarks(t testing.TB) map[string]func(ev *event.Event) *event.Rejection {
	avroValue := confluent(encoded(t, benchAvro, map[string]any{"user": "u1234567", "item": "i7654321", "rating": 4.5,
		"ts": int64(1_700_000_000_000), "price": 2.25, "tags": []any{"a", "b"}, "comment": "a text that nobody asks for"}))
	protoValue := confluent([]byte{0})
	text := func(n protowire.Number, s string) {
		protoValue = protowire.AppendString(protowire.AppendTag(protoValue, n, protowire.BytesType), s)
	}
	text(1, "u1234567")
	text(2, "i7654321")
	protoValue = protowire.AppendFixed64(protowire.AppendTag(protoValue, 3, protowire.Fixed64Type), 0x4012000000000000)
	protoValue = protowire.AppendVarint(protowire.AppendTag(protoValue, 4, protowire.VarintType), 1_700_000_000_000)
	protoValue = protowire.AppendFixed64(protowire.AppendTag(protoValue, 5, protowire.Fixed64Type), 0x4002000000000000)
	text(6, "a")
	text(6, "b")
	text(7, "a text that nobody asks for")
	d := decoderOf(new(event.Mapping), known{seven: written(benchAvro)}, nil)
	p := event.NewMapped(ratings, event.DefaultLimits(), new(event.Mapping), nil)
	p.Read(event.Reading{Format: event.FormatProtobuf, Compilers: map[string]event.Compiler{
		event.FormatProtobuf: protobuf.Compile},
		Writers: known{seven: {Format: event.FormatProtobuf, Text: benchProto}}})
	j := event.NewJSON(ratings, event.DefaultLimits())
	const now = 1_700_000_000_001
	return map[string]func(ev *event.Event) *event.Rejection{
		"json": func(ev *event.Event) *event.Rejection { return j.Decode(ev, []byte(benchJSON), now) },
		"avro": func(ev *event.Event) *event.Rejection {
			r, _ := d.DecodeRecord(ev, &event.Record{Value: avroValue, Time: now})
			return r
		},
		"protobuf": func(ev *event.Event) *event.Rejection {
			r, _ := p.DecodeRecord(ev, &event.Record{Value: protoValue, Time: now})
			return r
		},
	}
}

// TestAllocations: a binary event takes no memory, and is the JSON event.
func TestAllocations(t *testing.T) {
	var want event.Event
	if r := benchmarks(t)["json"](&want); r != nil {
		t.Fatal(r)
	}
	for name, decode := range benchmarks(t) {
		var ev event.Event
		if r := decode(&ev); r != nil {
			t.Fatalf("%s: %v", name, r)
		}
		if ev.Label != want.Label || ev.Time != want.Time || ev.Categorical[1] != want.Categorical[1] ||
			ev.Numeric[0] != want.Numeric[0] || len(ev.Multi[0]) != 2 {
			t.Errorf("%s: %+v, want %+v", name, ev, want)
		}
		if n := testing.AllocsPerRun(1000, func() { decode(&ev) }); n != 0 && name != "json" {
			t.Errorf("%s: %g allocations an event", name, n)
		}
	}
}

// BenchmarkFormats decodes the same event in each format.
func BenchmarkFormats(b *testing.B) {
	for _, name := range []string{"json", "avro", "protobuf"} {
		decode := benchmarks(b)[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var ev event.Event
			for b.Loop() {
				if r := decode(&ev); r != nil {
					b.Fatal(r)
				}
			}
		})
	}
}
