package guess

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline"
)

// Sample is what is known of the newest records of a topic.
type Sample struct {
	Records           []offline.Record // the values are JSON objects with all that the records have
	Format, KeyFormat string           // as the keys of input; empty for JSON
	Envelope          string           // as the key of input.mapping
	Leaves            []event.Leaf     // what the schemas have, with paths as the values; none where there is no schema
}

// PlaceOf writes the place of a member of values, or of keys, as a path of input.mapping has it. In the envelope of
// Debezium members are those of the row.
func PlaceOf(path []string, envelope string, isKey bool) string {
	parts := make([]string, len(path))
	for i, name := range path {
		parts[i] = offline.PathOf(name)
	}
	place := strings.Join(parts, ".")
	switch {
	case isKey:
		return "key:" + place
	case envelope == string(event.Debezium):
		return "after." + place
	}
	return place
}

// noun names what the records should be.
func (s *Sample) noun() string {
	if s.Format == "" || s.Format == event.FormatJSON {
		return "a JSON object"
	}
	return "a value of its schema"
}

// pathOf is the path of a column.
func pathOf(c *dataset.Column) []string {
	if c.Path != nil {
		return c.Path
	}
	return []string{c.Name}
}

// leaf returns what the schemas say of a column, the zero value for nothing.
func (s *Sample) leaf(c *dataset.Column) event.Leaf {
	if c.Leaf == nil {
		return event.Leaf{}
	}
	return *c.Leaf
}

// settle gives columns what the schemas say of them. A column of numbers that need not be whole has no names, whatever
// its values are, and a list of them has none either.
func (s *Sample) settle(columns []*dataset.Column) {
	for _, c := range columns {
		i := slices.IndexFunc(s.Leaves, func(l event.Leaf) bool { return slices.Equal(l.Path, pathOf(c)) })
		if i < 0 {
			continue
		}
		l := &s.Leaves[i]
		switch c.Leaf = l; {
		case l.Kind == event.LeafReal:
			c.Pointed = c.Numbers
		case l.Kind == event.LeafList && !l.Item.IsName() && l.Item != event.LeafOther:
			c.NoNames = c.Lists
		}
	}
}

// unseen says of what schemas have and values do not why it is no field.
func (s *Sample) unseen(columns []*dataset.Column) (why map[string]string, names []string) {
	why = make(map[string]string)
	for i := range s.Leaves {
		l := &s.Leaves[i]
		if slices.ContainsFunc(columns, func(c *dataset.Column) bool { return slices.Equal(l.Path, pathOf(c)) }) {
			continue
		}
		name := strings.Join(l.Path, ".")
		names = append(names, name)
		switch why[name] = "no value has it"; l.Kind {
		case event.LeafMap:
			why[name] = s.mapWhy(l)
		case event.LeafOther:
			why[name] = "of a type that no field can be, or no value has it"
		}
	}
	return why, names
}

// mapWhy says why a map is no field.
func (s *Sample) mapWhy(l *event.Leaf) string {
	return "a map, whose entries have separate paths: " + PlaceOf(l.Path, s.Envelope, l.IsKey) + ".NAME"
}

// maxDoc bounds what is shown of the text that a schema has of a field, in bytes.
const maxDoc = 100

// doc returns the beginning of what the schema says of a column, in quotes, behind a separator; "" for nothing.
func doc(c *dataset.Column) string {
	if c.Leaf == nil || c.Leaf.Doc == "" {
		return ""
	}
	text := strings.Join(strings.Fields(c.Leaf.Doc), " ")
	if len(text) > maxDoc {
		text = strings.ToValidUTF8(text[:maxDoc], "") + "…"
	}
	return "; the schema: " + quoted(text)
}

// isEnum reports whether the schema lists the names of a column.
func isEnum(c *dataset.Column) bool { return c.Leaf != nil && c.Leaf.Kind == event.LeafEnum }

// symbolsOf returns the names that a column has or may have by its schema.
func symbolsOf(c *dataset.Column, seen []string) []string {
	if !isEnum(c) || len(c.Leaf.Symbols) > fewClasses {
		return seen
	}
	list := slices.Clone(c.Leaf.Symbols)
	for _, name := range seen {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// usesRegistry reports whether the configuration needs the registry of the flags.
func (g *guess) usesRegistry(o *Options) bool {
	framed := func(format string) bool { return format != "" && format != event.FormatJSON }
	return o.Registry.URL != "" && (framed(g.sample.Format) || framed(g.sample.KeyFormat))
}

// formats returns the keys of input that say of which formats records are.
func (g *guess) formats(o *Options) (keys []string) {
	s := g.sample
	if s.Format != "" && s.Format != event.FormatJSON {
		keys = append(keys, "format: "+s.Format)
	}
	if s.KeyFormat != "" {
		keys = append(keys, "key_format: "+s.KeyFormat)
	}
	if o.SchemaFile != "" && len(keys) > 0 {
		keys = append(keys, "schema_file: "+quoted(fromOutput(o, o.SchemaFile)))
	}
	return keys
}

// fromOutput returns a path as the configuration has it, relative to its directory.
func fromOutput(o *Options, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	if from, err := filepath.Rel(filepath.Dir(o.Output), path); err == nil {
		return from
	}
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// writeRegistry writes the section schema_registry of kafka.
func writeRegistry(y *yamlText, o *Options) {
	r := &o.Registry
	y.line("  schema_registry:\n    url: %s", quoted(r.URL))
	key := func(indent, name, value string) {
		if value != "" {
			y.line("%s%s: %s", indent, name, quoted(value))
		}
	}
	key("    ", "basic_auth_file", fromOutput(o, r.BasicAuthFile))
	key("    ", "token_file", fromOutput(o, r.TokenFile))
	t := &r.TLS
	if cmp.Or(t.CAFile, t.CertFile, t.KeyFile, t.ServerName) != "" {
		y.line("    tls:")
	}
	key("      ", "ca_file", fromOutput(o, t.CAFile))
	key("      ", "cert_file", fromOutput(o, t.CertFile))
	key("      ", "key_file", fromOutput(o, t.KeyFile))
	key("      ", "server_name", t.ServerName)
}

// enumWhy says what is known of the names of a column that the schema lists.
func enumWhy(c *dataset.Column) string {
	return fmt.Sprintf("%d of the %d names that the schema lists", c.Distinct(), len(c.Leaf.Symbols))
}
