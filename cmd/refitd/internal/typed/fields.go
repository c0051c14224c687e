// Package typed writes events as records in Avro, Protobuf or JSON, by a schema that is made of a model's. It asks no
// registry and knows no Kafka.
package typed

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
)

// kind is the type that a field of a model has in records: the rows of the table in configs/docs/formats.md.
type kind uint8

const (
	text   kind = iota // names, and labels that are
	number             // numbers, and labels that are
	truth              // labels of binary models that are no names
	moment             // the time of events
	list               // lists of names
)

// field is a field of a model, or a record that has fields.
type field struct {
	name       string
	kind       kind
	of         string   // the field of the model
	isOptional bool     // an event may lack it
	doc        string   // what it is for the model
	members    []*field // of a record
}

// plainName is a name that both formats take.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// use is what a model does with a field of its events.
type use struct {
	name, doc  string
	kind       kind
	isOptional bool
}

// usesOf returns what a model does with the fields of its events, those first that cannot begin with a byte 0. In Avro
// without a frame, a value whose first byte is 0 may be taken for one with a frame: names and times do not begin so.
func usesOf(s *event.Schema) []use {
	label := use{name: s.Label, doc: "label", kind: number}
	switch {
	case s.Choices || s.Task == event.Multiclass || s.Task == event.Binary && s.Positive != "":
		label.kind = text
	case s.Task == event.Multilabel:
		label.kind = list
	case s.Task == event.Binary:
		label.kind = truth
	}
	uses := []use{label, {s.Time, "time", moment, false}, {s.Identity, "identity", text, false},
		{s.Weight, "weight", number, true}}
	optional := func(name string) bool { return slices.Contains(s.Optional, name) }
	for f, name := range s.Categorical[:s.NumGiven()] {
		if s.IsGivenName(f, false) {
			uses = append(uses, use{name, "name", text, optional(name)})
		}
	}
	for f, name := range s.Numeric {
		if s.IsGivenNumber(f) {
			uses = append(uses, use{name, "number", number, optional(name)})
		}
	}
	for f, name := range s.Multi {
		if s.IsGivenName(f, true) {
			uses = append(uses, use{name, "list of names", list, optional(name)})
		}
	}
	uses = slices.DeleteFunc(uses, func(u use) bool { return u.name == "" })
	slices.SortStableFunc(uses, func(a, b use) int {
		first := func(u use) int {
			if u.isOptional || u.kind != text && u.kind != moment {
				return 1
			}
			return 0
		}
		return first(a) - first(b)
	})
	return uses
}

// fieldsOf returns the fields of a model's events where records have them.
func fieldsOf(m *config.Model) (*field, error) {
	s, root, seen := m.Schema.Event(), new(field), make(map[string]use)
	for _, u := range usesOf(&s) {
		if other, ok := seen[u.name]; ok {
			if other.kind != u.kind {
				return nil, fmt.Errorf("the field %q is a %s and a %s, and a schema has one type for it", u.name, other.doc,
					u.doc)
			}
			continue
		}
		seen[u.name] = u
		path, err := pathOf(&m.Input.Mapping, u.name)
		if err != nil {
			return nil, err
		}
		if path == nil {
			continue // no part of the value
		}
		if err := root.add(path, &field{kind: u.kind, of: u.name, isOptional: u.isOptional, doc: u.doc}); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// pathOf returns where in the value a field is, nil for one that is not of the value: a constant, or what Kafka has.
func pathOf(c *config.Mapping, name string) ([]string, error) {
	path := []string{name}
	for _, f := range c.Fields {
		if f.Name != name {
			continue
		}
		if f.Path == "" || strings.HasPrefix(f.Path, "record:") {
			return nil, nil
		}
		if prefix, _, ok := strings.Cut(f.Path, ":"); ok && slices.Contains([]string{"key", "header", "attribute"}, prefix) {
			return nil, fmt.Errorf("input.mapping has the field %q from %s, and values alone are written", name, f.Path)
		}
		if path = strings.Split(f.Path, "."); strings.Contains(f.Path, `"`) {
			path = []string{f.Path} // which is refused: a name that needs quotes has other letters than there may be
		}
	}
	for _, part := range path {
		if !plainName.MatchString(part) {
			return nil, fmt.Errorf("%q, of the field %q, is no name in Avro and Protobuf: letters, digits and _ are; "+
				"input.mapping.fields: [{name: %q, path: NAME}] gives the field another one in records", part, name, name)
		}
	}
	return path, nil
}

// add puts a field where a path leads to.
func (f *field) add(path []string, leaf *field) error {
	for i, name := range path {
		at := slices.IndexFunc(f.members, func(m *field) bool { return m.name == name })
		isLast := i == len(path)-1
		switch {
		case at < 0 && isLast:
			leaf.name = name
			f.members = append(f.members, leaf)
			return nil
		case at < 0:
			f.members = append(f.members, &field{name: name})
			at = len(f.members) - 1
		case isLast || f.members[at].members == nil:
			return fmt.Errorf("the fields %q and %q are at one place of input.mapping, %s", leaf.of, f.members[at].of,
				strings.Join(path[:i+1], "."))
		}
		f = f.members[at]
	}
	return nil
}

// typeName makes the name of a type of the names that lead to it.
func typeName(path []string) string {
	var b strings.Builder
	for _, name := range path {
		for part := range strings.SplitSeq(name, "_") {
			if part != "" {
				b.WriteString(strings.ToUpper(part[:1]) + part[1:])
			}
		}
	}
	if name := b.String(); plainName.MatchString(name) {
		return name
	}
	return "T" + b.String()
}
