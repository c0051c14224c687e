package event

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Envelope is what is around events in a topic that was not made for them.
type Envelope string

// The envelopes.
const (
	NoEnvelope Envelope = ""
	// changes of rows: op, before, after, with schema and payload around them or without
	Debezium    Envelope = "debezium"
	CloudEvents Envelope = "cloudevents" // by the Kafka binding of CloudEvents 1.0, binary or structured
)

// Envelopes are those that have a name.
var Envelopes = []Envelope{Debezium, CloudEvents}

// Mapping says where in records the fields of a schema are. Fields without an entry are members of the event by their
// own names: of the value itself, of after in a Debezium envelope, of the data of a CloudEvent.
type Mapping struct {
	Envelope Envelope
	When     []Condition // all of them hold for records that are events; others are Filtered
	Fields   []MappedField
}

// MappedField is where a field is.
type MappedField struct {
	Name      string // of the schema
	From      Source
	Constant  string // in place of From: the same for every event
	IsDecimal bool   // text is the unscaled number of a DECIMAL in base64, of a Debezium envelope
	Scale     int    // of that DECIMAL, at most MaxDecimalScale
	// text that is a number counts as that number, true and false as 1 and 0, empty text and NaN as nothing
	AsNumber bool
}

// sourceKind says in which part of a record something is.
type sourceKind uint8

const (
	fromValue     sourceKind = iota
	fromKey                  // members of a key that is JSON
	fromHeader               // the last header of a name, as text
	fromAttribute            // an attribute of a CloudEvent
	fromWholeKey             // the key as text
	fromTimestamp            // the record's time stamp
)

// A Source is a place in records. The zero value is none.
type Source struct {
	kind sourceKind
	path []string // members, from the outermost, of fromValue and fromKey
	name string   // of fromHeader and fromAttribute
}

// IsZero reports whether it is no place.
func (s *Source) IsZero() bool { return s.kind == fromValue && len(s.path) == 0 }

// ParseSource reads a place: a path such as payload.after.rating into the value (into the payload of a Debezium
// envelope, the data of a CloudEvent); key:id into a key that is JSON; header:NAME; attribute:NAME of a CloudEvent;
// record:key and record:timestamp. A name with a dot or a colon is quoted: "a.b".c.
func ParseSource(text string) (Source, error) {
	s, rest, err := cutSource(text)
	if err == nil && rest != "" {
		err = fmt.Errorf("%q behind %q", rest, strings.TrimSuffix(text, rest))
	}
	return s, err
}

// cutSource reads a place at the beginning of a text.
func cutSource(text string) (s Source, rest string, err error) {
	end := len(text)
	if i := strings.IndexAny(text, "\" \t=!<>"); i >= 0 {
		end = i
	}
	prefix, _, ok := strings.Cut(text[:end], ":")
	if !ok {
		s.path, rest, err = cutPath(text)
		return s, rest, err
	}
	rest = text[len(prefix)+1:]
	if prefix == "key" {
		s.kind = fromKey
		s.path, rest, err = cutPath(rest)
		return s, rest, err
	}
	s.name, rest, err = cutName(rest, " \t=!<>")
	switch {
	case err != nil:
	case prefix == "header":
		s.kind = fromHeader
	case prefix == "attribute":
		s.kind = fromAttribute
	case prefix == "record" && s.name == "key":
		s = Source{kind: fromWholeKey}
	case prefix == "record" && s.name == "timestamp":
		s = Source{kind: fromTimestamp}
	case prefix == "record":
		err = fmt.Errorf("record:%s is none of record:key and record:timestamp", s.name)
	default:
		err = fmt.Errorf("none of key:, header:, attribute: and record: is %q", prefix+":")
	}
	return s, rest, err
}

// cutPath reads names with dots between them.
func cutPath(text string) (path []string, rest string, err error) {
	for {
		var name string
		if name, text, err = cutName(text, ". \t=!<>:"); err != nil {
			return nil, text, err
		}
		path = append(path, name)
		if !strings.HasPrefix(text, ".") {
			return path, text, nil
		}
		text = text[1:]
	}
}

// cutName reads a name in quotes, or one that ends before one of the bytes of until.
func cutName(text, until string) (name, rest string, err error) {
	if quoted, err := strconv.QuotedPrefix(text); err == nil && quoted[0] == '"' {
		name, err = strconv.Unquote(quoted)
		return name, text[len(quoted):], err
	}
	if end := strings.IndexAny(text, until); end >= 0 {
		text, rest = text[:end], text[end:]
	}
	if text == "" || strings.ContainsAny(text, "\"[]{}$*") {
		return "", rest, fmt.Errorf("a name is missing, or not quoted, before %q", rest)
	}
	return text, rest, nil
}

// Causes lists the causes for which the mapping makes no event of a record. The causes of the schema are not listed.
func (m *Mapping) Causes() []Cause {
	list := []Cause{{Reason: Filtered}}
	switch m.Envelope {
	case Debezium:
		list = append(list, Cause{Reason: RemovalRequest}, Cause{MissingField, "op"})
	case CloudEvents:
		list = append(list, Cause{MissingField, "specversion"})
	}
	return list
}

// givenField is a field that a decoder reads, and its first role.
type givenField struct {
	name string
	role role
}

// given returns the fields that values give, in the order of the schema.
func (s *Schema) given() (fields []givenField) {
	add := func(name string, r role) {
		if name != "" && !slices.ContainsFunc(fields, func(g givenField) bool { return g.name == name }) {
			fields = append(fields, givenField{name, r})
		}
	}
	add(s.Label, roleLabel)
	add(s.Time, roleTime)
	add(s.Identity, roleIdentity)
	add(s.Weight, roleWeight)
	for i, name := range s.Categorical[:s.NumGiven()] {
		if s.IsGivenName(i, false) {
			add(name, roleCategorical)
		}
	}
	for i, name := range s.Numeric {
		if s.IsGivenNumber(i) {
			add(name, roleNumeric)
		}
	}
	for i, name := range s.Multi {
		if s.IsGivenName(i, true) {
			add(name, roleMulti)
		}
	}
	for i := range s.Vectors {
		add(s.Vectors[i].Name, roleVector)
	}
	return fields
}

// isNumber reports whether a field is a number or a time, rather than names.
func (s *Schema) isNumber(r role) bool {
	return r == roleNumeric || r == roleWeight || r == roleTime ||
		r == roleLabel && !s.Task.HasClasses() && s.Positive == ""
}
