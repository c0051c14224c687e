package configs_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// numberSchema is that of a report.Number.
var numberSchema = object{{"type", []string{"number", "null"}}}

func list(of object) object { return object{{"type", "array"}, {"items", of}} }

// schemas makes the schemas of Go types, named structs as components.
type schemas struct {
	t          *testing.T
	prefix     string // of references
	components map[string]object
	types      map[string]reflect.Type
	used       map[string]bool
}

// of returns the schema of a type.
func (s *schemas) of(typ reflect.Type, request bool) object {
	switch typ {
	case reflect.TypeFor[time.Time]():
		return object{{"type", "string"}, {"format", "date-time"}}
	case reflect.TypeFor[jsontext.Value](), reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[[]byte]():
		return object{{"type", "string"}, {"contentEncoding", "base64"}}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return s.of(typ.Elem(), request)
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int64:
		return object{{"type", "integer"}, {"format", "int64"}}
	case reflect.Int, reflect.Int32, reflect.Uint32, reflect.Uint64:
		return object{{"type", "integer"}}
	case reflect.Float64:
		if typ.Implements(reflect.TypeFor[json.Marshaler]()) { // null if it is not finite
			return numberSchema
		}
		return object{{"type", "number"}}
	case reflect.String:
		if takesNumbers(typ) {
			return object{{"type", []string{"string", "integer"}}}
		}
		return stringSchema
	case reflect.Slice, reflect.Array:
		return list(s.of(typ.Elem(), request))
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", s.of(typ.Elem(), request)}}
	case reflect.Interface:
		return object{}
	case reflect.Struct:
		return s.component(typ, request)
	}
	s.t.Fatalf("no schema of %s", typ)
	return nil
}

// schemaName is the name of a struct among the schemas of the document.
func schemaName(typ reflect.Type) string {
	name := capital(typ.Name())
	switch {
	case name == "Failure":
		return "Error"
	case strings.HasSuffix(typ.PkgPath(), "/daemon/report"): // which has types of the same names as snapshot
		return "Report" + name
	}
	return name
}

// component returns a reference to the schema of a struct.
func (s *schemas) component(typ reflect.Type, request bool) object {
	name := schemaName(typ)
	ref := object{{"$ref", s.prefix + name}}
	if old, ok := s.types[name]; ok {
		if old != typ {
			s.t.Errorf("%s and %s have the same name in the document", old, typ)
		}
		return ref
	}
	s.types[name] = typ
	var members object
	required := []string{}
	for _, p := range properties(s.t, typ) {
		if p.doc == "" && ours(p.owner) {
			s.t.Errorf("%s has no comment, which is its description", p.place())
		}
		one := slices.Clone(s.of(p.field.Type, request))
		for _, m := range known[p.place()] {
			s.used[p.place()] = true
			one.set(m.key, m.value)
		}
		nullable := !p.optional && p.field.Type.Kind() == reflect.Pointer ||
			p.field.Type.Kind() == reflect.Slice && strings.Contains(p.doc, "null")
		if nullable {
			if kind, ok := one.get("type").(string); ok {
				one.set("type", []string{kind, "null"})
			} else if one.get("$ref") != nil {
				one = object{{"anyOf", []any{one, object{{"type", "null"}}}}}
			}
		}
		one.set("description", sentence(capital(p.doc)))
		members.set(p.key, one)
		if !p.optional {
			required = append(required, p.key)
		}
	}
	c := object{{"type", "object"}}
	c.set("description", typeDoc(s.t, typ))
	if members != nil {
		c.set("properties", members)
	}
	if len(required) > 0 {
		c.set("required", required)
	}
	if request {
		c.set("additionalProperties", false)
	}
	s.components[name] = c
	return ref
}
