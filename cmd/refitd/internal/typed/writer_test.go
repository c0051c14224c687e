package typed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest/formats"
)

// model returns one with a schema.
func model(s config.Schema) *config.Model {
	m := config.DefaultModel()
	m.Name, m.Input.Topics, m.Schema = "m", []string{"t"}, s
	m.Resolve()
	return &m
}

// models are those of every task, with what each kind of label may be in JSON.
var models = map[string]struct {
	schema config.Schema
	labels []string
}{
	"regression": {config.Schema{Task: "regression", Label: "y", Time: "at", TimeUnit: "us",
		Categorical: []string{"user", "zip"}, Numeric: []string{"price"}, Multi: []string{"tags"},
		Weight: "w", Identity: "id", Optional: []string{"price", "zip"}},
		[]string{`4`, `-0.0`, `2.5e2`, `1e-3`}},
	"ordinal": {config.Schema{Task: "ordinal", Label: "y", Levels: 5, Categorical: []string{"user", "zip"}}, []string{`1`,
		`5`, `3.0`}},
	"binary": {config.Schema{Task: "binary", Label: "y", Time: "at", TimeUnit: "ms", Categorical: []string{"user"}},
		[]string{`0`, `1`, `true`, `false`}},
	"names": {config.Schema{Task: "binary", Label: "y", Positive: "true", Categorical: []string{"user"}}, []string{`"true"`,
		`"no"`, `true`, `false`, `7`}},
	"multiclass": {config.Schema{Task: "multiclass", Label: "y", Classes: []string{"a b", "7"},
		Categorical: []string{"user"}}, []string{`"a b"`, `7`}},
	"multilabel": {config.Schema{Task: "multilabel", Label: "y", Classes: []string{"a", "b"},
		Categorical: []string{"user"}}, []string{`[]`, `["b"]`, `["b","a","b"]`}},
	"choices": {config.Schema{Task: "implicit", Categorical: []string{"user", "zip"}}, []string{`null`}},
	"kinds": {config.Schema{Task: "implicit", Label: "y", EventWeights: []config.EventWeight{{Event: "view", Weight: 1},
		{Event: "buy", Weight: 3}}, Categorical: []string{"user", "zip"}}, []string{`"view"`, `"buy"`}},
}

// object draws an event.
func object(r *rand.Rand, labels []string) string {
	var members []string
	add := func(name string, values ...string) {
		if v := values[r.IntN(len(values))]; v != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, v))
		}
	}
	add("y", labels...)
	add("user", `"u1"`, `"ü\u0000\ud83d\ude00"`, `12`, `-0`, `9007199254740993`)
	add("zip", `"04"`, `"x"`, ``, `null`)
	add("price", `1`, `0`, `-2.5`, `1e10`, ``, `null`)
	add("tags", `[]`, `["a"]`, `["a","b","a",7]`)
	add("at", `1700000000000`, `1700000000000123`, `"2024-01-02T03:04:05.678Z"`, `0`, `1500000000000.6`)
	add("w", `2`, `0.5`, ``)
	add("id", `"i1"`, `77`)
	add("other", `{"deep":[1]}`, ``)
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

// TestRoundTrip: what is written in a format is, read by the daemon's decoder, the event of the JSON.
func TestRoundTrip(t *testing.T) {
	for name, c := range models {
		for _, format := range []string{event.FormatAvro, event.FormatProtobuf, event.FormatJSONSchema} {
			r := rand.New(rand.NewPCG(1, 2))
			m := model(c.schema)
			m.Input.Mapping.Fields = []config.MappedField{{Name: "user", Path: "who.user"}}
			w, err := NewWriter(m, format, true)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			read := *m
			read.Input.Format, read.Input.Written = format, w.Schema()
			typed, plain := formats.NewRecordDecoder(&read, nil, nil), formats.NewJSONDecoder(m)
			written := 0
			for range 500 {
				text := object(r, c.labels)
				var want, got event.Event
				const now = 1_700_000_000_500
				rejection := plain.Decode(&want, []byte(text), now)
				value, bad := w.Append(nil, []byte(text))
				if (rejection == nil) != (bad == nil) || bad != nil && bad.Reason != rejection.Reason {
					t.Fatalf("%s: %s: %v, JSON %v", name, text, bad, rejection)
				}
				if bad != nil {
					continue
				}
				written++
				if bad, wait := typed.DecodeRecord(&got, &event.Record{Value: value, Time: now}); bad != nil || wait != nil {
					t.Fatalf("%s: %s: %+v, %v in\n%s", name, text, bad, wait, w.Schema().Text)
				}
				if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) && !reflect.DeepEqual(got, want) {
					t.Fatalf("%s in %s: %s:\n%#v, want\n%#v", name, format, text, got, want)
				}
			}
			if written < 100 {
				t.Errorf("%s: %d events", name, written)
			}
		}
	}
}

// TestWritten: the schemas are as documented, and the frames are Confluent's.
func TestWritten(t *testing.T) {
	m := model(config.Schema{Task: "binary", Label: "y", Time: "at", TimeUnit: "s", Categorical: []string{"user"},
		Multi: []string{"tags"}, Optional: []string{"user"}})
	m.Input.Mapping.Fields = []config.MappedField{{Name: "user", Path: "who.user_id"}}
	for format, want := range map[string]struct{ schema, frame string }{
		event.FormatAvro: {`{"type":"record","name":"Event","namespace":"refitd","fields":[` +
			`{"name":"at","doc":"time","type":{"type":"long","logicalType":"timestamp-millis"}},` +
			`{"name":"y","doc":"label","type":"boolean"},` +
			`{"name":"who","type":{"type":"record","name":"EventWho","namespace":"refitd","fields":[` +
			`{"name":"user_id","doc":"name","type":["null","string"],"default":null}]}},` +
			`{"name":"tags","doc":"list of names","type":{"type":"array","items":"string"}}]}`, "\x00\x00\x01\x00\x02"},
		event.FormatProtobuf: {`syntax = "proto3";
package refitd;
import "google/protobuf/timestamp.proto";
message Event {
  google.protobuf.Timestamp at = 1;  // time
  bool y = 2;  // label
  message Who_3 {
    optional string user_id = 1;  // name
  }
  Who_3 who = 3;
  repeated string tags = 4;  // list of names
}
`, "\x00\x00\x01\x00\x02\x00"},
		event.FormatJSONSchema: {`{"$schema":"http://json-schema.org/draft-07/schema#","title":"Event","type":"object",` +
			`"properties":{"at":{"type":"string","format":"date-time","description":"time"},` +
			`"y":{"type":"boolean","description":"label"},` +
			`"who":{"type":"object","properties":{"user_id":{"type":"string","description":"name"}},"required":[]},` +
			`"tags":{"type":"array","items":{"type":"string"},"description":"list of names"}},"required":["at","y"]}`,
			"\x00\x00\x01\x00\x02"},
	} {
		w, err := NewWriter(m, format, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Schema().Text; got != want.schema {
			t.Errorf("%s", got)
		}
		if got := string(w.Frame(nil, 0x10002)); got != want.frame {
			t.Errorf("%s: frame %q", format, got)
		}
	}
}

// TestNotWritten: models whose events have no schema are refused by what is in the way.
func TestNotWritten(t *testing.T) {
	plain := config.Schema{Task: "regression", Label: "y", Categorical: []string{"user"}}
	mapped := func(fields ...config.MappedField) config.Mapping { return config.Mapping{Fields: fields} }
	for want, c := range map[string]struct {
		schema  config.Schema
		mapping config.Mapping
	}{
		"envelope debezium":   {plain, config.Mapping{Envelope: "debezium"}},
		"condition type == 1": {plain, config.Mapping{When: []string{"type == 1"}}},
		"from key:user":       {plain, mapped(config.MappedField{Name: "user", Path: "key:user"})},
		`my user`:             {plain, mapped(config.MappedField{Name: "user", Path: `"my user"`})},
		"at one place":        {plain, mapped(config.MappedField{Name: "user", Path: "y"})},
		"at one place of":     {plain, mapped(config.MappedField{Name: "user", Path: "y.user"})},
		`"star rating"`: {config.Schema{Task: "regression", Label: "star rating", Categorical: []string{"u"}},
			config.Mapping{}},
		"a time and a number": {config.Schema{Task: "regression", Label: "y", Time: "at", TimeUnit: "s",
			Numeric: []string{"at"}}, config.Mapping{}},
		"the schema of its fields:": {config.Schema{Task: "regression", Label: "a_b", Numeric: []string{"aB"}},
			config.Mapping{}},
	} {
		m := model(c.schema)
		m.Input.Mapping = c.mapping
		if _, err := NewWriter(m, event.FormatProtobuf, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	m := model(plain)
	m.Input.Mapping = mapped(config.MappedField{Name: "user", Constant: "u"})
	if w, err := NewWriter(m, event.FormatAvro, true); err != nil || strings.Contains(w.Schema().Text, "user") {
		t.Errorf("a constant: %v", err)
	}
}

// TestDocumentedTypes: configs/docs/formats.md has the types of all formats, for each kind of field.
func TestDocumentedTypes(t *testing.T) {
	page, err := os.ReadFile("../../../../configs/docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	short := strings.NewReplacer(`{"type":"long","logicalType":"timestamp-millis"}`, "`timestamp-millis`",
		`{"type":"array","items":"string"}`, "array of `string`", `"type":"array","items":{"type":"string"}`, "array of `string`",
		`"type":"string","format":"date-time"`, "`string`, `date-time`", `"type":`, "", `"`, "`")
	_, table, _ := strings.Cut(string(page), "| of the model | Avro | Protobuf | JSON Schema |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	for _, k := range []kind{text, number, truth, moment, list} {
		if end := " | " + short.Replace(avroTypes[k]) + " | `" + protoTypes[k] + "` | " +
			short.Replace(jsonTypes[k]) + " |"; int(k) >= len(rows) ||
			!strings.HasSuffix(rows[k], end) {
			t.Errorf("row %d does not end in %q:\n%s", k, end, table)
		}
	}
}
