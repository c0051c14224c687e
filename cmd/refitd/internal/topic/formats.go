package topic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/offline/guess"
	"github.com/refitd/refitd/daemon/report"
)

// maxSampleSchemas bounds the schemas of the records that are looked at.
const maxSampleSchemas = 100

// Look looks at the newest records of a topic as a daemon reads them: by the schemas of the registry, if it has a URL,
// or by that of a file, if it is not nil. The records of what it returns are JSON objects with all that those have.
func Look(ctx context.Context, k *config.Kafka, name string, file *event.Writer) (*guess.Sample, error) {
	records, _, err := Newest(ctx, k, name)
	if err != nil {
		return nil, err
	}
	s := &sampler{name: name, records: records, model: config.DefaultModel()}
	if s.format, err = s.formatOf(file, k.SchemaRegistry.URL != ""); err != nil {
		return nil, err
	}
	in := &s.model.Input
	if in.Format = s.format; s.format != event.FormatJSON {
		in.Written, in.FromRegistry = file, k.SchemaRegistry.URL != ""
	}
	if s.schemas, err = formats.OpenSchemas(k, &s.model, nil); err != nil {
		return nil, err
	}
	defer s.schemas.Close()
	if err := s.outline(ctx); err != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--registry", Topic: name,
			Err: fmt.Errorf("topic: look at %s: %w", name, err)}
	}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	return &guess.Sample{Records: s.records, Format: in.Format, KeyFormat: in.KeyFormat, Leaves: s.leaves,
		Envelope: in.Mapping.Envelope}, nil
}

// sampler turns records into JSON objects.
type sampler struct {
	name    string
	records []offline.Record
	format  string
	model   config.Model // whose fields are all that records have
	schemas *formats.Schemas
	leaves  []event.Leaf
}

// frame returns the frame of a record's value or key.
func frame(r *offline.Record, isKey bool) framing.Frame {
	data := r.Value
	if isKey {
		data = r.Key
	}
	f, _ := framing.Cut(data, r.Headers, isKey, int(config.DefaultModel().Input.MaxEventBytes))
	return f
}

// isObject reports whether data begins as a JSON object does.
func isObject(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '{'
}

// formatOf returns the format of the records, before any schema is known: auto where a registry says it.
func (s *sampler) formatOf(file *event.Writer, hasRegistry bool) (string, error) {
	framed, objects, first := 0, 0, ""
	for i := range s.records {
		f := frame(&s.records[i], false)
		if f.ID == (framing.ID{}) {
			continue
		}
		if framed++; framed == 1 {
			first = f.ID.String()
		}
		if isObject(f.Data) {
			objects++
		}
	}
	switch {
	case hasRegistry && framed > 0:
		return event.FormatAuto, nil
	case file != nil:
		return file.Format, nil
	case framed == 0:
		return event.FormatJSON, nil
	case objects == framed:
		return event.FormatJSONSchema, nil
	}
	return "", &report.ExitError{Code: report.ExitUsage, Key: "--registry", Topic: s.name,
		Err: fmt.Errorf("topic: the records of %s are in the frame of a schema registry (%s): name it by --registry URL, "+
			"or give their schema by --schema-file FILE", s.name, first)}
}

// outline collects what the schemas of the records have, that of the newest record first, and says of which formats
// values and keys are.
func (s *sampler) outline(ctx context.Context) error {
	in := &s.model.Input
	if in.Format == event.FormatJSON || in.Format == event.FormatJSONSchema && !in.FromRegistry {
		return nil
	}
	formats, plain, err := s.outlineOf(ctx, false)
	if err != nil || !in.FromRegistry {
		return err
	}
	if len(formats) == 1 && !plain {
		in.Format = formats[0]
	}
	if formats, plain, err = s.outlineOf(ctx, true); err != nil {
		return err
	}
	if len(formats) == 1 && !plain {
		in.KeyFormat = formats[0]
	} else if len(formats) > 0 {
		in.KeyFormat = event.FormatAuto
	}
	return nil
}

// outlineOf is outline of values or of keys. plain says that some have no frame.
func (s *sampler) outlineOf(ctx context.Context, isKey bool) (formats []string, plain bool, err error) {
	seen := make(map[string]bool)
	for i := len(s.records) - 1; i >= 0; i-- {
		r := &s.records[i]
		if isKey && len(r.Key) == 0 {
			continue
		}
		f := frame(r, isKey)
		if f.ID == (framing.ID{}) && s.model.Input.FromRegistry {
			plain = true
			continue
		}
		at := schemaOf(&f)
		if seen[at] || len(seen) >= maxSampleSchemas {
			continue
		}
		seen[at] = true
		format, leaves, err := s.schemas.Outline(ctx, &s.model, &f)
		switch {
		case err != nil && isKey && ctx.Err() == nil: // a number of 8 bytes, too, begins as a frame does
			plain = true
			continue
		case err != nil:
			return nil, false, err
		}
		if !slices.Contains(formats, format) {
			formats = append(formats, format)
		}
		for _, l := range leaves {
			l.IsKey = isKey
			s.add(l)
		}
	}
	return formats, plain, nil
}

// schemaOf is what a schema, and in Protobuf a message of it, is the same for.
func schemaOf(f *framing.Frame) string {
	head := f.Head
	if f.Style == framing.ConfluentFrame {
		head = f.Data[:min(len(f.Data), 4)] // the indexes of a message begin it
	}
	return fmt.Sprintf("%v %x %s", f.ID, head, f.Message)
}

// add adds a leaf, unless a schema had it before: those of newer records come first. A member of a key that the value
// has, too, adds nothing.
func (s *sampler) add(l event.Leaf) {
	if len(s.leaves) < event.MaxLeaves && !slices.ContainsFunc(s.leaves, func(other event.Leaf) bool {
		n := min(len(other.Path), len(l.Path)) // what leads to others is no leaf
		return slices.Equal(other.Path[:n], l.Path[:n]) || l.IsKey && !other.IsKey && other.Path[0] == l.Path[0]
	}) {
		s.leaves = append(s.leaves, l)
	}
}

// read turns the values of the records into JSON objects with what their schemas have.
func (s *sampler) read(ctx context.Context) error {
	in := &s.model.Input
	byText := in.Format == event.FormatJSON || in.Format == event.FormatJSONSchema // they say themselves what they have
	switch {
	case byText:
		s.strip()
		s.leaves = slices.DeleteFunc(s.leaves, func(l event.Leaf) bool { return l.IsKey })
	case len(s.leaves) == 0:
		return &report.ExitError{Code: report.ExitUsage, Key: "--topic", Topic: s.name,
			Err: fmt.Errorf("topic: the schemas of %s have no fields: a value is a record, or a message", s.name)}
	}
	if s.isDebezium() {
		in.Mapping.Envelope = string(event.Debezium)
		s.rows(byText)
	} else if byText {
		return nil
	}
	s.fields()
	decoder := formats.NewRecordDecoder(&s.model, s.schemas, nil)
	kept := s.records[:0]
	for i := range s.records {
		r := s.records[i]
		flat, rejection, wait := decoder.Show(&event.Record{Value: r.Value, Key: r.Key, Headers: r.Headers, Time: r.Time})
		switch {
		case wait != nil && wait.Why != "":
			return &report.ExitError{Code: report.ExitUsage, Key: "--registry", Topic: s.name,
				Err: fmt.Errorf("topic: %s cannot be used: %s", wait.ID, wait.Why)}
		case wait != nil: // one more than maxSampleSchemas
			continue
		case rejection != nil && (rejection.Reason == event.Filtered || rejection.Reason == event.RemovalRequest):
			continue
		case rejection != nil:
			r.Bad = rejection
		default:
			r.Value = s.nested(flat)
		}
		kept = append(kept, r)
	}
	s.records = kept
	return ctx.Err()
}

// strip takes the frames off values that are JSON.
func (s *sampler) strip() {
	if s.model.Input.Format == event.FormatJSON {
		return
	}
	for i := range s.records {
		if f := frame(&s.records[i], false); isObject(f.Data) {
			s.records[i].Value, s.records[i].Headers = f.Data, nil
		}
	}
}

// fields makes a field of the model of each leaf.
func (s *sampler) fields() {
	schema, mapping := &s.model.Schema, &s.model.Input.Mapping
	schema.Task = string(event.Regression)
	mapping.Fields = nil
	for i, l := range s.leaves {
		name := fmt.Sprint(i)
		if l.Kind == event.LeafDecimal {
			schema.Numeric = append(schema.Numeric, name) // it is a number where one is asked for
		} else {
			schema.Categorical = append(schema.Categorical, name)
		}
		mapping.Fields = append(mapping.Fields, config.MappedField{Name: name,
			Path: guess.PlaceOf(l.Path, mapping.Envelope, l.IsKey)})
	}
}

// nested makes an object of what a record has at the leaves, with the objects that lead to them.
func (s *sampler) nested(flat []byte) []byte {
	var found map[string]json.RawMessage
	if json.Unmarshal(flat, &found) != nil {
		return flat
	}
	root := new(branch)
	for i, l := range s.leaves {
		if value, ok := found[fmt.Sprint(i)]; ok {
			root.put(l.Path, value)
		}
	}
	return root.append(nil)
}

// branch is an object, or a value.
type branch struct {
	names []string
	of    []*branch
	value []byte
}

func (b *branch) put(path []string, value []byte) {
	for _, name := range path {
		i := slices.Index(b.names, name)
		if i < 0 {
			i = len(b.names)
			b.names, b.of = append(b.names, name), append(b.of, new(branch))
		}
		b = b.of[i]
	}
	b.value = value
}

func (b *branch) append(dst []byte) []byte {
	if b.value != nil {
		return append(dst, b.value...)
	}
	dst = append(dst, '{')
	for i, name := range b.names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, _ = jsontext.AppendQuote(dst, name) // schemas are UTF-8
		dst = b.of[i].append(append(dst, ':'))
	}
	return append(dst, '}')
}

// isDebezium reports whether records are changes of rows in the envelope of Debezium: by their schema, or where they
// say themselves what they have by all those that are objects.
func (s *sampler) isDebezium() bool {
	if has := func(name string) bool {
		return slices.ContainsFunc(s.leaves, func(l event.Leaf) bool { return !l.IsKey && l.Path[0] == name })
	}; has("op") {
		return has("after") && (has("before") || has("source"))
	}
	some := false
	for i := range s.records {
		var change debezium
		if json.Unmarshal(s.records[i].Value, &change) != nil {
			continue // it is no object
		}
		if change.Payload != nil {
			change = *change.Payload
		}
		if len(change.Op) != 1 || !isObject(change.After) && !isObject(change.Before) {
			return false
		}
		some = some || isObject(change.After)
	}
	return some
}

// debezium is its envelope.
type debezium struct {
	Op            string
	Before, After json.RawMessage
	Payload       *debezium
}

// rows makes the leaves those of rows, as paths within a row: by the schema or, where values say themselves what they
// have, by the values.
func (s *sampler) rows(byText bool) {
	if byText {
		s.leaves = s.leavesOfRows()
		return
	}
	leaves := s.leaves[:0]
	for _, l := range s.leaves {
		switch {
		case l.IsKey: // what identifies the row is in the row
		case l.Path[0] == "after" && len(l.Path) > 1:
			l.Path = l.Path[1:]
			leaves = append(leaves, l)
		}
	}
	s.leaves = leaves
}

// leavesOfRows returns the members of the rows of changes in JSON.
func (s *sampler) leavesOfRows() (leaves []event.Leaf) {
	p := dataset.ProfileOf(func(yield func([]byte, *event.Rejection) bool) {
		for i := range s.records {
			var change debezium
			_ = json.Unmarshal(s.records[i].Value, &change) // what is none has no row
			if change.Payload != nil {
				change = *change.Payload
			}
			if isObject(change.After) && !yield(change.After, nil) {
				return
			}
		}
	})
	for _, c := range p.Columns {
		path := c.Path
		if path == nil {
			path = []string{c.Name}
		}
		if c.Nested == 0 && len(leaves) < event.MaxLeaves {
			leaves = append(leaves, event.Leaf{Path: path})
		}
	}
	return leaves
}
