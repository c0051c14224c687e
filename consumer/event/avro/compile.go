package avro

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/consumer/event"
)

// A node walks the values of one type of the writer.
type node struct {
	op     op
	unit   event.Unit // of opInt and opLong
	as     op         // of these: opFloat and opDouble where the reader has such a number in place of a whole one
	at     *event.Member
	leads  bool    // members of what at is are asked for
	fields []child // of a record, in the order of the writer
	names  []child // of a map: the entries that are asked for
	items  *node   // of an array, and of the entries of a map that nobody asks for
	of     []*node // branches of a union

	symbols  [][]byte // of an enum, as the reader has them; nil for one that it lacks
	size     int      // of a fixed
	scale    int      // of a decimal
	defaults []given  // of a record: what the reader has and the writer lacks
}

// child is a member of a record or a map.
type child struct {
	name string
	slot int
	node *node
}

// given is the default of a field of the reader.
type given struct {
	slot int
	set  func(s *event.Slots, v *event.Value)
}

// op is what a node does.
type op uint8

const (
	opNull op = iota
	opBool
	opFloat
	opDouble
	opInt // led by a number, as those up to opUnion
	opLong
	opString
	opBytes
	opDecimal // bytes
	opEnum
	opUnion
	opFixed
	opFixedDecimal
	opUUID // of a fixed
	opRecord
	opScaled // a record of Debezium: scale and value
	opArray
	opMap
)

// maxNodes bounds the types of the program of one schema, with the symbols of its enums.
const maxNodes = 50_000

// compiler makes nodes of types.
type compiler struct {
	written, read map[string]*avro.SchemaNode
	made          map[madeOf]*node
	plain         map[plainOf]*node // of types without a name that nobody asks for: most of a wide record
	found         map[int]bool      // slots for which values may have something
	count         int
}

// madeOf is what a node of a named type is for.
type madeOf struct {
	written, read *avro.SchemaNode
	at            *event.Member
}

// plainOf is what a node is whose type has no parts.
type plainOf struct {
	op, as op
	unit   event.Unit
}

// isUUID reports whether the values of a type are the bytes of UUIDs.
func isUUID(n *avro.SchemaNode) bool { return n.LogicalType == "uuid" && n.Size == 16 }

// resolve returns the definition of a reference.
func resolve(n *avro.SchemaNode, named map[string]*avro.SchemaNode) *avro.SchemaNode {
	if n == nil || slices.Contains(types, n.Type) {
		return n
	}
	return named[n.Type]
}

// types are the types that are no references.
var types = []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "record", "error", "enum",
	"fixed", "array", "map", "union"}

// node makes the node of a type of the writer. read is the reader's type, nil for none or for another type; at
// is nil where nothing is asked for.
func (c *compiler) node(w, read *avro.SchemaNode, at *event.Member) (*node, error) {
	named := w
	if w = resolve(w, c.written); w == nil {
		return nil, fmt.Errorf("no type %s", named.Type)
	}
	if w.Type != "union" {
		read = c.branch(w, read)
	}
	key := madeOf{w, read, at}
	isNamed := w.Type == "record" || w.Type == "error" || w.Type == "enum" || w.Type == "fixed"
	if n := c.made[key]; n != nil && isNamed {
		return n, nil
	}
	if c.count++; c.count > maxNodes {
		return nil, fmt.Errorf("more than %d types in types", maxNodes)
	}
	n := &node{at: at, leads: at.Leads()}
	if isNamed {
		c.made[key] = n
	}
	var err error
	switch w.Type {
	case "null", "boolean", "int", "long", "float", "double", "string", "bytes", "fixed":
		n.scalar(w, read)
	case "enum":
		n.op = opEnum
		n.symbols = symbols(w, read)
		c.count += len(n.symbols)
	case "array":
		n.op = opArray
		// Of what is in a list, no members are asked for.
		var items *avro.SchemaNode
		if read != nil && read.Type == "array" {
			items = read.Items
		}
		n.items, err = c.node(w.Items, items, nil)
	case "map":
		n.op = opMap
		n.items, err = c.node(w.Values, nil, nil)
		for _, name := range at.Names() {
			m := at.Member(name)
			one, failed := c.node(w.Values, readValues(read), m)
			if failed != nil {
				return nil, failed
			}
			n.names = append(n.names, child{name, m.Slot(), one})
			c.found[m.Slot()] = true
		}
	case "union":
		n.op = opUnion
		for i := range w.Branches {
			branch, failed := c.node(&w.Branches[i], c.branch(&w.Branches[i], read), at)
			if failed != nil {
				return nil, failed
			}
			n.of = append(n.of, branch)
		}
	default:
		n.op = opRecord
		err = c.record(n, w, read, at)
	}
	if w.LogicalType == "decimal" && (w.Type == "bytes" || w.Type == "fixed") {
		if n.op, n.scale = opDecimal, w.Scale; w.Type == "fixed" {
			n.op = opFixedDecimal
		}
	}
	if at == nil && n.op <= opBytes {
		key := plainOf{n.op, n.as, n.unit}
		if same := c.plain[key]; same != nil {
			return same, err
		}
		c.plain[key] = n
	}
	return n, err
}

// scalar makes the node that of a type without others in it.
func (n *node) scalar(w, read *avro.SchemaNode) {
	switch w.Type {
	case "null":
		n.op = opNull
	case "boolean":
		n.op = opBool
	case "int", "long":
		if n.op, n.unit = opInt, unitAs(w, read); w.Type == "long" {
			n.op = opLong
		}
		if read != nil {
			n.as = map[string]op{"float": opFloat, "double": opDouble}[read.Type]
		}
	case "float":
		n.op = opFloat
	case "double":
		n.op = opDouble
	case "string", "bytes":
		as := w.Type
		if read != nil && (read.Type == "string" || read.Type == "bytes") {
			as = read.Type
		}
		if n.op = opString; as == "bytes" {
			n.op = opBytes
		}
	case "fixed":
		n.op, n.size = opFixed, w.Size
		if isUUID(w) {
			n.op = opUUID
		}
	}
}

// record makes the fields of a record.
func (c *compiler) record(n *node, w, read *avro.SchemaNode, at *event.Member) error {
	if isScaled(w) {
		n.op = opScaled
		return nil
	}
	if read = resolve(read, c.read); read != nil && read.Type != "record" && read.Type != "error" {
		read = nil
	}
	had := make(map[string]bool)
	for i := range w.Fields {
		f := &w.Fields[i]
		ch, name := child{name: f.Name, slot: -1}, f.Name
		var to *avro.SchemaNode
		if read != nil {
			if i := readerField(read, w, f.Name); i >= 0 {
				name, to = read.Fields[i].Name, &read.Fields[i].Type
				had[name] = true
			}
		}
		m := at.Member(name)
		if m != nil {
			ch.slot = m.Slot()
			c.found[ch.slot] = true
		}
		var err error
		if ch.node, err = c.node(&f.Type, to, m); err != nil {
			return err
		}
		n.fields = append(n.fields, ch)
	}
	if read == nil {
		return nil
	}
	for i := range read.Fields {
		if f := &read.Fields[i]; !had[f.Name] && f.HasDefault {
			c.defaults(n, &f.Type, at.Member(f.Name), f.Default)
		}
	}
	return nil
}

// readerField returns the index of the field of the reader that a field of the writer is: by its name, or by an alias
// where the writer has no field of the reader's own name.
func readerField(read, w *avro.SchemaNode, name string) int {
	if i := slices.IndexFunc(read.Fields, func(f avro.SchemaField) bool { return f.Name == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(read.Fields, func(f avro.SchemaField) bool {
		return slices.Contains(f.Aliases, name) &&
			!slices.ContainsFunc(w.Fields, func(own avro.SchemaField) bool { return own.Name == f.Name })
	})
}

// branch returns the type of the reader that a branch of the writer's union is read by.
func (c *compiler) branch(w, read *avro.SchemaNode) *avro.SchemaNode {
	w, read = resolve(w, c.written), resolve(read, c.read)
	if w == nil || read == nil || read.Type != "union" {
		return read
	}
	var same, promoted *avro.SchemaNode
	for i := range read.Branches {
		b := resolve(&read.Branches[i], c.read)
		if b == nil || b.Type != w.Type {
			if b != nil && promoted == nil && slices.Contains(promotions[w.Type], b.Type) {
				promoted = b
			}
			continue
		}
		if b.Name == w.Name || slices.Contains(b.Aliases, w.Name) || slices.Contains(b.Aliases, fullName(w)) {
			return b
		}
		if same == nil {
			same = b
		}
	}
	return cmp.Or(same, promoted)
}

// promotions are the types of readers that values of a type may be read as.
var promotions = map[string][]string{
	"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"},
	"string": {"bytes"}, "bytes": {"string"},
}

// readValues returns the type of the values of a map, nil for what is none.
func readValues(read *avro.SchemaNode) *avro.SchemaNode {
	if read == nil || read.Type != "map" {
		return nil
	}
	return read.Values
}

// symbols returns those of an enum as a reader has them: its default in place of those that it lacks, or nil.
func symbols(w, read *avro.SchemaNode) (list [][]byte) {
	for _, name := range w.Symbols {
		symbol := []byte(name)
		if read != nil && read.Type == "enum" && !slices.Contains(read.Symbols, name) {
			if symbol = nil; read.HasEnumDefault {
				symbol = []byte(read.EnumDefault)
			}
		}
		list = append(list, symbol)
	}
	return list
}

// unitAs returns the unit of a time as the writer says, or else the reader.
func unitAs(w, read *avro.SchemaNode) event.Unit {
	if unit := unitOf(w); unit != event.ModelUnit || read == nil || read.Type != "int" && read.Type != "long" {
		return unit
	}
	return unitOf(read)
}

// unitOf returns the unit of a time, by its logical type or by the name that Debezium gives it.
func unitOf(n *avro.SchemaNode) event.Unit {
	switch strings.TrimPrefix(n.LogicalType, "local-") {
	case "date":
		return event.Days
	case "timestamp-millis":
		return event.Milliseconds
	case "timestamp-micros":
		return event.Microseconds
	case "timestamp-nanos":
		return event.Nanoseconds
	}
	name, _ := n.Props["connect.name"].(string)
	return event.ConnectUnit(name)
}

// defaults adds the default of a field of the reader to a record, as far as it is asked for.
func (c *compiler) defaults(n *node, read *avro.SchemaNode, at *event.Member, x any) {
	if at == nil {
		return
	}
	if read = c.typeOf(read, x); read == nil {
		return
	}
	if object, ok := x.(map[string]any); ok {
		for i := range read.Fields { // of a record
			f := &read.Fields[i]
			if inner, has := object[f.Name]; has {
				c.defaults(n, &f.Type, at.Member(f.Name), inner)
			} else if f.HasDefault {
				c.defaults(n, &f.Type, at.Member(f.Name), f.Default)
			}
		}
		for name, inner := range object {
			if read.Type == "map" {
				c.defaults(n, read.Values, at.Member(name), inner)
			}
		}
	}
	if slot := at.Slot(); slot >= 0 {
		c.found[slot] = true
		n.defaults = append(n.defaults, given{slot, c.setter(read, x)})
	}
}

// typeOf returns the type of the value of a default: of a union the branch.
func (c *compiler) typeOf(read *avro.SchemaNode, x any) *avro.SchemaNode {
	if read = resolve(read, c.read); read != nil && read.Type == "union" {
		for i := range read.Branches {
			if b := resolve(&read.Branches[i], c.read); b != nil && isOf(b.Type, x) {
				return b
			}
		}
	}
	return read
}

// isOf reports whether the value of a default may be of a type.
func isOf(name string, x any) bool {
	switch x.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case int32:
		return name == "int"
	case int64:
		return name == "long"
	case float32:
		return name == "float"
	case float64:
		return name == "double"
	case string:
		return name == "string" || name == "enum"
	case []byte:
		return name == "bytes" || name == "fixed"
	case []any:
		return name == "array"
	}
	return name == "record" || name == "map"
}

// setter returns how a default of a type is put into a slot.
func (c *compiler) setter(read *avro.SchemaNode, x any) func(s *event.Slots, v *event.Value) {
	unit := unitOf(read)
	var elements []func(s *event.Slots, v *event.Value)
	if list, ok := x.([]any); ok {
		for _, e := range list {
			if of := c.typeOf(read.Items, e); of != nil {
				elements = append(elements, c.setter(of, e))
			}
		}
	}
	return func(s *event.Slots, v *event.Value) {
		switch x := x.(type) {
		case nil:
			v.Null()
		case bool:
			v.Bool(x)
		case int32:
			v.Whole(int64(x), unit)
		case int64:
			v.Whole(x, unit)
		case float32:
			v.Real(float64(x))
		case float64:
			v.Real(x)
		case string:
			v.Text([]byte(x))
		case []byte:
			switch {
			case read.LogicalType == "decimal":
				decimal(s, v, x, read.Scale)
			case isUUID(read):
				uuid(s, v, x)
			default:
				s.Base64(v, x)
			}
		case []any:
			from := s.Begin()
			for _, set := range elements {
				if one := s.Add(from); one != nil {
					set(s, one)
				}
			}
			s.End(v, from)
		default:
			v.Object()
		}
	}
}
