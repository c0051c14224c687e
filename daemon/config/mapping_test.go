package config

import (
	"errors"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"os"
	"strings"
	"testing"
)

// TestMapping: a mapping is taken as it is written, and one that cannot be is refused with its place and what to write.
func TestMapping(t *testing.T) {
	load := func(mapping string) (*Config, error) {
		return Parse("f.yaml", []byte(`kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
  - name: m
    input:
      topics: [t]
      mapping: `+mapping+`
    schema: {task: binary, label: y, positive: UP, categorical: [user], derived: [{name: n, kind: count, of: user}]}
`), os.LookupEnv)
	}
	c, err := load(
		`{envelope: debezium, when: ['source.table == "x"'], fields: [{name: user, path: "key:id"}, {name: y, constant: UP}]}`,
	)
	if err != nil {
		t.Fatal(err)
	}
	m := c.Models[0].Mapping()
	if m == nil || m.Envelope != "debezium" || len(m.When) != 1 || len(m.Fields) != 2 || m.Fields[1].Constant != "UP" ||
		m.Fields[0].From.IsZero() {
		t.Errorf("%+v", m)
	}
	scaled, err := load(`{envelope: debezium, fields: [{name: user, path: after.n, as: "decimal:2"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if f := scaled.Models[0].Mapping().Fields[0]; !f.IsDecimal || f.Scale != 2 || f.AsNumber {
		t.Errorf("%+v", f)
	}
	in := c.Models[0].Input.Mapping
	if in.Place("user") != "key:id" || in.Place("y") != "constant" || in.Place("z") != "after.z" {
		t.Errorf("places %s, %s, %s", in.Place("user"), in.Place("y"), in.Place("z"))
	}
	if c, err = load(`{}`); err != nil || c.Models[0].Mapping() != nil {
		t.Errorf("an empty one: %v", err)
	}
	for text, want := range map[string]string{
		`{envelope: avro}`:                                                         "envelope",
		`{when: [type = 1]}`:                                                       "when[0]",
		`{when: ['attribute:type == "x"']}`:                                        "when[0]",
		`{fields: [{name: users, path: a}]}`:                                       "fields[0].name",
		`{fields: [{name: n, path: a}]}`:                                           "fields[0].name",
		`{fields: [{name: user}]}`:                                                 "fields[0].path",
		`{fields: [{name: user, path: "a..b"}]}`:                                   "fields[0].path",
		`{fields: [{name: user, path: "topic:x"}]}`:                                "fields[0].path",
		`{fields: [{name: user, path: a, as: int}]}`:                               "fields[0].as",
		`{fields: [{name: user, path: a, as: decimal:2}]}`:                         "fields[0].as",
		`{envelope: debezium, fields: [{name: user, path: a, as: "decimal:"}]}`:    "fields[0].as",
		`{envelope: debezium, fields: [{name: user, path: a, as: "decimal:200"}]}`: "fields[0].as",
		`{envelope: debezium, fields: [{name: user, path: a, as: "decimal:-1"}]}`:  "fields[0].as",
		`{fields: [{name: user, path: a, constant: b}]}`:                           "fields[0].path",
		`{fields: [{name: user, path: a}, {name: user, path: b}]}`:                 "fields[1].name",
		`{fields: [{name: user, path: "attribute:subject"}]}`:                      "fields[0].path",
		`{fields: [{name: user, pth: a}]}`:                                         "fields[0].pth",
		`{when: ["` + strings.Repeat("x", 600) + ` == 1"]}`:                        "when[0]",
	} {
		_, err := load(text)
		bad, ok := errors.AsType[*strictyaml.FileError](err)
		if !ok || bad.Problems[0].Key != "models[0].input.mapping."+want || bad.Problems[0].Line != 6 {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
