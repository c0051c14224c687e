// Package avro compiles the schema of a writer, that of a reader and what is asked for into a program that walks the
// bytes of values in Avro's binary encoding and makes nothing else of them.
package avro

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/consumer/event"
)

// Compile is an event.Compiler.
func Compile(w, reader *event.Writer, root *event.Member, maxDepth int) (event.Program, error) {
	written, err := parseWritten(w)
	if err != nil {
		return nil, fmt.Errorf("the schema of the writer: %w", err)
	}
	c := compiler{written: definitions(written), made: make(map[madeOf]*node),
		plain: make(map[plainOf]*node), found: make(map[int]bool)}
	var read *avro.SchemaNode
	if reader != nil {
		if read, err = parse(reader); err != nil {
			return nil, fmt.Errorf("input.schema_file: %w", err)
		}
		c.read = definitions(read)
	}
	n, err := c.node(written, read, root)
	if err != nil {
		return nil, err
	}
	return &program{root: n, maxDepth: maxDepth, found: c.found}, nil
}

// parse returns the tree of a schema with what it refers to.
func parse(w *event.Writer) (*avro.SchemaNode, error) {
	return parseEach(w, func(text string) string { return text })
}

// parseWritten is parse for the schema of a writer, by which there are values whatever else is wrong with it.
func parseWritten(w *event.Writer) (*avro.SchemaNode, error) {
	n, err := parse(w)
	if err == nil {
		return n, nil
	}
	if n, loose := parseEach(w, loosened, avro.WithLaxNames(nil)); loose == nil {
		return n, nil
	}
	return nil, err
}

func parseEach(w *event.Writer, with func(text string) string, opts ...avro.SchemaOpt) (*avro.SchemaNode, error) {
	var cache avro.SchemaCache
	for _, r := range w.References {
		if _, err := cache.Parse(with(r.Text), opts...); err != nil {
			return nil, fmt.Errorf("reference %s: %w", r.Name, err)
		}
	}
	s, err := cache.Parse(with(w.Text), opts...)
	if err != nil {
		return nil, err
	}
	return s.Root(), nil
}

// loosened returns a schema without what says nothing of the bytes and registries let through: defaults of other types,
// aliases, and decimals that cannot be, which are what they are written as (Avro 1.12, Logical Types).
func loosened(text string) string {
	var schema any
	if json.Unmarshal([]byte(text), &schema) != nil {
		return text
	}
	var walk func(x any)
	walk = func(x any) {
		switch x := x.(type) {
		case []any:
			for _, one := range x {
				walk(one)
			}
		case map[string]any:
			maps.DeleteFunc(x, func(name string, one any) bool {
				return one == nil || name == "default" || name == "aliases" || name == "order"
			})
			if x["logicalType"] == "decimal" && !isDecimal(x) {
				delete(x, "logicalType")
			}
			for _, one := range x {
				walk(one)
			}
		}
	}
	walk(schema)
	b, _ := json.Marshal(schema) // which was JSON
	return string(b)
}

// isDecimal reports whether a schema with that logical type has a precision and a scale that its bytes have room for.
func isDecimal(x map[string]any) bool {
	precision, _ := x["precision"].(float64)
	scale, isNumber := x["scale"].(float64)
	size, isFixed := x["size"].(float64)
	return precision > 0 && (isNumber || x["scale"] == nil) && scale >= 0 && scale <= precision &&
		(!isFixed || precision <= math.Floor((8*size-1)*math.Log10(2)))
}

// definitions returns the named types of a tree by their full names, by which types refer to them from then on.
func definitions(root *avro.SchemaNode) map[string]*avro.SchemaNode {
	named := make(map[string]*avro.SchemaNode)
	each(root, "", func(n *avro.SchemaNode, _ string) {
		switch n.Type {
		case "record", "error", "enum", "fixed":
			if i := strings.LastIndexByte(n.Name, '.'); i >= 0 {
				n.Namespace, n.Name = n.Name[:i], n.Name[i+1:]
			}
			named[fullName(n)] = n
		}
	})
	each(root, "", func(n *avro.SchemaNode, space string) {
		if full := space + "." + n.Type; named[full] != nil && !slices.Contains(types, n.Type) {
			n.Type = full // else it is a full name already, or one without a namespace
		}
	})
	return named
}

// each calls visit with every type of a tree and the namespace that is around it.
func each(n *avro.SchemaNode, space string, visit func(n *avro.SchemaNode, space string)) {
	visit(n, space)
	if n.Type == "record" || n.Type == "error" {
		space = n.Namespace
	}
	for i := range n.Fields {
		each(&n.Fields[i].Type, space, visit)
	}
	for i := range n.Branches {
		each(&n.Branches[i], space, visit)
	}
	if n.Type == "array" {
		each(n.Items, space, visit)
	}
	if n.Type == "map" {
		each(n.Values, space, visit)
	}
}

// fullName returns the name of a named type with its namespace.
func fullName(n *avro.SchemaNode) string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "." + n.Name
}
