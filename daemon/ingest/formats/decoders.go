package formats

import (
	"cmp"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/avro"
	"github.com/refitd/refitd/consumer/event/jsonschema"
	"github.com/refitd/refitd/consumer/event/protobuf"
	"github.com/refitd/refitd/daemon/config"
)

// compilers make programs of schemas, by the format of these. A new binary format is a row here and in event.Formats.
var compilers = map[string]event.Compiler{event.FormatAvro: avro.Compile, event.FormatProtobuf: protobuf.Compile}

// outliners list what schemas have, by the format of these.
var outliners = map[string]event.Outliner{event.FormatAvro: avro.Outline, event.FormatProtobuf: protobuf.Outline,
	event.FormatJSONSchema: jsonschema.Outline}

// NewDecoder returns the decoder of a model's events, by their values alone: of a mapping, what it takes from keys and
// headers is missing.
func NewDecoder(m *config.Model) event.Decoder {
	if m.Input.Mapping.IsSet() {
		return NewJSONRecordDecoder(m)
	}
	return NewJSONDecoder(m)
}

// NewJSONDecoder is NewDecoder without the mapping: of events as the schema has them.
func NewJSONDecoder(m *config.Model) *event.JSON { return event.NewJSON(m.Schema.Event(), limitsOf(m)) }

// limitsOf returns what the model allows an event to be.
func limitsOf(m *config.Model) event.Limits {
	limits := event.DefaultLimits()
	limits.MaxEventBytes = int(m.Input.MaxEventBytes)
	limits.MaxIDBytes = int(m.Input.MaxIDBytes)
	limits.MaxMulti = cmp.Or(m.Input.MaxListNames, limits.MaxMulti) // a model stored by an earlier build has no such key
	limits.MaxFutureSkew = m.Input.MaxFutureSkew.Std()
	return limits
}

// readingOf returns of which formats the records of a model are; nil where they are JSON alone.
func readingOf(m *config.Model, schemas *Schemas) *event.Reading {
	if !m.Input.IsFramed() {
		return nil
	}
	r := &event.Reading{Format: m.Input.Format, Key: m.Input.KeyFormat, Compilers: compilers, Outliners: outliners,
		Fixed: m.Input.Writer()}
	if m.Input.FromRegistry {
		r.Writers, r.Changed, r.Doubt = schemas, schemas.Changed, schemas.Doubt
	}
	if schemas != nil {
		r.Lost = schemas.loses
	}
	return r
}

// newMapped returns the decoder of records with their keys and headers. reading is nil where they are JSON, missing
// where nobody counts.
func newMapped(m *config.Model, of event.Schema, reading *event.Reading, missing *event.Missing) *event.Mapped {
	mapping := m.Mapping()
	if mapping == nil {
		mapping = new(event.Mapping) // fields have their own names
	}
	d := event.NewMapped(of, limitsOf(m), mapping, missing)
	if reading != nil {
		d.Read(*reading)
	}
	return d
}

// NewRecordDecoder returns the decoder of a model's records with their keys and headers, nil where it has neither a
// mapping nor a format other than JSON: its events are decoded by their values alone then. missing, which may be nil,
// counts the events that lack what the mapping names.
func NewRecordDecoder(m *config.Model, schemas *Schemas, missing *event.Missing) *event.Mapped {
	reading := readingOf(m, schemas)
	if reading == nil && !m.Input.Mapping.IsSet() {
		return nil
	}
	return newMapped(m, m.Schema.Event(), reading, missing)
}

// NewOutcomeDecoder is NewRecordDecoder of a model's outcomes, of which no schema loses a field of its events.
func NewOutcomeDecoder(of *config.Model, schemas *Schemas) *event.Mapped {
	reading := readingOf(of, schemas)
	if reading == nil {
		return NewRecordDecoder(of, nil, nil)
	}
	reading.Lost = nil
	return newMapped(of, of.Schema.Event(), reading, nil)
}

// NewJSONRecordDecoder returns the decoder of a model's records where they are JSON, with its mapping if it has one.
func NewJSONRecordDecoder(m *config.Model) *event.Mapped {
	return newMapped(m, m.Schema.Event(), nil, nil)
}

// NewTableRecordDecoder returns the decoder of the records of a table, of its config.Table.Model.
func NewTableRecordDecoder(of *config.Model, schemas *Schemas) *event.Mapped {
	return newMapped(of, tableSchema(of), readingOf(of, schemas), nil)
}

// NewTableDecoder returns a decoder of the values of a table of m, and the schema of the events that it makes of them:
// as the topic has them, or without the mapping, whose fields then have their own names.
func NewTableDecoder(t *config.Table, m *config.Model, mapped bool) (event.Schema, event.Decoder) {
	of := t.Model(m)
	schema := tableSchema(of)
	if mapped {
		return schema, newMapped(of, schema, nil, nil)
	}
	return schema, event.NewJSON(schema, limitsOf(of))
}

// tableSchema is the schema of the records of a table.
func tableSchema(of *config.Model) event.Schema {
	s := of.Schema.Event()
	s.Flags = true
	return s
}
