package protobuf

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/refitd/refitd/consumer/event"
)

// program reads the messages of one schema.
type program struct {
	writer   *event.Writer // described again for a message that was no value yet: descriptors take much memory
	reader   *event.Writer // nil for none
	shapes   []shape
	compiler *compiler
	asked    *event.Member
	maxDepth int
	first    *node
	byIndex  map[string]*node // by the bytes of the indexes of Confluent's frame
	byName   map[string]*node // by the name in Apicurio's

	described int // messages besides the first one

	slots *event.Slots
	bad   *field // the first that does not fit
}

// shape is which messages are in a message.
type shape struct {
	name  string
	inner []shape
}

// shapesOf returns the shapes of messages.
func shapesOf(list protoreflect.MessageDescriptors) []shape {
	if list.Len() == 0 {
		return nil
	}
	out := make([]shape, list.Len())
	for i := range out {
		m := list.Get(i)
		out[i] = shape{strings.Clone(string(m.FullName())), shapesOf(m.Messages())}
	}
	return out
}

// maxMessages bounds the messages of one schema that are values.
const maxMessages = 100

// Run implements event.Program.
func (p *program) Run(s *event.Slots, f *event.Frame) (at string, ok bool) {
	n, data, ok := p.head(f)
	if !ok {
		return ", the message in the frame", false
	}
	p.slots, p.bad = s, nil
	ok = p.message(n, data, 0)
	p.slots = nil
	switch {
	case ok:
		return "", true
	case p.bad != nil:
		return ", field " + p.bad.name, false
	}
	return ", whole", false
}

// Finds implements event.Program: of the messages that were values so far, the first one of the schema being one.
func (p *program) Finds(slot int) bool { return p.compiler.found[slot] }

// head returns which message a value is, and its bytes.
func (p *program) head(f *event.Frame) (n *node, data []byte, ok bool) {
	switch {
	case f.Style == event.ConfluentFrame:
		n, data, ok = p.indexed(f.Data)
		return n, data, ok
	case f.Style == event.HeaderFrame && len(f.Head) > 0:
		n, _, ok = p.indexed(f.Head)
		return n, f.Data, ok
	case len(f.Message) > 0:
		n, ok = p.named(f.Message)
		return n, f.Data, ok
	case f.Style == event.ApicurioFrame: // a message before the message, which names its type
		ref, size := protowire.ConsumeBytes(f.Data)
		if size < 0 {
			return nil, nil, false
		}
		number, _, tag := protowire.ConsumeTag(ref)
		name, end := []byte(nil), -1
		if tag > 0 && number == 1 {
			name, end = protowire.ConsumeBytes(ref[tag:])
		}
		if end < 0 {
			return nil, nil, false
		}
		n, ok = p.named(name)
		return n, f.Data[size:], ok
	}
	return p.first, f.Data, true
}

// indexed returns the message of the indexes at the beginning of data: how many there are, or 0 for the one index 0,
// then each, all in zigzag.
func (p *program) indexed(data []byte) (n *node, rest []byte, ok bool) {
	if len(data) > 0 && data[0] == 0 {
		return p.first, data[1:], true
	}
	count, size := binary.Varint(data)
	if size <= 0 || count <= 0 || count > int64(p.maxDepth) {
		return nil, nil, false
	}
	end := size
	for range count {
		_, size := binary.Varint(data[end:])
		if size <= 0 {
			return nil, nil, false
		}
		end += size
	}
	if n = p.byIndex[string(data[:end])]; n != nil {
		return n, data[end:], true
	}
	var path []int
	for shapes, at := p.shapes, size; len(path) < int(count); {
		i, size := binary.Varint(data[at:])
		if at += size; i < 0 || i >= int64(len(shapes)) {
			return nil, nil, false
		}
		path, shapes = append(path, int(i)), shapes[i].inner
	}
	if n = p.describe(path); n == nil {
		return nil, nil, false
	}
	p.byIndex[string(data[:end])] = n
	return n, data[end:], true
}

// named returns the message of a name.
func (p *program) named(name []byte) (n *node, ok bool) {
	if n = p.byName[string(name)]; n != nil {
		return n, true
	}
	for i := range p.shapes {
		full := p.shapes[i].name
		if string(name) != full && string(name) != full[strings.LastIndexByte(full, '.')+1:] {
			continue
		}
		if n = p.describe([]int{i}); n == nil {
			return nil, false
		}
		p.byName[string(name)] = n
		return n, true
	}
	return nil, false
}

// describe makes the node of a message by the indexes that lead to it, nil where it cannot be made.
func (p *program) describe(path []int) *node {
	if p.described++; p.described > maxMessages {
		return nil
	}
	file, err := Describe(p.writer)
	if err != nil {
		return nil
	}
	m := file.Messages().Get(path[0])
	for _, i := range path[1:] {
		m = m.Messages().Get(i)
	}
	read, err := messagesOf(p.reader)
	if err != nil {
		return nil
	}
	n, err := p.compiler.message(m, readAs(m, read), p.asked)
	if err != nil {
		return nil
	}
	return n
}

// message reads the fields of a message. Of one that is there several times the last counts.
func (p *program) message(n *node, data []byte, depth int) bool {
	if depth > p.maxDepth {
		return false
	}
	for _, f := range n.list {
		p.imply(f)
	}
	for rest := data; len(rest) > 0; {
		number, wire, tag := protowire.ConsumeTag(rest)
		if tag < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, wire, rest[tag:])
		if size < 0 {
			return false
		}
		raw := rest[tag : tag+size]
		if f := n.fields[number]; f != nil && !p.field(f, wire, raw, rest, depth) {
			if p.bad == nil {
				p.bad = f
			}
			return false
		}
		rest = rest[tag+size:]
	}
	return true
}

// imply gives a field the value that it has where it is absent, as the syntax of the schema says: none if presence is
// explicit, and none for text, since an empty name is no name.
func (p *program) imply(f *field) {
	if f.slot >= 0 && f.implied {
		p.zero(f, p.slots.At(f.slot))
	}
}

// zero makes a value the default of a field, nothing of text.
func (p *program) zero(f *field, v *event.Value) {
	switch {
	case f.isList:
		p.slots.End(v, p.slots.Begin())
	case f.kind == protoreflect.BoolKind:
		v.Bool(false)
	case f.kind == protoreflect.EnumKind:
		p.enum(f, v, 0)
	case f.kind == protoreflect.FloatKind || f.kind == protoreflect.DoubleKind:
		v.Real(0)
	case f.wire != protowire.BytesType:
		v.Whole(0, event.ModelUnit)
	}
}

// field reads a field that is asked for. rest begins with it.
func (p *program) field(f *field, wire protowire.Type, raw, rest []byte, depth int) bool {
	var v *event.Value
	if f.slot >= 0 {
		v = p.slots.At(f.slot)
	}
	switch {
	case f.isMap:
		return wire != protowire.BytesType || p.entry(f, v, raw, depth)
	case f.isList:
		if v == nil || v.IsFilled() {
			return true // all of them were read with the first one
		}
		return p.list(f, v, rest)
	case wire != f.wire:
		return true // as a field that is not known
	}
	return p.value(f, v, raw, depth)
}

// list reads all the elements of a list from a message, from the first one on.
func (p *program) list(f *field, v *event.Value, rest []byte) bool {
	from := p.slots.Begin()
	one := func(raw []byte) bool {
		element := p.slots.Add(from)
		return element == nil || p.value(f, element, raw, p.maxDepth)
	}
	for len(rest) > 0 {
		number, wire, tag := protowire.ConsumeTag(rest)
		if tag < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, wire, rest[tag:])
		if size < 0 {
			return false
		}
		raw := rest[tag : tag+size]
		rest = rest[tag+size:]
		switch {
		case number != f.number:
		case wire == f.wire:
			if !one(raw) {
				return false
			}
		case wire == protowire.BytesType: // packed
			packed, n := protowire.ConsumeBytes(raw)
			for n >= 0 && len(packed) > 0 {
				size := protowire.ConsumeFieldValue(f.number, f.wire, packed)
				if size < 0 || !one(packed[:size]) {
					return false
				}
				packed = packed[size:]
			}
		}
	}
	p.slots.End(v, from)
	return true
}

// entry reads an entry of a map.
func (p *program) entry(f *field, v *event.Value, raw []byte, depth int) bool {
	if v != nil {
		v.Object()
	}
	data, _ := protowire.ConsumeBytes(raw)
	var key, value []byte
	var bits uint64
	wireOfValue := protowire.Type(-1)
	for len(data) > 0 {
		number, wire, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, wire, data[tag:])
		if size < 0 {
			return false
		}
		switch {
		case number == 2:
			value, wireOfValue = data[tag:tag+size], wire
		case number != 1:
		case wire == protowire.BytesType:
			key, _ = protowire.ConsumeBytes(data[tag:])
		case wire == protowire.Fixed32Type:
			x, _ := protowire.ConsumeFixed32(data[tag:])
			bits = uint64(x)
		case wire == protowire.Fixed64Type:
			bits, _ = protowire.ConsumeFixed64(data[tag:])
		case wire == protowire.VarintType:
			bits, _ = protowire.ConsumeVarint(data[tag:])
		}
		data = data[tag+size:]
	}
	for i := range f.entries {
		e := &f.entries[i]
		if e.key != string(key) || e.bits != bits || value != nil && e.value.wire != wireOfValue {
			continue
		}
		switch { // a value may be left out where it is its default
		case value != nil:
		case e.value.node != nil:
			value = []byte{0}
		default:
			p.imply(e.value)
			return true
		}
		var to *event.Value
		if e.value.slot >= 0 {
			to = p.slots.At(e.value.slot)
		}
		return p.value(e.value, to, value, depth+1)
	}
	return true
}

// value reads one value, whose wire type is that of the field, into v, which is nil if only members are asked for.
func (p *program) value(f *field, v *event.Value, raw []byte, depth int) bool {
	switch f.wire {
	case protowire.StartGroupType:
		body, n := protowire.ConsumeGroup(f.number, raw)
		if n < 0 {
			return false
		}
		return p.inner(f, v, body, depth)
	case protowire.BytesType:
		b, _ := protowire.ConsumeBytes(raw)
		switch f.kind {
		case protoreflect.MessageKind:
			return p.inner(f, v, b, depth)
		case protoreflect.StringKind:
			if !utf8.Valid(b) {
				return false
			}
			if f.at.Leads() {
				p.slots.Document(b, f.at)
			}
			if v == nil || f.implied && len(b) == 0 && !f.isList {
				return true
			}
			v.Text(b)
		case protoreflect.BytesKind:
			if v != nil {
				p.slots.Base64(v, b)
			}
		}
		return true
	}
	if v == nil {
		return true
	}
	switch f.wire {
	case protowire.Fixed32Type:
		x, _ := protowire.ConsumeFixed32(raw)
		switch f.kind {
		case protoreflect.FloatKind:
			v.Real(float64(math.Float32frombits(x)))
		case protoreflect.Sfixed32Kind:
			v.Whole(int64(int32(x)), event.ModelUnit)
		default:
			v.Whole(int64(x), event.ModelUnit)
		}
	case protowire.Fixed64Type:
		x, _ := protowire.ConsumeFixed64(raw)
		switch f.kind {
		case protoreflect.DoubleKind:
			v.Real(math.Float64frombits(x))
		case protoreflect.Sfixed64Kind:
			v.Whole(int64(x), event.ModelUnit)
		default:
			v.Unsigned(x)
		}
	default:
		x, _ := protowire.ConsumeVarint(raw)
		p.varint(f, v, x)
	}
	return true
}

// varint makes a value of a number of variable length.
func (p *program) varint(f *field, v *event.Value, x uint64) {
	switch f.kind {
	case protoreflect.BoolKind:
		v.Bool(x != 0)
	case protoreflect.EnumKind:
		p.enum(f, v, int64(int32(x)))
	case protoreflect.Int32Kind:
		v.Whole(int64(int32(x)), event.ModelUnit)
	case protoreflect.Uint32Kind:
		v.Whole(int64(uint32(x)), event.ModelUnit)
	case protoreflect.Sint32Kind:
		v.Whole(int64(int32(protowire.DecodeZigZag(x&math.MaxUint32))), event.ModelUnit)
	case protoreflect.Sint64Kind:
		v.Whole(protowire.DecodeZigZag(x), event.ModelUnit)
	case protoreflect.Uint64Kind:
		v.Unsigned(x)
	default:
		v.Whole(int64(x), event.ModelUnit)
	}
}

// enum makes a value the name of a number, or the number itself where the schema has no name for it.
func (p *program) enum(f *field, v *event.Value, x int64) {
	if name := f.enum[x]; name != nil {
		v.Text(name)
	} else {
		v.Whole(x, event.ModelUnit)
	}
}

// inner reads a message within a message.
func (p *program) inner(f *field, v *event.Value, data []byte, depth int) bool {
	if v == nil || f.node.special == plain {
		if v != nil {
			v.Object()
		}
		return f.isList || p.message(f.node, data, depth+1)
	}
	var a, b, c uint64
	var text, one []byte // one is the first field, as the one of a wrapper
	rest := data
	for len(rest) > 0 {
		number, wire, tag := protowire.ConsumeTag(rest)
		if tag < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, wire, rest[tag:])
		if size < 0 {
			return false
		}
		if number == 1 && len(f.node.list) > 0 && wire == f.node.list[0].wire {
			one = rest[tag : tag+size]
		}
		switch {
		case wire == protowire.BytesType:
			if number == 1 {
				text, _ = protowire.ConsumeBytes(rest[tag:])
			}
		case wire == protowire.VarintType && number <= 3:
			x, _ := protowire.ConsumeVarint(rest[tag:])
			*[...]*uint64{&a, &b, &c}[number-1] = x
		}
		rest = rest[tag+size:]
	}
	switch f.node.special {
	case timestamp:
		moment(v, int64(a), int64(int32(b)))
	case date:
		day(v, int32(a), int32(b), int32(c))
	case decimal:
		if !p.slots.Decimal(v, text, int(int32(c))) {
			p.slots.Base64(v, text)
		}
	case digits:
		v.Digits(text)
	default: // a wrapper that is there without a value has its default, which of text is no name
		v.Text(nil)
		for _, inner := range f.node.list {
			if p.zero(inner, v); one != nil {
				return p.value(inner, v, one, depth)
			}
		}
	}
	return true
}

// day makes a value a date. One without a month or a day is no time.
func day(v *event.Value, year, month, day int32) {
	if year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31 {
		v.Object()
		return
	}
	const seconds = 24 * 60 * 60
	v.Whole(time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC).Unix()/seconds, event.Days)
}

// secondsOfNanoseconds are those before and after 1970 that int64 has in nanoseconds.
const secondsOfNanoseconds = math.MaxInt64/1_000_000_000 - 1

// moment makes a value a time.
func moment(v *event.Value, seconds, nanoseconds int64) {
	if seconds > secondsOfNanoseconds || seconds < -secondsOfNanoseconds {
		v.Whole(seconds, event.Seconds)
		return
	}
	v.Whole(seconds*1_000_000_000+nanoseconds, event.Nanoseconds)
}
