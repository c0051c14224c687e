package configs_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// page is a Markdown file in the making.
type page struct{ strings.Builder }

// paragraph adds a text in lines of at most 140 characters, and an empty line.
func (p *page) paragraph(format string, args ...any) {
	line := 0
	for i, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		switch n := len([]rune(word)); {
		case i == 0:
			line = n
		case line+1+n > 140:
			p.WriteByte('\n')
			line = n
		default:
			p.WriteByte(' ')
			line += 1 + n
		}
		p.WriteString(word)
	}
	p.WriteString("\n\n")
}

// heading adds a heading of a level.
func (p *page) heading(level int, text string) {
	fmt.Fprintf(p, "%s %s\n\n", strings.Repeat("#", level), text)
}

// table adds a table, nothing without rows.
func (p *page) table(head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	line := func(cells []string) {
		escaped := make([]string, len(cells))
		for i, c := range cells {
			escaped[i] = strings.ReplaceAll(c, "|", "\\|")
		}
		fmt.Fprintf(p, "| %s |\n", strings.Join(escaped, " | "))
	}
	line(head)
	fmt.Fprintf(p, "|%s\n", strings.Repeat("---|", len(head)))
	for _, r := range rows {
		line(r)
	}
	p.WriteByte('\n')
}

// code adds a block of code.
func (p *page) code(language, text string) {
	fmt.Fprintf(p, "```%s\n%s\n```\n\n", language, strings.TrimRight(text, "\n"))
}

// bytes returns the file, without the last empty line.
func (p *page) bytes() []byte { return []byte(strings.TrimRight(p.String(), "\n") + "\n") }

// members is a table of the members of a struct: name, type, meaning. Structs for which link returns a text are not taken apart.
func members(t *testing.T, typ reflect.Type, prefix string, link func(reflect.Type) string) (rows [][]string) {
	t.Helper()
	for _, p := range properties(t, typ) {
		if p.doc == "" && ours(p.owner) {
			t.Errorf("%s has no comment, which is its description", p.place())
		}
		inner, name := p.field.Type, prefix+p.key
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice && inner.Elem().Kind() != reflect.Uint8 {
			if inner.Kind() == reflect.Slice {
				name += "[]"
			}
			inner = inner.Elem()
		}
		kind := kindOf(p.field.Type, link)
		switch {
		case p.optional:
			kind += "; may be absent"
		case p.field.Type.Kind() == reflect.Pointer, p.field.Type.Kind() == reflect.Slice && strings.Contains(p.doc, "null"):
			kind += " or null"
		}
		rows = append(rows, []string{"`" + prefix + p.key + "`", kind, bare(p.doc, p.field.Name)})
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() && link(inner) == "" {
			rows = append(rows, members(t, inner, name+".", link)...)
		}
	}
	return rows
}

// kindOf names a JSON type for people.
func kindOf(typ reflect.Type, link func(reflect.Type) string) string {
	switch typ {
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[jsontext.Value](), reflect.TypeFor[json.RawMessage]():
		return "any"
	case reflect.TypeFor[[]byte]():
		return "base64"
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return kindOf(typ.Elem(), link)
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	case reflect.Array:
		return fmt.Sprintf("list of %d: %s", typ.Len(), kindOf(typ.Elem(), link))
	case reflect.Slice:
		return "list of " + plural(kindOf(typ.Elem(), link))
	case reflect.Map:
		return "object of " + plural(kindOf(typ.Elem(), link)) + " by name"
	case reflect.Interface:
		return "any"
	}
	if l := link(typ); l != "" {
		return l
	}
	return "object"
}

func plural(kind string) string {
	switch kind {
	case "text", "number":
		return kind + "s"
	case "whole number", "object", "time":
		return kind + "s"
	}
	return kind
}
