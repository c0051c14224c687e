package avro

import (
	"slices"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
)

// Outline is an event.Outliner.
func Outline(w *event.Writer, _ *framing.Frame, maxDepth int) ([]event.Leaf, error) {
	root, err := parseWritten(w)
	if err != nil {
		return nil, err
	}
	o := outline{named: definitions(root), maxDepth: maxDepth}
	o.walk(root, nil, root.Doc)
	return o.leaves, nil
}

// outline collects leaves.
type outline struct {
	named    map[string]*avro.SchemaNode
	within   []*avro.SchemaNode // records that lead to where it is: a record may be within itself
	leaves   []event.Leaf
	maxDepth int
	steps    int
}

// walk adds the leaves of a type.
func (o *outline) walk(n *avro.SchemaNode, path []string, doc string) {
	o.steps++
	if n = resolve(n, o.named); n == nil || len(o.leaves) >= event.MaxLeaves || o.steps > event.MaxOutlined {
		return
	}
	switch {
	case n.Type == "union":
		o.union(n, path, doc)
	case isRecord(n) && !isScaled(n):
		if slices.Contains(o.within, n) || len(o.within) >= o.maxDepth {
			return
		}
		o.within = append(o.within, n)
		for i := range n.Fields {
			f := &n.Fields[i]
			o.walk(&f.Type, append(slices.Clone(path), f.Name), f.Doc)
		}
		o.within = o.within[:len(o.within)-1]
	case len(path) > 0:
		if doc == "" {
			doc = n.Doc
		}
		leaf := o.leaf(n)
		leaf.Path, leaf.Doc = path, doc
		o.leaves = append(o.leaves, leaf)
	}
}

// union adds the leaves of the branches: one for those that are no records.
func (o *outline) union(n *avro.SchemaNode, path []string, doc string) {
	var of []*avro.SchemaNode
	for i := range n.Branches {
		b := resolve(&n.Branches[i], o.named)
		switch {
		case b == nil || b.Type == "null":
		case isRecord(b) && !isScaled(b):
			o.walk(b, path, doc)
		default:
			of = append(of, b)
		}
	}
	switch {
	case len(of) == 0 || len(path) == 0:
	case len(of) == 1:
		o.walk(of[0], path, doc)
	default:
		leaf := o.leaf(of[0])
		for _, b := range of[1:] {
			if other := o.leaf(b); other.Kind != leaf.Kind || other.IsTime != leaf.IsTime || other.Unit != leaf.Unit {
				leaf = event.Leaf{}
			}
		}
		leaf.Path, leaf.Doc = path, doc
		o.leaves = append(o.leaves, leaf)
	}
}

// leaf says what the values of a type are.
func (o *outline) leaf(n *avro.SchemaNode) (l event.Leaf) {
	if unit := unitOf(n); (n.Type == "int" || n.Type == "long") && unit != event.ModelUnit {
		return event.Leaf{Kind: event.LeafWhole, IsTime: true, Unit: unit}
	}
	switch n.Type {
	case "boolean":
		l.Kind = event.LeafBool
	case "int", "long":
		l.Kind = event.LeafWhole
	case "float", "double":
		l.Kind = event.LeafReal
	case "string":
		l.Kind = event.LeafText
	case "enum":
		l.Kind, l.Symbols = event.LeafEnum, n.Symbols
	case "bytes", "fixed":
		switch {
		case n.LogicalType == "decimal":
			l.Kind = event.LeafDecimal
		case n.LogicalType == "uuid" && n.Size == 16:
			l.Kind = event.LeafText
		default:
			l.Kind = event.LeafBytes
		}
	case "array":
		l.Kind = event.LeafList
		if items := resolve(n.Items, o.named); items != nil {
			l.Item = o.item(items)
		}
	case "map":
		l.Kind = event.LeafMap
	default:
		if isScaled(n) {
			l.Kind = event.LeafDecimal
		}
	}
	return l
}

// item says what the elements of a list are, null among them.
func (o *outline) item(n *avro.SchemaNode) event.LeafKind {
	if n.Type != "union" {
		return o.leaf(n).Kind
	}
	return event.LeafOther // null is no name
}

// isRecord reports whether a type is a record.
func isRecord(n *avro.SchemaNode) bool { return n.Type == "record" || n.Type == "error" }

// isScaled reports whether a record is a decimal: Debezium's, with its scale before the value.
func isScaled(n *avro.SchemaNode) bool {
	return n.Props["connect.name"] == "io.debezium.data.VariableScaleDecimal" && len(n.Fields) == 2 &&
		n.Fields[0].Type.Type == "int" && n.Fields[1].Type.Type == "bytes"
}
