package topic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/registry/registrytest"
	"github.com/refitd/refitd/daemon/broker"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"github.com/refitd/refitd/daemon/offline/guess"
	"github.com/refitd/refitd/daemon/report"
)

const (
	avroRating = `{"type":"record","name":"Rating","namespace":"shop","fields":[
		{"name":"user","type":"string","doc":"who\n  rated"},
		{"name":"what","type":["null",{"type":"record","name":"What","fields":[{"name":"item","type":"long"}]}]},
		{"name":"rating","type":"int"},
		{"name":"device","type":{"type":"enum","name":"Device","symbols":["PHONE","WEB","TV"]}},
		{"name":"price","type":["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}]},
		{"name":"share","type":"double"},
		{"name":"tags","type":{"type":"array","items":"string"}},
		{"name":"marks","type":{"type":"array","items":"double"}},
		{"name":"member","type":"boolean"},
		{"name":"extra","type":{"type":"map","values":"string"}},
		{"name":"made","type":{"type":"int","logicalType":"date"}},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}}]}`
	avroKey     = `{"type":"record","name":"Key","fields":[{"name":"country","type":"string"},{"name":"user","type":"string"}]}`
	protoRating = `syntax = "proto3"; import "google/protobuf/timestamp.proto";
		message Other { string x = 1; }
		message Rating {
			// Who rated.
			string user = 1;
			message What { int64 item = 1; }
			What what = 2;
			int32 rating = 3;
			enum Device { PHONE = 0; WEB = 1; TV = 2; }
			Device device = 4;
			optional double share = 5;
			repeated string tags = 6;
			bool member = 7;
			google.protobuf.Timestamp at = 8;
			Rating parent = 9; // of the same kind
		}`
	envelope = `{"type":"record","name":"Envelope","fields":[
		{"name":"before","type":["null",{"type":"record","name":"Row","fields":[
			{"name":"user","type":"long"},{"name":"item","type":"string"},
			{"name":"rating","type":{"type":"bytes","logicalType":"decimal","precision":5,"scale":1}},
			{"name":"at","type":{"type":"long","connect.name":"io.debezium.time.Timestamp"}}]}]},
		{"name":"after","type":["null","Row"]},
		{"name":"op","type":"string"}]}`
)

// started is a broker with a topic, and a registry.
type started struct {
	kafka    *config.Kafka
	registry *registrytest.Server
	client   *kgo.Client
}

func start(t *testing.T) *started {
	t.Helper()
	b, err := broker.Start(
		broker.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.CreateTopic(t.Context(), "ratings", 1, 0); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &started{&config.Kafka{BootstrapServers: []string{b.Addr()}, ClientID: "test"}, registrytest.New(t), client}
}

func (s *started) send(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	for _, r := range records {
		r.Topic = "ratings"
	}
	if err := s.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// framed puts a value into the frame of a schema.
func framed(id int, head []byte, value []byte) []byte {
	return append(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), head...), value...)
}

// inAvro returns a value as a schema writes it.
func inAvro(t *testing.T, schema string, value any) []byte {
	t.Helper()
	data, err := avro.MustParse(schema).Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// written writes the configuration that init makes of the topic and returns it.
func (s *started) written(t *testing.T, file *event.Writer, schemaFile string) (*config.Config, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.yaml")
	var text bytes.Buffer
	err := guess.Init(guess.Options{Topic: "ratings", BootstrapServers: s.kafka.BootstrapServers, Output: out,
		SchemaFile: schemaFile, Registry: s.kafka.SchemaRegistry,
		Look: func() (*guess.Sample, error) { return Look(t.Context(), s.kafka, "ratings", file) },
	}, report.NewEmitter(&text, false))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return c, string(b)
}

// wants reports lines that a configuration lacks.
func wants(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// TestLookAvro: what fields are is what the schema says of them: decimals are numbers, numbers with fractions no names,
// enums names, times times; a member of the key that the value lacks is read from it.
func TestLookAvro(t *testing.T) {
	s := start(t)
	id, keyID := s.registry.Add("ratings-value", "", avroRating), s.registry.Add("ratings-key", "", avroKey)
	var list []*kgo.Record
	for i := range 600 {
		value := map[string]any{"user": fmt.Sprint("u", i%7), "what": map[string]any{"item": int64(1_000_000 + i%13)},
			"rating": int32(1 + i%5), "device": []string{"WEB", "PHONE"}[i%2], "price": big.NewRat(int64(100+25*(i%90)), 100),
			"share": float64(i % 3), "tags": []any{"a", fmt.Sprint("b", i%3)}, "marks": []any{1.0}, "member": i%3 == 0,
			"extra": map[string]any{"k": "v"}, "made": time.Unix(int64(i/10)*86400, 0).UTC(),
			"at": time.UnixMicro(1_700_000_000_000_000 + int64(i)).UTC()}
		list = append(list, &kgo.Record{Value: framed(id, nil, inAvro(t, avroRating, value)),
			Key: framed(keyID, nil, inAvro(t, avroKey, map[string]any{"country": fmt.Sprint("c", i%11), "user": "no"}))})
	}
	s.send(t, list...)
	s.send(t, &kgo.Record{Value: list[0].Value[:9]})
	if _, err := Look(t.Context(), s.kafka, "ratings", nil); err == nil || !strings.Contains(err.Error(), "schema 1") ||
		!strings.Contains(err.Error(), "--registry") || !strings.Contains(err.Error(), "--schema-file") {
		t.Errorf("without a registry: %v", err)
	}
	s.kafka.SchemaRegistry.URL, s.kafka.SchemaRegistry.Timeout = s.registry.URL, config.Duration(5*time.Second)
	c, text := s.written(t, nil, "")
	m := &c.Models[0]
	if c.Kafka.SchemaRegistry.URL != s.registry.URL || m.Input.Format != "avro" || m.Input.KeyFormat != "avro" {
		t.Errorf("%+v, %+v", c.Kafka.SchemaRegistry, m.Input)
	}
	wants(t, text, "task: ordinal", "levels: 5", `time: "at"`, "time_unit: us",
		`- "user"  # 7 different names; the schema: "who rated"`, `- "device"  # 2 of the 3 names that the schema lists`,
		`{name: "what.item", path: "what.item"}`, `{name: "country", path: "key:country"}`, `- "country"`, `- "what.item"`,
		`- "price"`, `- "share"  # numbers from 0 to 2`, `{name: "tags", weight: sqrt}`, `{name: "member", path: "member", as: number}`,
		`# left out "marks"`, `# left out "extra": a map, whose entries have separate paths: extra.NAME`,
		`# left out "made": times by their type`)
	if !strings.Contains(text, "numeric:\n        - \"price\"") {
		t.Errorf("the price is not a number:\n%s", text)
	}
}

// TestLookProtobuf: of the message that the frames name, also without a registry by a file, where values have no frame.
func TestLookProtobuf(t *testing.T) {
	for _, hasRegistry := range []bool{true, false} {
		s := start(t)
		id, head, proto := s.registry.Add("ratings-value", "PROTOBUF", protoRating), []byte{2, 2}, protoRating
		if !hasRegistry {
			proto = strings.Replace(protoRating, "message Other { string x = 1; }", "", 1)
		}
		for i := range 300 {
			what := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(1_000_000+i%13))
			at := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(1_700_000_000+i))
			var v []byte
			bytes := func(n protowire.Number, b []byte) {
				v = protowire.AppendBytes(protowire.AppendTag(v, n, protowire.BytesType), b)
			}
			bytes(1, fmt.Append(nil, "u", i%7))
			bytes(2, what)
			v = protowire.AppendVarint(protowire.AppendTag(v, 3, protowire.VarintType), uint64(i%3))
			v = protowire.AppendVarint(protowire.AppendTag(v, 4, protowire.VarintType), uint64(i%2))
			bytes(6, []byte("a"))
			bytes(6, fmt.Append(nil, "b", i%3))
			bytes(8, at)
			if hasRegistry {
				v = framed(id, head, v)
			}
			s.send(t, &kgo.Record{Value: v, Key: binary.BigEndian.AppendUint64(nil, uint64(i))}) // a number, in no frame
		}
		var file *event.Writer
		path := ""
		if hasRegistry {
			s.kafka.SchemaRegistry.URL, s.kafka.SchemaRegistry.Timeout = s.registry.URL, config.Duration(5*time.Second)
		} else {
			path = filepath.Join(t.TempDir(), "rating.proto")
			if err := os.WriteFile(path, []byte(proto), 0o600); err != nil {
				t.Fatal(err)
			}
			var p *strictyaml.Problem
			if file, p = config.ReadSchemaFile(path); p != nil {
				t.Fatal(p)
			}
		}
		c, text := s.written(t, file, path)
		if in := c.Models[0].Input; in.Format != "protobuf" || in.KeyFormat != "" || (in.SchemaFile != "") == hasRegistry {
			t.Errorf("%+v", in)
		}
		wants(t, text, "label: \"rating\"", `time: "at"`, "time_unit: ns", `- "user"  # 7 different names; the schema: "Who rated."`,
			`{name: "what.item", path: "what.item"}`, `- "device"  # 2 of the 3 names`, `{name: "tags", weight: sqrt}`,
			`# left out "share": no value has it`)
	}
}

// TestLookDebezium: changes of rows in Debezium's envelope are seen as such in Avro, in JSON and behind the frame of a
// JSON Schema; what counts is the row. Deletes are no events.
func TestLookDebezium(t *testing.T) {
	for _, format := range []string{"avro", "json", "json_schema"} {
		s := start(t)
		id := s.registry.Add("ratings-value", "", envelope)
		for i := range 300 {
			row := map[string]any{"user": int64(1_000_000 + i%7), "item": fmt.Sprint("i", i%5),
				"rating": big.NewRat(int64(10+5*(i%9)), 10), "at": int64(1_700_000_000_000 + i)}
			change := map[string]any{"before": nil, "after": row, "op": []string{"c", "u", "r"}[i%3]}
			text := fmt.Appendf(nil, `{"before":null,"after":{"user":%d,"item":"i%d","rating":%g,"at":%d},"op":"c"}`,
				1_000_000+i%7, i%5, 1+float64(i%9)/2, 1_700_000_000_000+i)
			if i == 299 {
				change = map[string]any{"before": row, "after": nil, "op": "d"}
				text = []byte(`{"before":{"user":1},"after":null,"op":"d"}`)
			}
			switch format {
			case "avro":
				text = framed(id, nil, inAvro(t, envelope, change))
			case "json_schema":
				text = framed(9, nil, text)
			}
			s.send(t, &kgo.Record{Value: text})
		}
		if format == "avro" {
			s.kafka.SchemaRegistry.URL, s.kafka.SchemaRegistry.Timeout = s.registry.URL, config.Duration(5*time.Second)
		}
		c, text := s.written(t, nil, "")
		if in := c.Models[0].Input; in.Format != format || in.Mapping.Envelope != "debezium" || len(in.Mapping.Fields) > 1 {
			t.Errorf("%+v", in)
		}
		wants(t, text, "# Made of the 299 newest events", "task: regression", "time_unit: ms", `- "user"`, `- "item"  # 5 different`)
	}
}
