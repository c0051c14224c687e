// Package jsonschema says what a JSON Schema has for values: their members with types, texts and lists of names. It
// validates nothing; values in JSON say themselves what they have.
package jsonschema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
)

// schema is what is read of one.
type schema struct {
	Type       types  `json:"type"`
	Title      string `json:"title"` // what Kafka Connect calls the type
	Parameters struct {
		Scale string `json:"scale"`
	} `json:"connect.parameters"`
	Description string            `json:"description"`
	Format      string            `json:"format"`
	Enum        []json.RawMessage `json:"enum"`
	Properties  members           `json:"properties"`
	Items       *schema           `json:"items"`
	ID          string            `json:"$id"`
	Ref         string            `json:"$ref"`
	OneOf       []schema          `json:"oneOf"`
	AnyOf       []schema          `json:"anyOf"`
	AllOf       []schema          `json:"allOf"`
	Definitions map[string]schema `json:"definitions"`
	Defs        map[string]schema `json:"$defs"`
}

// types is one name, or a list of them.
type types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// members are those of an object, in the order of the schema.
type members []member

type member struct {
	name string
	schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *members) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("properties that are no object: %w", err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		one := member{name: name.(string)}
		if err := d.Decode(&one.schema); err != nil && !isOdd(err) {
			return err
		}
		*m = append(*m, one)
	}
	return nil
}

// isOdd reports whether a part of a schema has another type than is known here, such as true for any value.
func isOdd(err error) bool {
	_, odd := err.(*json.UnmarshalTypeError)
	return odd
}

// Outline is an event.Outliner.
func Outline(w *event.Writer, _ *framing.Frame, maxDepth int) ([]event.Leaf, error) {
	o := outline{maxDepth: maxDepth, others: make(map[string]*schema)}
	for _, r := range w.References {
		other := new(schema)
		if err := json.Unmarshal([]byte(r.Text), other); err == nil || isOdd(err) {
			o.others[r.Name], o.others[other.ID] = other, other
		}
	}
	root := new(schema)
	if err := json.Unmarshal([]byte(w.Text), root); err != nil && !isOdd(err) {
		return nil, fmt.Errorf("a JSON Schema: %w", err)
	}
	o.walk(root, root, nil, 0)
	return o.leaves, nil
}

// outline collects leaves.
type outline struct {
	others   map[string]*schema // that the schema refers to, by their names there and for themselves
	leaves   []event.Leaf
	maxDepth int
	steps    int
}

// find returns what a reference in a document leads to, with the document of that; nil for nothing that is known.
func (o *outline) find(in *schema, ref string) (doc, s *schema) {
	name, pointer, _ := strings.Cut(ref, "#")
	if pointer != "" && pointer[0] != '/' { // anchors are not looked for
		return nil, nil
	}
	if doc = in; name != "" {
		doc = o.others[name]
	}
	s = doc
	parts := strings.Split(pointer, "/")
	for i := 1; i < len(parts) && s != nil; i += 2 { // pairs such as $defs and a name
		of := s
		if s = nil; i+1 == len(parts) {
			break
		}
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i+1])
		if one, ok := map[string]map[string]schema{"$defs": of.Defs, "definitions": of.Definitions}[parts[i]][name]; ok {
			s = &one
		}
		for k := range of.Properties {
			if parts[i] == "properties" && of.Properties[k].name == name {
				s = &of.Properties[k].schema
			}
		}
	}
	return doc, s
}

// resolve follows references in a document, and what is in oneOf with null.
func (o *outline) resolve(doc, s *schema) (in, of *schema) {
	for range o.maxDepth {
		if o.steps += 1 + len(s.OneOf) + len(s.AnyOf); o.steps > event.MaxOutlined {
			return doc, s
		}
		switch {
		case s.Ref != "":
			in, found := o.find(doc, s.Ref)
			if found == nil {
				return doc, s
			}
			of := *found
			if of.Description == "" {
				of.Description = s.Description
			}
			doc, s = in, &of
		case len(s.Type) == 0 && len(s.Properties) == 0 && len(s.OneOf)+len(s.AnyOf) > 0:
			of := slices.DeleteFunc(slices.Concat(s.OneOf, s.AnyOf), func(one schema) bool {
				return slices.Equal(one.Type, types{"null"})
			})
			if len(of) != 1 {
				return doc, s
			}
			if of[0].Description == "" {
				of[0].Description = s.Description
			}
			s = &of[0]
		default:
			return doc, s
		}
	}
	return doc, s
}

// walk adds the leaves of a schema in a document.
func (o *outline) walk(doc, s *schema, path []string, depth int) {
	doc, s = o.resolve(doc, s)
	if o.steps++; depth > o.maxDepth || len(o.leaves) >= event.MaxLeaves || o.steps > event.MaxOutlined {
		return
	}
	for i := range s.Properties {
		p := &s.Properties[i]
		o.walk(doc, &p.schema, append(slices.Clone(path), p.name), depth+1)
	}
	for i := range s.AllOf {
		o.walk(doc, &s.AllOf[i], path, depth+1)
	}
	isObject, isMixed := len(s.Properties)+len(s.AllOf) > 0, false
	for _, list := range [][]schema{s.OneOf, s.AnyOf} { // events of several kinds
		for i := 0; i < len(list) && o.steps <= event.MaxOutlined; i++ {
			if _, one := o.resolve(doc, &list[i]); len(one.Properties)+len(one.AllOf)+len(one.OneOf)+len(one.AnyOf) > 0 {
				o.walk(doc, &list[i], path, depth+1)
				isObject = true
			} else if len(one.Type) > 0 && !slices.Equal(one.Type, types{"null"}) && !slices.Contains(one.Type, "object") {
				isMixed = true // a value may be no object
			}
		}
	}
	if len(path) == 0 || isObject && !isMixed {
		return
	}
	leaf := o.leaf(doc, s)
	leaf.Path, leaf.Doc = path, s.Description
	if i := slices.IndexFunc(o.leaves, func(l event.Leaf) bool { return slices.Equal(l.Path, path) }); i >= 0 {
		if l := &o.leaves[i]; l.Kind != leaf.Kind || l.Unit != leaf.Unit { // of several kinds: values show it
			*l = event.Leaf{Path: path, Doc: l.Doc, Kind: event.LeafOther}
		}
		return
	}
	o.leaves = append(o.leaves, leaf)
}

// leaf says what the values of a schema are.
func (o *outline) leaf(doc, s *schema) (l event.Leaf) {
	of := slices.DeleteFunc(slices.Clone(s.Type), func(name string) bool { return name == "null" })
	for _, value := range s.Enum {
		var name string
		if json.Unmarshal(value, &name) == nil && name != "" {
			l.Symbols = append(l.Symbols, name)
		}
	}
	switch {
	case len(of) == 0 && len(l.Symbols) > 0, len(of) == 1 && of[0] == "string" && len(l.Symbols) > 0:
		l.Kind = event.LeafEnum
		return l
	case len(of) != 1:
		return event.Leaf{}
	}
	l.Symbols = nil
	switch of[0] {
	case "boolean":
		l.Kind = event.LeafBool
	case "integer":
		l.Kind, l.Unit = event.LeafWhole, event.ConnectUnit(s.Title)
		l.IsTime = l.Unit != event.ModelUnit
	case "number":
		l.Kind = event.LeafReal
		if scale, err := strconv.Atoi(s.Parameters.Scale); err == nil && s.Title == event.ConnectDecimal {
			l.Kind, l.Scale = event.LeafDecimal, scale
		}
	case "string":
		l.Kind, l.IsTime = event.LeafText, s.Format == "date-time"
	case "array":
		if l.Kind = event.LeafList; s.Items != nil {
			doc, item := o.resolve(doc, s.Items)
			one := *item
			one.Items = nil // a list in a list is one, whatever it has: it may have itself
			l.Item = o.leaf(doc, &one).Kind
		}
	case "object":
		l.Kind = event.LeafMap
	}
	return l
}
