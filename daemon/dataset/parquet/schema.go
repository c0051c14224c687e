package parquet

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Kind is what the values of a column are.
type Kind uint8

// The kinds.
const (
	Other    Kind = iota // structures, maps, lists of lists, and bytes that are no text: What says which
	Whole                // whole numbers
	Unsigned             // whole numbers without a sign
	Number               // numbers, decimal ones too
	Text                 // text, UUIDs, times of day
	Bool                 // true and false
	Time                 // points in time
	Date                 // days
	Null                 // no values at all
)

// Column is a column at the top level of a file.
type Column struct {
	Name string
	Kind Kind   // of the values, or of those in lists
	List bool   // of values of that kind
	What string // the type in words

	leaf   int // of the values, -1 if the kind is Other
	form   form
	unit   int64 // of a time: in a second
	scale  int   // decimals of a decimal number
	narrow bool  // values have 32 bits
}

// form is how a value is written where the physical type does not say it.
type form uint8

const (
	asIs form = iota
	asDecimal
	asUUID
	asHalf      // a number of 16 bits
	asTimeOfDay // a whole number of units since midnight
)

// Physical types.
const (
	typeBoolean = iota
	typeInt32
	typeInt64
	typeInt96
	typeFloat
	typeDouble
	typeByteArray
	typeFixed
)

// widths are the bytes of a value by physical type, 0 where they differ.
var widths = [...]int{typeInt32: 4, typeInt64: 8, typeInt96: 12, typeFloat: 4, typeDouble: 8, typeFixed: 0}

// leaf is a column of values. A value has a definition level of definitions; a list that is absent has one below
// present, an empty one below repeated.
type leaf struct {
	physical             int32
	width                int // bytes of a value, 0 for byte arrays and booleans
	definitions          uint32
	repetitions          uint32
	present, repeatedAt  uint32
	definitionBits, bits int // of both levels
}

// element is a node of the schema.
type element struct {
	name       string
	physical   int32 // -1 for a group
	length     int32
	repetition int32 // 0 required, 1 optional, 2 repeated
	children   int32
	converted  int32 // -1 for none
	scale      int32
	logical    int64 // the field of the union, 0 for none
	unit       int64
	signed     bool
}

func readElement(t *thrift) element {
	e := element{physical: -1, converted: -1}
	t.fields(func(id int64, kind byte) bool {
		switch {
		case id == 1 && kind == thriftI32:
			e.physical = t.int32()
		case id == 2 && kind == thriftI32:
			e.length = t.int32()
		case id == 3 && kind == thriftI32:
			e.repetition = t.int32()
		case id == 4 && kind == thriftBinary:
			e.name = t.text()
		case id == 5 && kind == thriftI32:
			e.children = t.int32()
		case id == 6 && kind == thriftI32:
			e.converted = t.int32()
		case id == 7 && kind == thriftI32:
			e.scale = t.int32()
		case id == 10 && kind == thriftStruct:
			readLogical(t, &e)
		default:
			return false
		}
		return true
	})
	return e
}

// Logical types, by their field in the union.
const (
	logicalString    = 1
	logicalMap       = 2
	logicalList      = 3
	logicalEnum      = 4
	logicalDecimal   = 5
	logicalDate      = 6
	logicalTime      = 7
	logicalTimestamp = 8
	logicalInteger   = 10
	logicalNull      = 11
	logicalJSON      = 12
	logicalBSON      = 13
	logicalUUID      = 14
	logicalFloat16   = 15
	logicalVariant   = 16
	logicalGeometry  = 17
	logicalGeography = 18
)

func readLogical(t *thrift, e *element) {
	t.fields(func(id int64, kind byte) bool {
		if kind != thriftStruct {
			return false
		}
		e.logical = id
		t.fields(func(field int64, kind byte) bool {
			switch {
			case id == logicalDecimal && field == 1 && kind == thriftI32:
				e.scale = t.int32()
			case (id == logicalTime || id == logicalTimestamp) && field == 2 && kind == thriftStruct:
				t.fields(func(unit int64, _ byte) bool {
					e.unit = map[int64]int64{1: 1e3, 2: 1e6, 3: 1e9}[unit]
					return false
				})
			case id == logicalInteger && field == 2 && (kind == thriftTrue || kind == thriftFalse):
				e.signed = kind == thriftTrue
			default:
				return false
			}
			return true
		})
		return true
	})
}

// convertedTypes are the older names of logical types, with the unit of times.
var convertedTypes = map[int32]struct {
	logical, unit int64
	signed        bool
}{
	0:  {logical: logicalString},
	1:  {logical: logicalMap},
	3:  {logical: logicalList},
	4:  {logical: logicalEnum},
	5:  {logical: logicalDecimal},
	6:  {logical: logicalDate},
	7:  {logical: logicalTime, unit: 1e3},
	8:  {logical: logicalTime, unit: 1e6},
	9:  {logical: logicalTimestamp, unit: 1e3},
	10: {logical: logicalTimestamp, unit: 1e6},
	11: {logical: logicalInteger},
	12: {logical: logicalInteger},
	13: {logical: logicalInteger},
	14: {logical: logicalInteger},
	15: {logical: logicalInteger, signed: true},
	16: {logical: logicalInteger, signed: true},
	17: {logical: logicalInteger, signed: true},
	18: {logical: logicalInteger, signed: true},
	19: {logical: logicalJSON},
	20: {logical: logicalBSON},
}

// convertedInterval is the older name of a type that has no newer one.
const convertedInterval = 21

// node is an element with those below it.
type node struct {
	element
	children []*node
}

// maxSchemaDepth bounds groups in groups.
const maxSchemaDepth = 64

var errSchema = errors.New("its schema is no tree")

// describe makes columns of the elements, which are a tree in depth-first order.
func (f *File) describe(elements []element) error {
	root, rest, err := tree(elements, 0)
	if err != nil || len(rest) > 0 {
		return errSchema
	}
	for _, n := range root.children {
		first := len(f.leaves)
		if err := f.addLeaves(n, leaf{}); err != nil {
			return err
		}
		f.Columns = append(f.Columns, columnOf(n, first))
	}
	return nil
}

func tree(elements []element, depth int) (*node, []element, error) {
	if len(elements) == 0 || depth > maxSchemaDepth {
		return nil, nil, errSchema
	}
	n, rest := &node{element: elements[0]}, elements[1:]
	for range n.element.children {
		var child *node
		var err error
		if child, rest, err = tree(rest, depth+1); err != nil {
			return nil, nil, err
		}
		n.children = append(n.children, child)
	}
	return n, rest, nil
}

// addLeaves adds the columns of values below a node.
func (f *File) addLeaves(n *node, l leaf) error {
	switch n.repetition {
	case 1:
		l.definitions++
	case 2:
		l.present = l.definitions
		l.definitions++
		l.repeatedAt = l.definitions
		l.repetitions++
	}
	if len(n.children) > 0 {
		for _, child := range n.children {
			if err := f.addLeaves(child, l); err != nil {
				return err
			}
		}
		return nil
	}
	isWrong := n.physical > typeFixed || n.physical == typeFixed && (n.length <= 0 || n.length > maxValue)
	if l.physical = n.physical; isWrong {
		return fmt.Errorf("the column %q has a type that is not known", n.name)
	}
	if l.physical >= 0 {
		l.width = widths[l.physical]
	}
	if l.physical == typeFixed {
		l.width = int(n.length)
	}
	l.definitionBits, l.bits = bits.Len32(l.definitions), bits.Len32(l.repetitions)
	f.leaves = append(f.leaves, l)
	return nil
}

// columnOf describes a column whose first leaf is given.
func columnOf(n *node, first int) Column {
	c := Column{Name: n.name, leaf: -1, What: "a structure"}
	values := n
	switch {
	case len(n.children) == 0:
		c.List = n.repetition == 2
	case n.repetition != 2 && len(n.children) == 1 && n.children[0].repetition == 2:
		// list.element by the specification, or the repeated values alone.
		if values = n.children[0]; len(values.children) == 1 && values.children[0].repetition != 2 {
			values = values.children[0]
		}
		c.List = len(values.children) == 0
	}
	if n.logicalType() == logicalMap {
		c.What = "a map"
	}
	if n.logicalType() == logicalVariant {
		c.What = "variants"
	}
	if len(values.children) > 0 || values.physical < 0 {
		return c
	}
	values.classify(&c)
	c.narrow = values.physical == typeInt32 || values.physical == typeFloat
	if c.Kind != Other {
		c.leaf = first
	}
	if c.List {
		c.What = "lists of " + c.What
	}
	return c
}

// logicalType returns the logical type, also where it has its older name.
func (n *node) logicalType() int64 {
	if n.logical == 0 && n.converted >= 0 {
		old := convertedTypes[n.converted]
		n.logical, n.unit, n.signed = old.logical, old.unit, old.signed
	}
	return n.logical
}

// classify says what values are.
func (n *node) classify(c *Column) {
	set := func(k Kind, what string) { c.Kind, c.What = k, what }
	isBytes := n.physical == typeByteArray || n.physical == typeFixed
	isInt := n.physical == typeInt32 || n.physical == typeInt64
	switch logical := n.logicalType(); {
	case logical == logicalDecimal && (isInt || isBytes) && n.scale >= 0 && n.scale <= maxScale:
		c.form, c.scale = asDecimal, int(n.scale)
		set(Number, "decimal numbers")
	case logical == logicalDate && n.physical == typeInt32:
		set(Date, "dates")
	case logical == logicalTimestamp && n.physical == typeInt64 && n.unit > 0:
		c.unit = n.unit
		set(Time, "times")
	case logical == logicalTime && isInt && n.unit > 0:
		c.form, c.unit = asTimeOfDay, n.unit
		set(Text, "times of day")
	case (logical == logicalString || logical == logicalEnum || logical == logicalJSON) && isBytes:
		set(Text, "text")
	case logical == logicalInteger && isInt && !n.signed:
		set(Unsigned, "whole numbers")
	case logical == logicalUUID && n.physical == typeFixed && n.length == 16:
		c.form = asUUID
		set(Text, "UUIDs")
	case logical == logicalFloat16 && n.physical == typeFixed && n.length == 2:
		c.form = asHalf
		set(Number, "numbers")
	case logical == logicalNull:
		set(Null, "nothing but nulls")
	case logical == logicalInteger && isInt, logical == 0 && isInt && n.converted < 0:
		set(Whole, "whole numbers")
	case logical != 0 || n.converted >= 0:
		set(Other, n.unread())
	case n.physical == typeBoolean:
		set(Bool, "true and false")
	case n.physical == typeInt96:
		c.unit = int64(time.Second)
		set(Time, "times") // as Spark and Impala wrote them
	case n.physical == typeFloat || n.physical == typeDouble:
		set(Number, "numbers")
	case n.physical == typeByteArray:
		set(Text, "text")
	default:
		set(Other, "bytes of a fixed length")
	}
}

// unread names a type that no field can be.
func (n *node) unread() string {
	name, ok := map[int64]string{
		logicalBSON: "BSON", logicalVariant: "variants", logicalGeometry: "geometries", logicalGeography: "geographies",
		logicalDecimal: "decimal numbers of a scale that is not known", logicalMap: "a map",
		logicalList: "a list without values",
	}[n.logical]
	switch {
	case ok:
		return name
	case n.converted == convertedInterval:
		return "intervals"
	}
	return "values of a type that is not known"
}
