package avro

import (
	"fmt"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestOutline: each place of a schema at which there may be something for a field, with what is there.
func TestOutline(t *testing.T) {
	leaves, err := Outline(written(`{"type":"record","name":"R","fields":[
		{"name":"a","type":["null","string"],"doc":"text"},
		{"name":"b","type":{"type":"record","name":"B","fields":[{"name":"c","type":["int","long"]},
			{"name":"r","type":["null","R"]},{"name":"l","type":{"type":"array","items":"B"}}]}},
		{"name":"d","type":["null","B"]},
		{"name":"e","type":["int","string"]},
		{"name":"f","type":{"type":"enum","name":"E","doc":"of E","symbols":["X","Y"]}},
		{"name":"g","type":["null",{"type":"record","name":"V","connect.name":"io.debezium.data.VariableScaleDecimal",
			"fields":[{"name":"scale","type":"int"},{"name":"value","type":"bytes"}]}]},
		{"name":"h","type":{"type":"array","items":["null","string"]}},
		{"name":"i","type":{"type":"array","items":"E"}},
		{"name":"j","type":{"type":"long","logicalType":"local-timestamp-millis"}},
		{"name":"k","type":{"type":"map","values":"int"}},
		{"name":"m","type":{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}},
		{"name":"n","type":"bytes"},{"name":"o","type":"null"}]}`), nil, 8)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[event.LeafKind]string{event.LeafOther: "other", event.LeafWhole: "whole", event.LeafDecimal: "decimal",
		event.LeafText: "text", event.LeafEnum: "enum", event.LeafBytes: "bytes", event.LeafList: "list",
		event.LeafMap: "map"}
	var got []string
	for _, l := range leaves {
		text := strings.Join(l.Path, ".") + " " + kinds[l.Kind]
		if l.Kind == event.LeafList {
			text += " of " + kinds[l.Item]
		}
		if l.IsTime {
			text += fmt.Sprint(" time ", l.Unit)
		}
		if l.Doc != "" {
			text += " " + l.Doc
		}
		got = append(got, text+strings.Join(l.Symbols, "|"))
	}
	want := []string{"a text text", "b.c whole", "b.l list of other", "d.c whole", "d.l list of other", "e other",
		"f enum of EX|Y", "g decimal", "h list of other", "i list of enum", "j whole time 2", "k map", "m text", "n bytes",
		"o other"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := Outline(written(`{"type":"record"}`), nil, 8); err == nil {
		t.Error("a schema that is none")
	}
	if leaves, err := Outline(written(`["null","int"]`), nil, 8); err != nil || len(leaves) != 0 {
		t.Errorf("%v, %v", leaves, err)
	}
	wide := `"null"`
	for i := range 40 { // 2^40 places, none of which is a leaf
		wide = fmt.Sprintf(`{"type":"record","name":"W%d","fields":[{"name":"x","type":%s},{"name":"y","type":%q}]}`, i, wide,
			map[bool]string{true: "null", false: fmt.Sprint("W", i-1)}[i == 0])
	}
	if leaves, err := Outline(written(wide), nil, 100); err != nil || len(leaves) > event.MaxLeaves {
		t.Errorf("%d leaves, %v", len(leaves), err)
	}
}

// TestLooseSchemas: what other parsers let through and says nothing of the bytes does not make a schema of no use; as a
// reader's it is refused.
func TestLooseSchemas(t *testing.T) {
	const bytes, long = "\x04\x01\x02", "\x02"
	for name, c := range map[string]struct{ field, value, want string }{
		"a number's default in quotes":   {`"type":"long","default":"0"`, long, "1"},
		"a default of null":              {`"type":"long","default":null`, long, "1"},
		"a default of a record":          {`"type":{"type":"record","name":"E","fields":[{"name":"a","type":"int"}]},"default":{}`, long, "wrong_type"},
		"a default that is no symbol":    {`"type":{"type":"enum","name":"E","symbols":["A"],"default":"B"}`, "\x00", "A"},
		"a symbol with a hyphen":         {`"type":{"type":"enum","name":"E","symbols":["A-B"]}`, "\x00", "A-B"},
		"an alias that is its name":      {`"type":"long","aliases":["x"]`, long, "1"},
		"aliases of null":                {`"type":"long","aliases":null`, long, "1"},
		"no such order":                  {`"type":"long","order":"none"`, long, "1"},
		"a class within a class of Java": {`"type":{"type":"enum","name":"E","namespace":"shop.My-Outer$","symbols":["A"]}`, "\x00", "A"},
		"more digits behind the point":   {`"type":{"type":"bytes","logicalType":"decimal","precision":2,"scale":4}`, bytes, "AQI="},
		"a decimal without precision":    {`"type":{"type":"bytes","logicalType":"decimal"}`, bytes, "AQI="},
		"a precision in quotes":          {`"type":{"type":"bytes","logicalType":"decimal","precision":"4"}`, bytes, "AQI="},
		"a fixed without room":           {`"type":{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":5}`, "\x01\x02", "AQI="},
		"one decimal of two":             {`"type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2},"default":5`, bytes, "2.58"},
	} {
		text := `{"type":"record","name":"V","namespace":"my-server.shop","fields":[{"name":"x",` + c.field + `}]}`
		if name == "a default of null" {
			text = `{"type":"record","name":"V","fields":[{"name":"x",` + c.field + `}]}`
		}
		d := event.NewMapped(event.Schema{Task: event.Regression, Categorical: []string{"x"}}, event.DefaultLimits(),
			new(event.Mapping), nil)
		d.Read(event.Reading{Format: event.FormatAvro, Writers: known{seven: written(text)},
			Compilers: map[string]event.Compiler{event.FormatAvro: Compile}})
		var ev event.Event
		r, wait := d.DecodeRecord(&ev, &event.Record{Value: confluent([]byte(c.value)), Time: 5})
		if got := reason(r); wait != nil || got != c.want && (got != "" || ev.Categorical[0] != c.want) {
			t.Errorf("%s: %v, %v, %+v, want %s", name, r, wait, ev, c.want)
		}
		if leaves, err := Outline(written(text), nil, 32); err != nil || len(leaves) != 1 {
			t.Errorf("%s: %+v, %v", name, leaves, err)
		}
		if _, err := Compile(written(`{"type":"record","name":"V","fields":[]}`), written(text), d.Asked(), 32); err == nil {
			t.Errorf("%s: no error of a reader's schema", name)
		}
	}
}
