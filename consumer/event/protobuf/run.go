package protobuf

import (
	"encoding/binary"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
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
func (p *program) Run(s *event.Slots, f *framing.Frame) (at string, ok bool) {
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
func (p *program) head(f *framing.Frame) (n *node, data []byte, ok bool) {
	switch {
	case f.Style == framing.ConfluentFrame:
		n, data, ok = p.indexed(f.Data)
		return n, data, ok
	case f.Style == framing.HeaderFrame && len(f.Head) > 0:
		n, _, ok = p.indexed(f.Head)
		return n, f.Data, ok
	case len(f.Message) > 0:
		n, ok = p.named(f.Message)
		return n, f.Data, ok
	case f.Style == framing.ApicurioFrame: // a message before the message, which names its type
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

// message reads the fields of a message.
func (p *program) message(n *node, data []byte, depth int) bool {
	if depth > p.maxDepth {
		return false
	}
	for rest := data; len(rest) > 0; {
		number, wire, w, size := next(rest)
		if size < 0 {
			return false
		}
		if f := n.field(number); f != nil && !p.field(f, wire, w, rest, depth) {
			if p.bad == nil {
				p.bad = f
			}
			return false
		}
		rest = rest[size:]
	}
	for _, f := range n.list {
		p.imply(f)
	}
	return true
}

// written is a value as it is written: the bits of a number, or the bytes of anything else, a group among it.
type written struct {
	bits uint64
	data []byte
}

// next reads the field at the beginning of data, and returns how many bytes it has, fewer than 0 for none.
func next(data []byte) (number protowire.Number, wire protowire.Type, w written, size int) {
	tag := 1
	if first := data[0]; 8 <= first && first < 0x80 { // as most tags
		number, wire = protowire.Number(first>>3), protowire.Type(first&7)
	} else if number, wire, tag = protowire.ConsumeTag(data); tag < 0 {
		return 0, 0, w, tag
	}
	if w, size = untagged(number, wire, data[tag:]); size >= 0 {
		size += tag
	}
	return number, wire, w, size
}

// untagged is next for the value behind a tag.
func untagged(number protowire.Number, wire protowire.Type, data []byte) (w written, size int) {
	if len(data) > 0 && data[0] < 0x80 { // most numbers and lengths have one byte
		switch n := int(data[0]); {
		case wire == protowire.VarintType:
			return written{bits: uint64(n)}, 1
		case wire == protowire.BytesType && n < len(data):
			return written{data: data[1 : 1+n : 1+n]}, 1 + n
		}
	}
	switch wire {
	case protowire.VarintType:
		w.bits, size = protowire.ConsumeVarint(data)
	case protowire.Fixed32Type:
		var x uint32
		x, size = protowire.ConsumeFixed32(data)
		w.bits = uint64(x)
	case protowire.Fixed64Type:
		w.bits, size = protowire.ConsumeFixed64(data)
	case protowire.BytesType:
		w.data, size = protowire.ConsumeBytes(data)
	case protowire.StartGroupType:
		w.data, size = protowire.ConsumeGroup(number, data)
	default:
		size = -1
	}
	return w, size
}

// imply gives a field the value that it has where it is absent, as the syntax of the schema says: none if presence is
// explicit, and none for text, since an empty name is no name.
func (p *program) imply(f *field) {
	if f.slot >= 0 && f.implied {
		if v := p.slots.At(f.slot); v.IsNothing() {
			p.zero(f, v)
		}
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
func (p *program) field(f *field, wire protowire.Type, w written, rest []byte, depth int) bool {
	var v *event.Value
	if f.slot >= 0 {
		v = p.slots.At(f.slot)
	}
	switch {
	case f.isMap:
		return wire != protowire.BytesType || p.entry(f, v, w.data, depth)
	case f.isList:
		if v == nil || v.IsFilled() {
			return true // all of them were read with the first one
		}
		return p.list(f, v, rest)
	case wire != f.wire:
		return true // as a field that is not known
	}
	return p.value(f, v, w, depth)
}

// list reads all the elements of a list from a message, from the first one on.
func (p *program) list(f *field, v *event.Value, rest []byte) bool {
	from := p.slots.Begin()
	one := func(w written) bool {
		element := p.slots.Add(from)
		return element == nil || p.value(f, element, w, p.maxDepth)
	}
	for len(rest) > 0 {
		number, wire, w, size := next(rest)
		if size < 0 {
			return false
		}
		rest = rest[size:]
		switch {
		case number != f.number:
		case wire == f.wire:
			if !one(w) {
				return false
			}
		case wire == protowire.BytesType: // packed
			for packed := w.data; len(packed) > 0; {
				w, size := untagged(f.number, f.wire, packed)
				if size < 0 || !one(w) {
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
func (p *program) entry(f *field, v *event.Value, data []byte, depth int) bool {
	if v != nil {
		v.Object()
	}
	var key, value written
	wireOfValue := protowire.Type(-1)
	for len(data) > 0 {
		number, wire, w, size := next(data)
		if size < 0 {
			return false
		}
		switch number {
		case 1:
			key = w
		case 2:
			value, wireOfValue = w, wire
		}
		data = data[size:]
	}
	for i := range f.entries {
		e := &f.entries[i]
		if e.key != string(key.data) || e.bits != key.bits || wireOfValue >= 0 && e.value.wire != wireOfValue {
			continue
		}
		if wireOfValue < 0 && e.value.node == nil { // a value may be left out where it is its default
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
func (p *program) value(f *field, v *event.Value, w written, depth int) bool {
	switch f.kind {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return p.inner(f, v, w.data, depth)
	case protoreflect.StringKind:
		if !event.IsText(w.data) {
			return false
		}
		if f.at.Leads() {
			p.slots.Document(w.data, f.at)
		}
		if v != nil && (!f.implied || len(w.data) > 0 || f.isList) {
			v.Text(w.data)
		}
		return true
	}
	if v == nil {
		return true
	}
	switch f.kind {
	case protoreflect.BytesKind:
		p.slots.Base64(v, w.data)
	case protoreflect.FloatKind:
		v.Real(float64(math.Float32frombits(uint32(w.bits))))
	case protoreflect.Sfixed32Kind:
		v.Whole(int64(int32(w.bits)), event.ModelUnit)
	case protoreflect.DoubleKind:
		v.Real(math.Float64frombits(w.bits))
	case protoreflect.Fixed64Kind:
		v.Unsigned(w.bits)
	default:
		p.varint(f, v, w.bits)
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
	var numbers [3]uint64
	var text []byte
	var one written // the first field, as the one of a wrapper
	hasOne := false
	for rest := data; len(rest) > 0; {
		number, wire, w, size := next(rest)
		if size < 0 {
			return false
		}
		if number == 1 && len(f.node.list) > 0 && wire == f.node.list[0].wire {
			one, hasOne = w, true
		}
		switch {
		case wire == protowire.BytesType && number == 1:
			text = w.data
		case wire == protowire.VarintType && number <= 3:
			numbers[number-1] = w.bits
		}
		rest = rest[size:]
	}
	switch a, b, c := numbers[0], numbers[1], numbers[2]; f.node.special {
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
			if p.zero(inner, v); hasOne {
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
