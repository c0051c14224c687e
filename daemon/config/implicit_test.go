package config

import (
	"errors"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"os"
	"testing"
)

// TestImplicit: choices need no label, what they are compared with follows from the schema, and what cannot be is
// refused with its place.
func TestImplicit(t *testing.T) {
	load := func(input, schema string) (*Config, error) {
		return Parse("f.yaml", []byte(`kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
  - name: m
    input: {topics: [t]`+input+`}
    schema: {`+schema+`}
`), os.LookupEnv)
	}
	const choices = "task: implicit, categorical: [user, item]"
	c, err := load("", choices)
	if err != nil {
		t.Fatal(err)
	}
	m := &c.Models[0]
	if n := m.Input.Negatives; n.Of != "item" || n.PerEvent != 4 || m.ChosenField() != 1 || m.Rows() != 5 ||
		m.Schema.Learned() != "binary" ||
		m.Train.Loss != "binary_logistic" ||
		m.Schema.LabelField() != "chosen" {
		t.Errorf("%+v, loss %s", n, m.Train.Loss)
	}
	more, err := load(", negatives: {per_event: 8}", choices)
	if err != nil || more.Models[0].SampleHash() != m.SampleHash() || more.Models[0].Hash() == m.Hash() {
		t.Errorf("other negatives: the state is the same and the versions are not (%v)", err)
	}
	c, err = load(
		"",
		choices+", label: event, event_weights: [{event: view, weight: 1}, {event: buy, weight: 5}, {event: scroll, "+
			"weight: 0}]",
	)
	if err != nil {
		t.Fatal(err)
	}
	if kinds := c.Models[0].Schema.Event().Kinds; len(kinds) != 3 || kinds["buy"] != 5 {
		t.Errorf("kinds %v", kinds)
	}
	s := &c.Models[0].Schema
	if kind, factor := s.KindOf(5); kind != "buy" || factor != 1 {
		t.Errorf("an event of weight 5 is %s × %g", kind, factor)
	}
	s.Weight = "w"
	if kind, factor := s.KindOf(5); kind != "view" || factor != 5 {
		t.Errorf("an event of weight 5, which may be its own, is %s × %g", kind, factor)
	}
	for _, bad := range []struct{ input, schema, want string }{
		{", negatives: {of: user}", "task: binary, label: y, categorical: [user, item]", "input.negatives"},
		{"", "task: binary, label: y, categorical: [user, item], event_weights: [{event: a, weight: 1}]",
			"schema.event_weights"},
		{"", "task: implicit, categorical: [user]", "input.negatives.of"},
		{"", "task: implicit, categorical: [user, {name: item, optional: true}]", "input.negatives.of"},
		{", negatives: {of: shop}", choices, "input.negatives.of"},
		{", negatives: {per_event: 33}", choices, "input.negatives.per_event"},
		{", negatives: {per_event: -1}", choices, "input.negatives.per_event"},
		{"", choices + ", label: event", "schema.event_weights"},
		{"", choices + ", event_weights: [{event: a, weight: 1}]", "schema.label"},
		{"", choices + ", label: e, event_weights: [{event: a, weight: -1}]", "schema.event_weights[0].weight"},
		{"", choices + ", label: e, event_weights: [{event: a, weight: 1}, {event: a, weight: 2}]",
			"schema.event_weights[1].event"},
		{"", choices + ", label: e, event_weights: [{event: a, weight: 0}]", "schema.event_weights"},
		{"", choices + ", derived: [{name: n, kind: count, of: item}]", "schema.derived[0].of"},
	} {
		_, err := load(bad.input, bad.schema)
		if file, ok := errors.AsType[*strictyaml.FileError](err); !ok || file.Problems[0].Key != "models[0]."+bad.want {
			t.Errorf("%s %s: %v, want %s", bad.input, bad.schema, err, bad.want)
		}
	}
}
