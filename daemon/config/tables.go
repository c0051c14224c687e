package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// Table is what topics say of entities, such as the genre of an item. Its columns are fields of the schema that events
// do not have: they are looked up when events are learned from and scored.
type Table struct {
	Name   string   `json:"name"`             // small letters, digits and '_'
	Topics []string `json:"topics"`           // of its records, other than those of events
	Of     string   `json:"of"`               // categorical field of the schema whose names are the entities
	Key    string   `json:"key"`              // where records have the entity's name: a member, key:id or record:key
	Format string   `json:"format,omitempty"` // as input.format
	// as input.key_format
	KeyFormat   string   `json:"key_format,omitempty"`
	Categorical []string `json:"categorical,omitempty"` // columns with one name; true and false are names, too
	Numeric     []string `json:"numeric,omitempty"`     // columns with a number
	Multi       []string `json:"multi,omitempty"`       // columns with a list of names
	Vector      []Vector `json:"vector,omitempty"`      // columns with a list of numbers, such as an embedding
	Filter      []string `json:"filter,omitempty"`      // columns of names for conditions of lists, which nothing learns
	Mapping     Mapping  `json:"mapping,omitzero"`      // where in records the columns are, as input.mapping
	AsOf        string   `json:"as_of,omitempty"`       // latest; event: joined as it was at the event's time
	History     int      `json:"history,omitempty"`     // with as_of: event, how many values of a key are kept
	Time        string   `json:"time,omitempty"`        // of the value in a record; empty: the record's time stamp
	TimeUnit    string   `json:"time_unit,omitempty"`   // of Time: s, ms, us or ns
	MaxRows     int      `json:"max_rows"`              // of a partition; those written longest ago go first
	MaxBytes    Size     `json:"max_bytes"`             // of these rows

	FromRegistry bool `json:"from_registry,omitempty" yaml:"-"` // schemas are those of kafka.schema_registry
}

// Vector is a column with a list of numbers, from which a refit learns where a name without events begins.
type Vector struct {
	Name string `json:"name"` // a name that no field has
	Dim  int    `json:"dim"`  // how many numbers each list has
}

// Joined is a field of the schema that is a column of a table.
type Joined struct {
	Name  string `json:"name"`
	Table string `json:"table"`
	Of    string `json:"of"`
	Kind  string `json:"kind"` // categorical, numeric or multi
}

// The kinds of columns.
const (
	joinedCategorical = "categorical"
	joinedNumeric     = "numeric"
	joinedMulti       = "multi"
)

// What a table may hold unless it is said, and at most.
const (
	defaultTableRows       = 100_000
	defaultTableBytes Size = 16 << 20
	maxTableRows           = 10_000_000
	maxTableBytes     Size = 4 << 30
	maxTables              = 16
	maxTableColumns        = 64
	maxVectorDim           = 8192
	defaultHistory         = 16
	leastHistory           = 2
	mostHistory            = 1000
)

// Values of Table.AsOf in files. The first is left out where models are stored, as before there was a choice.
const (
	asOfLatest = "latest"
	asOfEvent  = "event"
)

// HasHistory reports whether events are joined with what the table said at their time.
func (t *Table) HasHistory() bool { return t.AsOf == asOfEvent }

// takeTables adds the columns of the tables to the lists that have all fields.
func (m *Model) takeTables() {
	s := &m.Schema
	for i := range m.Tables {
		t := &m.Tables[i]
		t.MaxRows = cmp.Or(t.MaxRows, defaultTableRows)
		t.MaxBytes = cmp.Or(t.MaxBytes, min(defaultTableBytes+Size(t.MaxRows*t.VectorBytes()), maxTableBytes))
		t.Format = cmp.Or(t.Format, event.FormatJSON)
		if t.AsOf == asOfLatest {
			t.AsOf = ""
		}
		if t.HasHistory() {
			t.History = cmp.Or(t.History, defaultHistory)
		}
		if t.Time != "" {
			t.TimeUnit = cmp.Or(t.TimeUnit, "ms")
		}
		for _, list := range []struct {
			kind    string
			columns []string
			to      *[]string
		}{{joinedCategorical, t.Categorical, &s.Categorical}, {joinedNumeric, t.Numeric, &s.Numeric},
			{joinedMulti, t.Multi, &s.Multi}} {
			for _, name := range list.columns {
				*list.to = append(slices.Clip(*list.to), name)
				s.Joined = append(s.Joined, Joined{name, t.Name, t.Of, list.kind})
				if name == "" {
					continue
				}
				if s.Optional = append(s.Optional, name); s.Of == nil {
					s.Of = make(map[string]string)
				}
				if s.Of[name] == "" {
					s.Of[name] = t.Of
				}
			}
		}
	}
	slices.Sort(s.Optional)
}

// VectorBytes returns the bytes that the vectors of a row take, each number 4.
func (t *Table) VectorBytes() (bytes int) {
	for i := range t.Vector {
		bytes += 4 * min(max(t.Vector[i].Dim, 0), maxVectorDim)
	}
	return bytes
}

// numJoined returns how many joined fields are of a kind: the last ones of that list.
func (s *Schema) numJoined(kind string) (n int) {
	for i := range s.Joined {
		if s.Joined[i].Kind == kind {
			n++
		}
	}
	return n
}

// joinedFields returns the joined fields in the decoder's terms.
func (s *Schema) joinedFields() (out []event.Joined) {
	for _, j := range s.Joined {
		e := event.Joined{Of: slices.Index(s.Categorical, j.Of), Numeric: j.Kind == joinedNumeric,
			Multi: j.Kind == joinedMulti}
		switch j.Kind {
		case joinedNumeric:
			e.At = slices.Index(s.Numeric, j.Name)
		case joinedMulti:
			e.At = slices.Index(s.Multi, j.Name)
		default:
			e.At = slices.Index(s.Categorical, j.Name)
		}
		out = append(out, e)
	}
	return out
}

// GivenNumbers returns the numeric fields that events bring: without those that are joined.
func (s *Schema) GivenNumbers() []string {
	return slices.Clip(s.Numeric[:max(0, len(s.Numeric)-s.numJoined(joinedNumeric))])
}

// AllTopics returns the topics that the model reads: those of events, of outcomes, then those of tables.
func (m *Model) AllTopics() []string {
	topics := slices.Concat(m.Input.Topics, m.Input.Outcomes.Topics)
	for i := range m.Tables {
		topics = append(topics, m.Tables[i].Topics...)
	}
	return topics
}

// TableOf returns the index of the table that a topic is of, -1 for a topic of events.
func (m *Model) TableOf(topic string) int {
	return slices.IndexFunc(m.Tables, func(t Table) bool { return slices.Contains(t.Topics, topic) })
}

// IsFramed reports whether records of a topic of the model may be of another format than JSON.
func (m *Model) IsFramed() bool {
	return m.Input.IsFramed() || slices.ContainsFunc(m.Tables, func(t Table) bool { return t.input().IsFramed() })
}

// input returns the table as the input of a model.
func (t *Table) input() *Input {
	return &Input{Topics: t.Topics, Format: t.Format, KeyFormat: t.KeyFormat, Start: "earliest",
		FromRegistry: t.FromRegistry, Mapping: t.placed()}
}

// placed returns the mapping with the place of the key.
func (t *Table) placed() Mapping {
	c := t.Mapping
	path := t.Key
	if c.Envelope == string(event.Debezium) && !strings.ContainsAny(path, ".:\"") {
		path = "after." + path
	}
	c.Fields = append(slices.Clip(c.Fields), MappedField{Name: t.Of, Path: path})
	return c
}

// Model returns a model whose events are the records of the table of m, for a decoder: choices without a label, whose
// first categorical field is the entity's name and whose other fields are the columns, all optional.
func (t *Table) Model(m *Model) *Model {
	out := &Model{Name: m.Name, Input: *t.input()}
	out.Input.OnGap, out.Input.MaxEventBytes, out.Input.MaxIDBytes = m.Input.OnGap, m.Input.MaxEventBytes,
		m.Input.MaxIDBytes
	out.Input.MaxListNames, out.Input.MaxFutureSkew = m.Input.MaxListNames, m.Input.MaxFutureSkew
	for _, v := range t.Vector { // which are lists, too
		out.Input.MaxListNames = max(out.Input.MaxListNames, v.Dim)
	}
	out.Schema = Schema{Task: Implicit, Time: t.Time, TimeUnit: cmp.Or(t.TimeUnit, "ms"),
		Categorical: append([]string{t.Of}, t.Categorical...), Numeric: t.Numeric, Multi: t.Multi,
		Optional: slices.Concat(t.Categorical, t.Numeric, t.Multi), vectors: t.Vector}
	for i := range t.Vector {
		out.Schema.Optional = append(out.Schema.Optional, t.Vector[i].Name)
	}
	slices.Sort(out.Schema.Optional)
	return out
}

// tables checks the tables of a model: names, topics, entities, columns and limits.
func (v *validator) tables(m *Model, path string) {
	if len(m.Tables) > maxTables {
		v.bad(path, len(m.Tables), fmt.Sprintf("at most %d tables", maxTables))
	}
	categorical, _ := m.Schema.GivenFields()
	topics := slices.Clone(m.Input.Topics)
	for i := range m.Tables {
		t, at := &m.Tables[i], fmt.Sprintf("%s[%d]", path, i)
		if !isName(t.Name) || slices.ContainsFunc(m.Tables[:i], func(o Table) bool { return o.Name == t.Name }) {
			v.bad(at+".name", t.Name, "a name of its kind alone: small letters, digits, '.', '_' or '-'")
		}
		if len(t.Topics) == 0 && !v.allow.Offline {
			v.bad(at+".topics", nil, "a list with at least one topic")
		}
		for j, topic := range t.Topics {
			if !isTopic(topic) || slices.Contains(topics, topic) {
				v.bad(fmt.Sprintf("%s.topics[%d]", at, j), topic,
					"1 to 249 letters, digits, '.', '_' or '-', and a topic that neither events nor other tables have")
			}
			topics = append(topics, topic)
		}
		if !slices.Contains(categorical, t.Of) {
			v.oneOfFields(at+".of", t.Of, categorical)
		}
		if _, err := event.ParseSource(t.Key); err != nil || t.Key == "" {
			v.bad(at+".key", t.Key, "where records have the name of the entity, such as id, key:id or record:key")
		}
		n := len(t.Categorical) + len(t.Numeric) + len(t.Multi) + len(t.Vector)
		if n == 0 || n > maxTableColumns {
			v.bad(at+".categorical", n,
				fmt.Sprintf("1 to %d columns in categorical, numeric, multi and vector", maxTableColumns))
		}
		v.vectors(m, t, at+".vector")
		for j, name := range t.Filter {
			if list := slices.Concat(t.Categorical, t.Multi); !slices.Contains(list, name) {
				v.oneOfFields(fmt.Sprintf("%s.filter[%d]", at, j), name, list)
			}
		}
		v.history(t, at)
		in := t.input()
		v.formats(in, at)
		t.FromRegistry = in.FromRegistry
		v.whole(at+".max_rows", t.MaxRows, 1, maxTableRows)
		v.size(at+".max_bytes", t.MaxBytes, 64<<10, maxTableBytes)
		of := t.Model(m)
		of.Input.Mapping = t.Mapping
		v.mapping(of, at+".mapping")
	}
}

// history checks how a table is joined, and when its values begin.
func (v *validator) history(t *Table, at string) {
	if t.HasHistory() {
		v.whole(at+".history", t.History, leastHistory, mostHistory)
		if len(t.Vector) > 0 {
			v.bad(at+".as_of", t.AsOf, "latest for a table with vectors: what changes may have a table that has none")
		}
		if t.Time != "" {
			v.oneOf(at+".time_unit", t.TimeUnit, "s", "ms", "us", "ns")
		}
		if slices.Contains(slices.Concat([]string{t.Of}, t.Categorical, t.Numeric, t.Multi), t.Time) {
			v.bad(at+".time", t.Time, "a name that no column has")
		}
		return
	}
	if t.AsOf != "" {
		v.oneOf(at+".as_of", t.AsOf, asOfLatest, asOfEvent)
	}
	const needed = "as_of: event with it"
	if t.History != 0 {
		v.bad(at+".history", t.History, needed)
	}
	if t.TimeUnit != "" && t.Time == "" {
		v.bad(at+".time_unit", t.TimeUnit, "time with it")
	}
	if t.Time != "" {
		v.bad(at+".time", t.Time, needed)
	}
}

// vectors checks the vectors of a table.
func (v *validator) vectors(m *Model, t *Table, path string) {
	names := slices.Concat(m.Schema.Categorical, m.Schema.Numeric, m.Schema.Multi)
	for i := range t.Vector {
		c, at := &t.Vector[i], fmt.Sprintf("%s[%d]", path, i)
		if c.Name == "" || slices.Contains(names, c.Name) {
			v.bad(at+".name", c.Name, "a name that no other field has")
		}
		names = append(names, c.Name)
		v.whole(at+".dim", c.Dim, 1, maxVectorDim)
	}
	if len(t.Vector) > 0 && m.Train.Refit != "variational" {
		v.bad(path, len(t.Vector), "none, as vectors need train.refit: variational")
	}
}
