package jsonschema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer/event"
)

// TestOutline: each member that a JSON Schema has, in its order, with what is there.
func TestOutline(t *testing.T) {
	w := &event.Writer{Format: event.FormatJSONSchema, Text: `{"type":"object","$defs":{
		"what":{"description":"what it is","type":"object","properties":{"item":{"type":["null","integer"]},"more":{"$ref":"#/$defs/what"}}}},
		"properties":{
			"user":{"type":"string","description":"who"},
			"what":{"oneOf":[{"type":"null"},{"$ref":"#/$defs/what"}]},
			"device":{"enum":["WEB",null,"TV"]},
			"rating":{"type":"number"},
			"odd":true,
			"at":{"type":"string","format":"date-time"},
			"tags":{"type":"array","items":{"type":"string"}},
			"seen":{"oneOf":[{"type":"null"},{"type":"integer","title":"io.debezium.time.MicroTimestamp"}]},
			"price":{"type":"number","title":"org.apache.kafka.connect.data.Decimal",
				"connect.parameters":{"scale":"2"}},
			"member":{"type":"boolean"}}}`}
	leaves, err := Outline(w, nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range leaves {
		got = append(got, fmt.Sprint(strings.Join(l.Path, "."), " ", l.Kind, l.Item, l.IsTime, l.Unit, l.Scale,
			l.Symbols, l.Doc))
	}
	want := []string{
		fmt.Sprint("user ", event.LeafText, event.LeafOther, false, event.ModelUnit, 0, []string{}, "who"),
		fmt.Sprint("what.item ", event.LeafWhole, event.LeafOther, false, event.ModelUnit, 0, []string{}, ""),
		fmt.Sprint("what.more.item ", event.LeafWhole, event.LeafOther, false, event.ModelUnit, 0, []string{}, ""),
		fmt.Sprint("device ", event.LeafEnum, event.LeafOther, false, event.ModelUnit, 0, []string{"WEB", "TV"}, ""),
		fmt.Sprint("rating ", event.LeafReal, event.LeafOther, false, event.ModelUnit, 0, []string{}, ""),
		fmt.Sprint("odd ", event.LeafOther, event.LeafOther, false, event.ModelUnit, 0, []string{}, ""),
		fmt.Sprint("at ", event.LeafText, event.LeafOther, true, event.ModelUnit, 0, []string{}, ""),
		fmt.Sprint("tags ", event.LeafList, event.LeafText, false, event.ModelUnit, 0, []string{}, ""),
		fmt.Sprint("seen ", event.LeafWhole, event.LeafOther, true, event.Microseconds, 0, []string{}, ""),
		fmt.Sprint("price ", event.LeafDecimal, event.LeafOther, false, event.ModelUnit, 2, []string{}, ""),
		fmt.Sprint("member ", event.LeafBool, event.LeafOther, false, event.ModelUnit, 0, []string{}, ""),
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for _, text := range []string{`{`, `7`, `{"properties":[]}`} {
		w.Text = text
		if leaves, err := Outline(w, nil, 3); len(leaves) != 0 || text == "{" && err == nil {
			t.Errorf("%s: %v, %v", text, leaves, err)
		}
	}
}

// TestReferences: what is referred to is found by its place, in the schema itself and in others, which refer to each
// other, in the words of every draft.
func TestReferences(t *testing.T) {
	w := &event.Writer{Text: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
		"definitions":{"a":{"type":"integer"},"b/c":{"$ref":"#/definitions/a"},"user":{"type":"array"}},"properties":{
		"a":{"$ref":"#/definitions/a"},"b":{"$ref":"#/definitions/b~1c"},"user":{"type":"string"},
		"same":{"$ref":"#/properties/user"},"what":{"$ref":"item.json"},"id":{"$ref":"https://shop/id.json#/$defs/id"},
		"list":{"type":"array","items":{"$ref":"https://shop/id.json#/$defs/id"}},"again":{"$ref":"#"},
		"none":{"$ref":"none.json#/$defs/id"},"odd":{"$ref":"#/definitions"}}}`,
		References: []event.Reference{{Name: "id", Text: `{"$id":"https://shop/id.json","$defs":{"id":{"type":"string"}}}`},
			{Name: "item.json", Text: `{"type":"object","properties":{"id":{"$ref":"#/$defs/id"},"more":{"$ref":"id#/$defs/id"}},
				"$defs":{"id":{"type":"number"}}}`}}}
	leaves, err := Outline(w, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	deep, err := Outline(w, nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]event.LeafKind)
	for _, l := range deep {
		got[strings.Join(l.Path, ".")] = max(l.Kind, l.Item)
	}
	for path, want := range map[string]event.LeafKind{"a": event.LeafWhole, "b": event.LeafWhole, "user": event.LeafText,
		"same": event.LeafText, "what.id": event.LeafReal, "what.more": event.LeafText, "id": event.LeafText,
		"list": event.LeafList, "again.what.id": event.LeafReal, "none": event.LeafOther, "odd": event.LeafOther} {
		if kind, ok := got[path]; !ok || kind != want {
			t.Errorf("%s is %d, %v; want %d", path, kind, ok, want)
		}
	}
	if len(leaves) >= len(deep) {
		t.Errorf("%d and %d leaves", len(leaves), len(deep))
	}
}

// TestKindsOfEvents: of objects that are one of several, members of all are there; what is text or an object is neither
// more nor less than both.
func TestKindsOfEvents(t *testing.T) {
	w := &event.Writer{Text: `{"type":"object","properties":{"ts":{"type":"integer"}},"oneOf":[{"$ref":"#/$defs/sale"},
		{"anyOf":[{"properties":{"user":{"type":"string"},"stars":{"type":"number"}}},{"required":["ts"]}]}],
		"$defs":{"sale":{"properties":{"user":{"type":"string"},"what":{"oneOf":[{"type":"null"},
			{"properties":{"sku":{"type":"string"}}},{"properties":{"isbn":{"type":"string"}}},{"$ref":"#/$defs/sale"}]},
			"both":{"oneOf":[{"type":"string"},{"type":"integer"}]},
			"mixed":{"oneOf":[{"type":"string"},{"type":"object","properties":{"a":{"type":"string"}}}]},
			"stars":{"type":"string"}}}}}`}
	leaves, err := Outline(w, nil, 4)
	got := make(map[string]event.LeafKind)
	for _, l := range leaves {
		got[strings.Join(l.Path, ".")] = l.Kind
	}
	for path, want := range map[string]event.LeafKind{"ts": event.LeafWhole, "user": event.LeafText,
		"stars": event.LeafOther, "mixed": event.LeafOther, "mixed.a": event.LeafText,
		"what.sku": event.LeafText, "what.isbn": event.LeafText, "what.user": event.LeafText,
		"both": event.LeafOther} {
		if kind, ok := got[path]; err != nil || !ok || kind != want {
			t.Errorf("%s is %d, %v; want %d", path, kind, ok, want)
		}
	}
	if _, ok := got["what"]; ok {
		t.Error("an object is a leaf")
	}
}

// FuzzOutline: nothing panics, and there are no more leaves than may be.
func FuzzOutline(f *testing.F) {
	f.Add(`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/a"}}}}}`)
	f.Add(`{"oneOf":[{"$ref":"#"},{"anyOf":[{"$ref":"#"},{"properties":{"a":{"$ref":"#"}}}]}]}`)
	f.Add(`{"oneOf":[` + strings.Repeat(`{"$ref":"#"},`, 300) + `{"properties":{"a":{"$ref":"#"}}}]}`) // 9 * 10^6 ways
	f.Add(`{"allOf":[{"properties":{"a":{"type":"array","items":true}}}],"type":5}`)
	f.Add(`{"properties":{"x":{"$ref":"#/$defs/A"},"y":{"$ref":"#A"}},"$defs":{"A":{"$id":"#A","type":"array","items":{"$ref":"#/$defs/A"}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		leaves, _ := Outline(&event.Writer{Text: text, References: []event.Reference{{Name: "a", Text: text}}}, nil, 100)
		if len(leaves) > event.MaxLeaves {
			t.Errorf("%d leaves", len(leaves))
		}
		for _, l := range leaves {
			if len(l.Path) == 0 {
				t.Error("a leaf without a path")
			}
		}
	})
}
