package config

import (
	"slices"
	"strings"
	"testing"
)

const tablesText = `
kafka: {bootstrap_servers: ["127.0.0.1:9092"], group_id: g}
models:
- name: ratings
  schema: {task: regression, label: rating, categorical: [user, item], numeric: [hour], derived: [{name: n, kind: count, of: user}]}
  tables: [{name: items, topics: [items], of: item, key: id, categorical: [genre], numeric: [price], multi: [tags]}]
  input: {topics: [t]}
`

// TestTables: columns of tables are optional fields of their entity behind all others, whatever the order of the keys;
// and what is wrong with a table is said by its key.
func TestTables(t *testing.T) {
	c, err := Parse("a.yaml", []byte(tablesText), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &c.Models[0]
	s := &m.Schema
	if !slices.Equal(s.Categorical, []string{"user", "item", "n", "genre"}) ||
		!slices.Equal(s.Numeric, []string{"hour", "price"}) || !slices.Equal(s.Multi, []string{"tags"}) ||
		s.Of["genre"] != "item" || !slices.Equal(s.Optional, []string{"genre", "n", "price", "tags"}) {
		t.Errorf("schema %+v", s)
	}
	given, lists := s.GivenFields()
	if !slices.Equal(given, []string{"user", "item"}) || len(lists) > 0 ||
		!slices.Equal(s.GivenNumbers(), []string{"hour"}) {
		t.Errorf("events bring %q, %q and %q", given, lists, s.GivenNumbers())
	}
	if !slices.Equal(m.AllTopics(), []string{"t", "items"}) || m.TableOf("items") != 0 || m.TableOf("t") != -1 {
		t.Errorf("topics %q", m.AllTopics())
	}
	if got := m.Tables[0].MaxBytes; got != 16<<20 {
		t.Errorf("max_bytes is %d", got)
	}
	with, err := Parse("a.yaml", []byte(strings.Replace(tablesText, "multi: [tags]",
		"vector: [{name: text, dim: 384}], max_rows: 1000", 1)), nil)
	if err != nil || with.Models[0].Tables[0].MaxBytes != 16<<20+1000*384*4 {
		t.Errorf("a table with vectors: %+v, %v", with, err)
	}
	same, err := Parse("a.yaml", []byte(strings.Replace(tablesText, "multi: [tags]", "multi: [tags], as_of: latest", 1)),
		nil)
	if err != nil || same.Models[0].SampleHash() != m.SampleHash() {
		t.Errorf("as_of: latest is not the default: %v", err)
	}
	when, err := Parse("a.yaml", []byte(strings.Replace(tablesText, "multi: [tags]",
		"multi: [tags], as_of: event, time: at", 1)), nil)
	if err != nil || when.Models[0].Tables[0].History != 16 || when.Models[0].Tables[0].TimeUnit != "ms" {
		t.Errorf("a table with a history: %+v, %v", when, err)
	}
	stored, err := DecodeStored(m.Stored())
	if err != nil || stored.Hash() != m.Hash() || stored.SampleHash() != m.SampleHash() {
		t.Errorf("a stored model has another hash: %v", err)
	}
	for _, x := range []struct{ old, new, key string }{
		{"of: item", "of: itme", "models[0].tables[0].of"},
		{"topics: [items]", "topics: [t]", "models[0].tables[0].topics[0]"},
		{"key: id", "key: ''", "models[0].tables[0].key"},
		{"genre", "user", "tables: column user of items"},
		{"categorical: [genre], numeric: [price], multi: [tags]", "max_rows: 3", "models[0].tables[0].categorical"},
		{"name: items", "name: Items!", "models[0].tables[0].name"},
		{"multi: [tags]", "multi: [tags], filter: [genre, price]", "models[0].tables[0].filter[1]"},
		{"multi: [tags]", "vector: [{name: price, dim: 3}]", "models[0].tables[0].vector[0].name"},
		{"multi: [tags]", "vector: [{name: text, dim: 0}]", "models[0].tables[0].vector[0].dim"},
		{"multi: [tags]}]", "vector: [{name: text, dim: 3}]}]\n  train: {refit: output}", "models[0].tables[0].vector"},
		{"multi: [tags]", "multi: [tags], max_rows: -1", "models[0].tables[0].max_rows"},
		{"multi: [tags]", "multi: [tags], max_bytes: 1KiB", "models[0].tables[0].max_bytes"},
		{"multi: [tags]", "multi: [tags], as_of: events", "models[0].tables[0].as_of"},
		{"multi: [tags]", "multi: [tags], as_of: latest, history: 3", "models[0].tables[0].history"},
		{"multi: [tags]", "multi: [tags], time: at", "models[0].tables[0].time"},
		{"multi: [tags]", "multi: [tags], as_of: event, history: 1", "models[0].tables[0].history"},
		{"multi: [tags]", "multi: [tags], as_of: event, time: price", "models[0].tables[0].time"},
		{"multi: [tags]", "multi: [tags], as_of: event, time: at, time_unit: m", "models[0].tables[0].time_unit"},
		{"multi: [tags]", "vector: [{name: text, dim: 3}], as_of: event", "models[0].tables[0].as_of"},
		{"multi: [tags]", "multi: [tags], mapping: {fields: [{name: nil, path: a}]}",
			"models[0].tables[0].mapping.fields[0].name"},
	} {
		_, err := Parse("a.yaml", []byte(strings.Replace(tablesText, x.old, x.new, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), x.key) {
			t.Errorf("%s in place of %s: %v, want %s", x.new, x.old, err, x.key)
		}
	}
}
