package typed

import (
	"encoding/json"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonTypes are the types of JSON Schema, by kind. A time is text: as a number it would be in schema.time_unit, which
// the schema does not say.
var jsonTypes = map[kind]string{text: `"type":"string"`, number: `"type":"number"`, truth: `"type":"boolean"`,
	moment: `"type":"string","format":"date-time"`, list: `"type":"array","items":{"type":"string"}`}

// jsonSchema returns the schema of events. Members that it does not name are allowed, so that later ones have some.
func jsonSchema(root *field) string {
	return `{"$schema":"http://json-schema.org/draft-07/schema#","title":"` + rootName + `",` + jsonObject(root) + "}"
}

// jsonObject returns what a schema says of an object, without the braces.
func jsonObject(f *field) string {
	text, required := `"type":"object","properties":{`, []string{}
	for i, m := range f.members {
		if i > 0 {
			text += ","
		}
		name, _ := json.Marshal(m.name) // text
		text += string(name) + ":{"
		if m.members != nil {
			text += jsonObject(m) + "}"
		} else {
			doc, _ := json.Marshal(m.doc)
			text += jsonTypes[m.kind] + `,"description":` + string(doc) + "}"
		}
		if !m.mayLack() {
			required = append(required, m.name)
		}
	}
	names, _ := json.Marshal(required)
	return text + `},"required":` + string(names)
}

// mayLack reports whether an event may lack a field: an object, if it may lack all that is within.
func (f *field) mayLack() bool {
	if f.members == nil {
		return f.isOptional || f.kind == list
	}
	for _, m := range f.members {
		if !m.mayLack() {
			return false
		}
	}
	return true
}

// appendJSON appends an object.
func (w *Writer) appendJSON(dst []byte, f *field) []byte {
	dst = append(dst, '{')
	for _, m := range f.members {
		if !w.has(m) {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst, _ = jsontext.AppendQuote(dst, m.name) // schemas are UTF-8
		dst = append(dst, ':')
		v := w.values[m.of]
		switch {
		case m.members != nil:
			dst = w.appendJSON(dst, m)
		case m.kind == text:
			dst = appendQuoted(dst, textOf(v))
		case m.kind == number:
			dst = jsontext.AppendFloat(dst, numberOf(v), 64)
		case m.kind == truth && truthOf(v):
			dst = append(dst, "true"...)
		case m.kind == truth:
			dst = append(dst, "false"...)
		case m.kind == moment:
			dst = append(time.UnixMilli(w.event.Time).UTC().AppendFormat(append(dst, '"'), "2006-01-02T15:04:05.000Z"), '"')
		case m.kind == list:
			dst = append(dst, '[')
			for i, name := range namesOf(v) {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = appendQuoted(dst, name)
			}
			dst = append(dst, ']')
		}
	}
	return append(dst, '}')
}

func appendQuoted(dst, text []byte) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // it was read as JSON
	return dst
}
