package avro

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
)

// program reads the values of one schema.
type program struct {
	root     *node
	maxDepth int
	found    map[int]bool

	slots *event.Slots
	data  []byte
	i     int
	depth int
	steps int      // left, for lists of what takes no bytes
	path  []*child // to what does not fit, the innermost first
}

// stepsPerByte bounds the values that may be in one byte: lists may have elements that take none.
const stepsPerByte = 64

// Run implements event.Program.
func (p *program) Run(s *event.Slots, f *framing.Frame) (at string, ok bool) {
	p.slots, p.data, p.i, p.depth, p.path = s, f.Data, 0, 0, p.path[:0]
	p.steps = stepsPerByte * (len(f.Data) + 1)
	ok = p.walk(p.root, nil) && p.i == len(p.data)
	p.slots, p.data = nil, nil
	if ok {
		return "", true
	}
	if len(p.path) == 0 {
		return ", whole", false
	}
	var names []string
	for _, c := range slices.Backward(p.path) {
		names = append(names, c.name)
	}
	return ", field " + strings.Join(names, "."), false
}

// Finds implements event.Program.
func (p *program) Finds(slot int) bool { return p.found[slot] }

// walk reads a value of a type into v, which is nil if nobody asks for it.
func (p *program) walk(n *node, v *event.Value) bool {
	if p.steps--; p.steps < 0 {
		return false
	}
	var x int64
	if opInt <= n.op && n.op <= opUnion {
		if i := p.i; i < len(p.data) && p.data[i] < 0x80 { // as most numbers and lengths
			x, p.i = int64(p.data[i]>>1)^-int64(p.data[i]&1), i+1
		} else if led, ok := p.long(); ok {
			x = led
		} else {
			return false
		}
	}
	switch n.op {
	case opString:
		b, ok := p.take(x)
		switch {
		case !ok || v == nil && n.at == nil:
			return ok
		case !event.IsText(b):
			return false
		case v != nil:
			v.Text(b)
		}
		if n.leads {
			p.slots.Document(b, n.at)
		}
		return true
	case opInt, opLong:
		switch {
		case n.op == opInt && x != int64(int32(x)):
			return false
		case v == nil:
		case n.as == opFloat:
			v.Real(float64(float32(x)))
		case n.as == opDouble:
			v.Real(float64(x))
		default:
			v.Whole(x, n.unit)
		}
		return true
	case opUnion:
		return uint64(x) < uint64(len(n.of)) && p.walk(n.of[x], v)
	case opEnum:
		return n.symbol(v, uint64(x))
	case opBytes, opDecimal:
		return p.bytes(n, v, x)
	case opFixed, opFixedDecimal, opUUID:
		return p.bytes(n, v, int64(n.size))
	case opNull:
		if v != nil {
			v.Null()
		}
		return true
	case opBool:
		return p.boolean(v)
	case opFloat:
		return p.single(v)
	case opDouble:
		b, ok := p.take(8)
		if ok && v != nil {
			v.Real(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
		return ok
	}
	if v != nil {
		v.Object()
	}
	if p.depth++; p.depth > p.maxDepth {
		return false
	}
	ok := false
	switch n.op {
	case opScaled:
		ok = p.scaled(v)
	case opArray:
		ok = p.array(n, v)
	case opMap:
		ok = p.entries(n)
	default:
		ok = p.record(n)
	}
	p.depth--
	return ok
}

// symbol reads the value of an enum by its place.
func (n *node) symbol(v *event.Value, at uint64) bool {
	if at >= uint64(len(n.symbols)) || v != nil && n.symbols[at] == nil {
		return false
	}
	if v != nil {
		v.Text(n.symbols[at])
	}
	return true
}

// boolean reads a byte that is 0 or 1.
func (p *program) boolean(v *event.Value) bool {
	b, ok := p.take(1)
	if ok && v != nil {
		v.Bool(b[0] == 1)
	}
	return ok && b[0] <= 1
}

// single reads a number of 4 bytes.
func (p *program) single(v *event.Value) bool {
	b, ok := p.take(4)
	if ok && v != nil {
		v.Real(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	}
	return ok
}

// record reads the fields of a record. One that fails is noted in path.
func (p *program) record(n *node) bool {
	for i := range n.defaults {
		d := &n.defaults[i]
		d.set(p.slots, p.slots.At(d.slot))
	}
	for i := range n.fields {
		f := &n.fields[i]
		var v *event.Value
		if f.slot >= 0 {
			v = p.slots.At(f.slot)
		}
		if !p.walk(f.node, v) {
			p.path = append(p.path, f)
			return false
		}
	}
	return true
}

// bytes reads so many bytes of either kind.
func (p *program) bytes(n *node, v *event.Value, size int64) bool {
	b, ok := p.take(size)
	switch {
	case !ok || v == nil:
	case n.op == opDecimal || n.op == opFixedDecimal:
		decimal(p.slots, v, b, n.scale)
	case n.op == opUUID:
		uuid(p.slots, v, b)
	default:
		p.slots.Base64(v, b)
	}
	return ok
}

// scaled reads a decimal whose scale is before it.
func (p *program) scaled(v *event.Value) bool {
	scale, ok := p.long()
	b, also := p.sized()
	if !ok || !also || scale != int64(int32(scale)) {
		return false
	}
	if v != nil {
		decimal(p.slots, v, b, int(scale))
	}
	return true
}

// decimal makes a value the number of an unscaled one, or the bytes themselves if it is too long for a number.
func decimal(s *event.Slots, v *event.Value, b []byte, scale int) {
	if !s.Decimal(v, b, scale) {
		s.Base64(v, b)
	}
}

// uuid makes a value the text of a UUID.
func uuid(s *event.Slots, v *event.Value, b []byte) {
	v.Text(s.Scratch(func(dst []byte) []byte { return appendUUID(dst, b) }))
}

// array reads the blocks of a list.
func (p *program) array(n *node, v *event.Value) bool {
	from := p.slots.Begin()
	for {
		count, ok := p.block()
		if !ok || count == 0 {
			if ok && v != nil {
				p.slots.End(v, from)
			}
			return ok
		}
		for range count {
			var one *event.Value
			if v != nil {
				one = p.slots.Add(from)
			}
			if !p.walk(n.items, one) {
				return false
			}
		}
	}
}

// entries reads the blocks of a map.
func (p *program) entries(n *node) bool {
	for {
		count, ok := p.block()
		if !ok || count == 0 {
			return ok
		}
		for range count {
			key, ok := p.sized()
			if !ok {
				return false
			}
			to, v := n.items, (*event.Value)(nil)
			for i := range n.names {
				if n.names[i].name == string(key) {
					if to = n.names[i].node; n.names[i].slot >= 0 {
						v = p.slots.At(n.names[i].slot)
					}
				}
			}
			if !p.walk(to, v) {
				return false
			}
		}
	}
}

// block reads the head of a block: how many items it has.
func (p *program) block() (count int64, ok bool) {
	if count, ok = p.long(); ok && count < 0 {
		var size int64
		size, ok = p.long()
		ok = ok && size >= 0 && count != math.MinInt64
		count = -count
	}
	return count, ok
}

// sized reads bytes behind their length.
func (p *program) sized() ([]byte, bool) {
	n, ok := p.long()
	if !ok {
		return nil, false
	}
	return p.take(n)
}

// take reads n bytes.
func (p *program) take(n int64) ([]byte, bool) {
	if uint64(n) > uint64(len(p.data)-p.i) { // or negative
		return nil, false
	}
	b := p.data[p.i : p.i+int(n) : p.i+int(n)]
	p.i += int(n)
	return b, true
}

// long reads a whole number.
func (p *program) long() (int64, bool) {
	x, n := binary.Varint(p.data[p.i:])
	p.i += max(n, 0)
	return x, n > 0
}

// appendUUID appends 16 bytes as a UUID is written.
func appendUUID(dst, b []byte) []byte {
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		if from := [...]int{0, 4, 6, 8, 10}[i]; i > 0 {
			dst = hex.AppendEncode(append(dst, '-'), b[from:end])
		} else {
			dst = hex.AppendEncode(dst, b[:end])
		}
	}
	return dst
}
