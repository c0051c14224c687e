package typed

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/avro"
	"github.com/refitd/refitd/consumer/event/protobuf"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest/formats"
)

// A form is a format of records.
type form struct {
	schema  func(root *field) string
	compile event.Compiler // nil where no schema of ours can be wrong
	append  func(w *Writer, dst []byte, f *field) []byte
	index   []byte // behind the ID in a frame
}

// forms are all formats of records. Protobuf's index is that of the one message.
var forms = map[string]form{
	event.FormatAvro:       {avroSchema, avro.Compile, (*Writer).appendAvro, nil},
	event.FormatProtobuf:   {protoSchema, protobuf.Compile, (*Writer).appendProto, []byte{0}},
	event.FormatJSONSchema: {jsonSchema, nil, (*Writer).appendJSON, nil},
}

// A Writer turns events into records of one schema. It is not safe for concurrent use.
type Writer struct {
	schema  event.Writer
	form    form
	root    *field
	decoder *event.Mapped
	model   *config.Model
	event   event.Event
	values  map[string]jsontext.Value // of the record at hand, by field of the model
}

// NewWriter returns a writer of events of a model in event.FormatAvro, FormatProtobuf or FormatJSONSchema. What it
// takes are records in JSON: with the fields by their names where isFlat, else where the model's mapping has them.
// Records that it makes have them where the mapping has them.
func NewWriter(m *config.Model, format string, isFlat bool) (*Writer, error) {
	switch c := &m.Input.Mapping; {
	case c.Envelope != "":
		return nil, fmt.Errorf("input.mapping of model %s has the envelope %s, which is not written", m.Name, c.Envelope)
	case len(c.When) > 0:
		return nil, fmt.Errorf("input.mapping of model %s has the condition %s, of fields that are not written", m.Name,
			c.When[0])
	}
	root, err := fieldsOf(m)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	of := *m
	if of.Input.Format, of.Input.KeyFormat = event.FormatJSON, ""; isFlat {
		of.Input.Mapping = config.Mapping{}
	}
	w := &Writer{root: root, model: m, decoder: formats.NewJSONRecordDecoder(&of), form: forms[format]}
	w.schema = event.Writer{Format: format, Text: w.form.schema(root)}
	if compile := w.form.compile; compile != nil {
		if _, err := compile(&w.schema, nil, nil, len(w.schema.Text)); err != nil { // two names are one to the format
			return nil, fmt.Errorf("model %s: the schema of its fields: %w", m.Name, err)
		}
	}
	return w, nil
}

// Schema returns the schema of the records.
func (w *Writer) Schema() *event.Writer { return &w.schema }

// Append appends the record of an event in JSON, without a frame, or returns why that is no event of the model.
func (w *Writer) Append(dst, object []byte) ([]byte, *event.Rejection) {
	at := int64(-1) // no time of an event is above it
	if w.model.Schema.Time == "" {
		at = 0
	}
	r := &event.Record{Value: object, Time: at}
	if rejection, _ := w.decoder.DecodeRecord(&w.event, r); rejection != nil {
		return dst, rejection
	}
	flat, rejection, _ := w.decoder.Show(r)
	if rejection != nil {
		return dst, rejection
	}
	clear(w.values)
	if err := json.Unmarshal(flat, &w.values); err != nil {
		return dst, &event.Rejection{Reason: event.NotJSON, Expected: "one JSON object", Got: "something else"}
	}
	return w.form.append(w, dst, w.root), nil
}

// has reports whether the event at hand has a field, or one within.
func (w *Writer) has(f *field) bool {
	if f.members == nil {
		v := w.values[f.of]
		return len(v) > 0 && v.Kind() != 'n'
	}
	for _, m := range f.members {
		if w.has(m) {
			return true
		}
	}
	return false
}

// textOf returns a name: text, or the digits of a whole number.
func textOf(v jsontext.Value) []byte {
	if v.Kind() == '"' {
		text, _ := jsontext.AppendUnquote(nil, v) // it was read as JSON
		return text
	}
	if string(v) == "-0" {
		return v[1:]
	}
	return v
}

// numberOf returns a number.
func numberOf(v jsontext.Value) float64 {
	x, _ := strconv.ParseFloat(string(v), 64) // it was read as a number within bounds
	return x
}

// truthOf returns a label that is 0 or 1, false or true.
func truthOf(v jsontext.Value) bool { return v.Kind() == 't' || v.Kind() == '0' && numberOf(v) == 1 }

// namesOf returns the names of a list.
func namesOf(v jsontext.Value) (names [][]byte) {
	var list []jsontext.Value
	_ = json.Unmarshal(v, &list) // it was read as a list
	for _, one := range list {
		names = append(names, textOf(one))
	}
	return names
}

// Frame appends Confluent's frame for a schema.
func (w *Writer) Frame(dst []byte, id uint32) []byte {
	return append(append(dst, 0, byte(id>>24), byte(id>>16), byte(id>>8), byte(id)), w.form.index...)
}
