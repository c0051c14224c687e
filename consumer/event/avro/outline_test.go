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
