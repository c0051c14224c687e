package protobuf

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/refitd/refitd/consumer/event"
)

// A node walks messages of one type.
type node struct {
	special special
	fields  map[protowire.Number]*field // those that are asked for, or lead to one
	list    []*field                    // the same
	numbers []protowire.Number          // of list
}

// field returns the field of a number, nil if it is not asked for.
func (n *node) field(number protowire.Number) *field {
	if len(n.numbers) > 10 {
		return n.fields[number]
	}
	for i, one := range n.numbers { // few are found sooner so
		if one == number {
			return n.list[i]
		}
	}
	return nil
}

// special is a type of messages that stand for a value.
type special uint8

const (
	plain     special = iota
	timestamp         // google.protobuf.Timestamp
	date              // google.type.Date
	decimal           // confluent.type.Decimal
	digits            // google.type.Decimal
	wrapper           // google.protobuf.Int64Value and its like
)

// field is a field that is asked for, or leads to one.
type field struct {
	name    string
	number  protowire.Number
	slot    int
	at      *event.Member
	kind    protoreflect.Kind
	wire    protowire.Type
	isList  bool
	implied bool // it has its default where it is absent
	enum    map[int64][]byte
	node    *node // of a message
	entries []entry
	isMap   bool
}

// entry is an entry of a map that is asked for.
type entry struct {
	key   string // of text
	bits  uint64 // of a key that is none, as it is written
	value *field
}

// newEntry returns the entry of a name, false where no key of a kind is written out so.
func newEntry(name string, kind protoreflect.Kind, value *field) (entry, bool) {
	switch kind {
	case protoreflect.StringKind:
		return entry{key: name, value: value}, true
	case protoreflect.BoolKind:
		b, err := strconv.ParseBool(name)
		return entry{bits: protowire.EncodeBool(b), value: value}, err == nil && strconv.FormatBool(b) == name
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		n, err := strconv.ParseUint(name, 10, 64)
		return entry{bits: n, value: value}, err == nil && strconv.FormatUint(n, 10) == name
	}
	n, err := strconv.ParseInt(name, 10, 64)
	bits := uint64(n)
	switch kind {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		bits = protowire.EncodeZigZag(n)
	case protoreflect.Sfixed32Kind:
		bits = uint64(uint32(n))
	}
	return entry{bits: bits, value: value}, err == nil && strconv.FormatInt(n, 10) == name
}

// compiler makes nodes of messages.
type compiler struct {
	made  map[madeOf]*node
	found map[int]bool // slots for which messages may have something
	count int
}

type madeOf struct {
	message, read protoreflect.FullName // read is "" without a reader's message
	at            *event.Member
}

// maxNodes bounds the program of one schema.
const maxNodes = 10_000

// specials are the messages that stand for a value.
var specials = map[protoreflect.FullName]special{
	"google.protobuf.Timestamp": timestamp, "google.type.Date": date,
	"confluent.type.Decimal": decimal, "google.type.Decimal": digits,
	"google.protobuf.DoubleValue": wrapper, "google.protobuf.FloatValue": wrapper, "google.protobuf.Int64Value": wrapper,
	"google.protobuf.UInt64Value": wrapper, "google.protobuf.Int32Value": wrapper, "google.protobuf.UInt32Value": wrapper,
	"google.protobuf.BoolValue": wrapper, "google.protobuf.StringValue": wrapper, "google.protobuf.BytesValue": wrapper,
}

// message makes the node of a message, whose fields have the names that read, if not nil, gives to their numbers.
func (c *compiler) message(m, read protoreflect.MessageDescriptor, at *event.Member) (*node, error) {
	key := madeOf{message: m.FullName(), at: at}
	if read != nil {
		key.read = read.FullName()
	}
	if n := c.made[key]; n != nil {
		return n, nil
	}
	if c.count++; c.count > maxNodes {
		return nil, fmt.Errorf("more than %d messages in messages", maxNodes)
	}
	n := &node{special: specials[m.FullName()], fields: make(map[protowire.Number]*field)}
	c.made[key] = n
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name, to := f.Name(), protoreflect.MessageDescriptor(nil)
		if read != nil {
			if own := read.Fields().ByNumber(f.Number()); own != nil {
				name, to = own.Name(), own.Message()
			} else if read.Fields().ByName(name) != nil { // of another number
				continue
			}
		}
		member := at.Member(string(name))
		if n.special == wrapper || n.special == digits {
			member = at
		}
		if member == nil && n.special != wrapper {
			continue
		}
		made, err := c.field(f, to, member)
		if err != nil {
			return nil, err
		}
		n.fields[made.number] = made
		n.list, n.numbers = append(n.list, made), append(n.numbers, made.number)
	}
	return n, nil
}

// field makes a field that is asked for. read, if not nil, is the reader's message of it.
func (c *compiler) field(d protoreflect.FieldDescriptor, read protoreflect.MessageDescriptor,
	at *event.Member) (*field, error) {
	f := &field{name: string(d.Name()), number: d.Number(), slot: at.Slot(), at: at, kind: d.Kind(),
		wire: wireOf(d.Kind()), isList: d.IsList(), isMap: d.IsMap(), implied: !d.HasPresence()}
	c.found[f.slot] = true
	var err error
	switch {
	case f.isMap:
		f.implied = false
		var to protoreflect.MessageDescriptor
		if read != nil && read.IsMapEntry() {
			to = read.Fields().ByNumber(2).Message()
		}
		for _, name := range at.Names() {
			value, failed := c.field(d.MapValue(), to, at.Member(name))
			if failed != nil {
				return nil, failed
			}
			value.implied = value.node == nil // in every syntax
			if e, ok := newEntry(name, d.MapKey().Kind(), value); ok {
				f.entries = append(f.entries, e)
			}
		}
	case d.Kind() == protoreflect.MessageKind || d.Kind() == protoreflect.GroupKind:
		member := at
		if f.isList {
			member = nil // of what is in a list, no members are asked for
		}
		f.node, err = c.message(d.Message(), read, member)
	case d.Kind() == protoreflect.EnumKind:
		f.enum = make(map[int64][]byte)
		values := d.Enum().Values()
		for i := range values.Len() {
			number := int64(values.Get(i).Number())
			if f.enum[number] == nil { // the first of several names counts
				f.enum[number] = []byte(values.Get(i).Name())
			}
		}
	}
	return f, err
}

// wireOf returns the wire type of a single value of a kind.
func wireOf(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}
