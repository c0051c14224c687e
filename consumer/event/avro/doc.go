// Package avro compiles the schema of a writer, that of a reader and what is asked for into a program that walks the
// bytes of values in Avro's binary encoding and makes nothing else of them.
package avro

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/consumer/event"
)

// Compile is an event.Compiler.
func Compile(w, reader *event.Writer, root *event.Member, maxDepth int) (event.Program, error) {
	written, err := parse(w)
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
	var cache avro.SchemaCache
	for _, r := range w.References {
		if _, err := cache.Parse(r.Text); err != nil {
			return nil, fmt.Errorf("reference %s: %w", r.Name, err)
		}
	}
	s, err := cache.Parse(w.Text)
	if err != nil {
		return nil, err
	}
	return s.Root(), nil
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
