package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// Mapping says where in the records of the topics the fields of the schema are, where they are no members of a JSON
// object under their own names; see event.Mapping.
type Mapping struct {
	Envelope string `json:"envelope,omitempty"` // debezium or cloudevents; empty for none
	// conditions, such as type == "rating"; records of which one does not hold are no events
	When   []string      `json:"when,omitempty"`
	Fields []MappedField `json:"fields,omitempty"` // where fields are that are elsewhere
}

// MappedField says what a field of the schema is: one of Path and Constant is given.
type MappedField struct {
	Name string `json:"name"` // of the schema
	// payload.after.rating, key:id, header:NAME, attribute:NAME, record:key or record:timestamp
	Path     string `json:"path,omitempty"`
	Constant string `json:"constant,omitempty"` // the same for every event

	// number: text that is one counts as a number, true and false as 1 and 0, NaN as nothing. decimal:2: base64 of a
	// DECIMAL with that scale, in a Debezium envelope
	As string `json:"as,omitempty"`
}

// asNumber is a value of MappedField.As; the other one is asDecimal and a scale.
const (
	asNumber  = "number"
	asDecimal = "decimal:"
)

// decimalScale returns the scale of the DECIMAL that a field is, and whether it is one.
func (f *MappedField) decimalScale() (scale int, ok bool) {
	digits, ok := strings.CutPrefix(f.As, asDecimal)
	if !ok {
		return 0, false
	}
	scale, err := strconv.Atoi(digits)
	return scale, err == nil
}

// IsSet reports whether records are mapped.
func (m *Mapping) IsSet() bool { return m.Envelope != "" || len(m.When)+len(m.Fields) > 0 }

// IsZero leaves it out of stored models and of digests where it is not set.
func (m Mapping) IsZero() bool { return !m.IsSet() }

// maxMapped bounds what a mapping looks for, and the length of each.
const (
	maxMapped      = 1000
	maxMappedBytes = 500
)

// Mapping returns the mapping of the model's records, nil without one. The model is valid.
func (m *Model) Mapping() *event.Mapping {
	if !m.Input.Mapping.IsSet() {
		return nil
	}
	mapping := &event.Mapping{Envelope: event.Envelope(m.Input.Mapping.Envelope)}
	for _, text := range m.Input.Mapping.When {
		if c, err := event.ParseCondition(text); err == nil {
			mapping.When = append(mapping.When, c)
		}
	}
	for _, f := range m.Input.Mapping.Fields {
		mapped := event.MappedField{Name: f.Name, Constant: f.Constant, AsNumber: f.As == asNumber}
		mapped.Scale, mapped.IsDecimal = f.decimalScale()
		if f.Path != "" {
			mapped.From, _ = event.ParseSource(f.Path) // validated
		}
		mapping.Fields = append(mapping.Fields, mapped)
	}
	return mapping
}

// Place says where a field of the schema is, in the words of the configuration.
func (m *Mapping) Place(field string) string {
	for _, f := range m.Fields {
		switch {
		case f.Name == field && f.Path != "":
			return f.Path
		case f.Name == field:
			return "constant"
		}
	}
	switch event.Envelope(m.Envelope) {
	case event.Debezium:
		return "after." + field
	case event.CloudEvents:
		return "data." + field
	}
	return field
}

// EventFields returns the fields that events bring: label, time, identity, weight and the features, without those that
// are derived.
func (s *Schema) EventFields() (fields []string) {
	categorical, multi := s.GivenFields()
	seen := map[string]bool{"": true}
	numbers, label := s.GivenNumbers(), s.Event().Label
	for _, name := range slices.Concat([]string{label, s.Time, s.Identity, s.Weight}, categorical, numbers, multi) {
		if !seen[name] {
			fields, seen[name] = append(fields, name), true
		}
	}
	return fields
}

// mapping checks the places of fields and the conditions, and that they are of fields that the schema has.
func (v *validator) mapping(m *Model, path string) {
	c := &m.Input.Mapping
	if c.Envelope != "" {
		names := make([]string, len(event.Envelopes))
		for i, e := range event.Envelopes {
			names[i] = string(e)
		}
		v.oneOf(path+".envelope", c.Envelope, names...)
	}
	if len(c.When)+len(c.Fields) > maxMapped {
		v.bad(path+".fields", len(c.Fields), fmt.Sprintf("at most %d fields and conditions", maxMapped))
	}
	isAttribute := func(place string) bool {
		return strings.HasPrefix(strings.TrimSpace(place), "attribute:") && c.Envelope != string(event.CloudEvents)
	}
	for i, text := range c.When {
		at := fmt.Sprintf("%s.when[%d]", path, i)
		if _, err := event.ParseCondition(text); err != nil || len(text) > maxMappedBytes {
			v.bad(at, text,
				fmt.Sprintf("a condition such as type == \"rating\", of at most %d bytes (%v)", maxMappedBytes, err))
		} else if isAttribute(text) {
			v.bad(at, text, "envelope: cloudevents with it, which has attributes")
		}
	}
	fields := m.Schema.EventFields()
	for i := range c.Fields {
		f, at := &c.Fields[i], fmt.Sprintf("%s.fields[%d]", path, i)
		_, err := event.ParseSource(f.Path)
		switch {
		case !slices.Contains(fields, f.Name):
			v.oneOf(at+".name", f.Name, fields...)
		case slices.ContainsFunc(c.Fields[:i], func(other MappedField) bool { return other.Name == f.Name }):
			v.bad(at+".name", f.Name, "each field once")
		}
		switch {
		case (f.Path == "") == (f.Constant == ""):
			v.bad(at+".path", f.Path, "one of path and constant")
		case f.Path != "" && (err != nil || len(f.Path) > maxMappedBytes):
			v.bad(
				at+".path",
				f.Path,
				fmt.Sprintf(
					"a place such as payload.after.rating, key:id, header:NAME, attribute:NAME, record:key or record:timestamp, "+
						"of at most %d bytes (%v)",
					maxMappedBytes,
					err,
				),
			)
		case isAttribute(f.Path):
			v.bad(at+".path", f.Path, "envelope: cloudevents with it, which has attributes")
		}
		switch scale, isDecimal := f.decimalScale(); {
		case f.As == "" || f.As == asNumber:
		case !isDecimal || scale < 0 || scale > event.MaxDecimalScale:
			v.bad(at+".as", f.As,
				fmt.Sprintf("number, or decimal:SCALE with a scale from 0 to %d", event.MaxDecimalScale))
		case c.Envelope != string(event.Debezium):
			v.bad(at+".as", f.As, "envelope: debezium with it, whose DECIMALs are base64")
		}
	}
}
