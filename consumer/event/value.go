package event

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A Value is what a record has at one place, whichever format it is of. Its bytes belong to the record or to Slots.
// The zero value is nothing.
type Value struct {
	kind jsontext.Kind // as JSON has it: string, number, true, false, null, list or object; 0 for nothing
	form form
	unit Unit   // of a number that is a time
	raw  []byte // JSON, or text
	bits uint64 // of formWhole, of formReal, and where a formList begins and ends
}

// form says in which way a value is held.
type form uint8

const (
	formJSON     form = iota // raw is JSON
	formString               // raw is text
	formPlain                // raw is text from where everything is text: a number where one is asked for
	formWhole                // bits is an int64
	formUnsigned             // bits is a uint64
	formReal                 // bits is a float64
	formList                 // bits are two indices of the elements of Slots
)

// A Unit is that of a time that is a number of a logical type, which says so itself; the zero value says that the
// schema of the model gives the unit.
type Unit uint8

// The units of times.
const (
	ModelUnit Unit = iota
	Seconds
	Milliseconds
	Microseconds
	Nanoseconds
	Days
)

// milliseconds returns how many milliseconds x of a unit are.
func (u Unit) milliseconds(x float64) float64 {
	switch u {
	case Seconds:
		return x * 1000
	case Microseconds:
		return x / 1000
	case Nanoseconds:
		return x / 1e6
	case Days:
		return x * 86_400_000
	}
	return x
}

// unitOf is the unit of schema.time_unit.
func unitOf(name string) Unit {
	switch name {
	case "s":
		return Seconds
	case "us":
		return Microseconds
	case "ns":
		return Nanoseconds
	}
	return Milliseconds
}

// jsonValue returns the value of a piece of JSON, nothing for nil.
func jsonValue(raw []byte) Value {
	if raw == nil {
		return Value{}
	}
	return Value{kind: jsontext.Value(raw).Kind(), raw: raw}
}

// plainValue returns the value of text where everything is text, as a header, nothing for nil.
func plainValue(text []byte) Value {
	if text == nil {
		return Value{}
	}
	return Value{kind: '"', form: formPlain, raw: text}
}

// set makes it a value without bytes: field by field, as a Value is not made in registers.
func (v *Value) set(kind jsontext.Kind, form form, unit Unit, bits uint64) {
	v.kind, v.form, v.unit, v.bits = kind, form, unit, bits
	if v.raw != nil {
		v.raw = nil
	}
}

// Null makes it null.
func (v *Value) Null() { v.set('n', formJSON, ModelUnit, 0) }

// Text makes it a string of text, which must be UTF-8.
func (v *Value) Text(text []byte) { v.kind, v.form, v.unit, v.raw = '"', formString, ModelUnit, text }

// IsText reports whether bytes are UTF-8. Most are short and ASCII, of which utf8.Valid takes longer.
func IsText(b []byte) bool {
	var all uint64
	n := len(b)
	if n < 8 {
		for _, c := range b {
			all |= uint64(c)
		}
		return all < utf8.RuneSelf || utf8.Valid(b)
	}
	for i := 0; i < n-8; i += 8 {
		all |= binary.LittleEndian.Uint64(b[i:])
	}
	all |= binary.LittleEndian.Uint64(b[n-8:])
	return all&0x8080_8080_8080_8080 == 0 || utf8.Valid(b)
}

// Digits makes it a decimal number, written out: a number where a number is asked for, else that text.
func (v *Value) Digits(text []byte) { v.kind, v.form, v.unit, v.raw = '"', formPlain, ModelUnit, text }

// Whole makes it a whole number, a time of a unit where it is one.
func (v *Value) Whole(n int64, unit Unit) {
	v.set('0', formWhole, unit, uint64(n))
}

// Unsigned makes it a whole number, which may be above those of int64.
func (v *Value) Unsigned(n uint64) {
	if v.Whole(int64(n), ModelUnit); int64(n) < 0 {
		v.form = formUnsigned
	}
}

// IsNothing reports whether it is not set.
func (v *Value) IsNothing() bool { return v.kind == 0 }

// IsFilled reports whether it is a list with elements.
func (v *Value) IsFilled() bool { return v.form == formList && v.bits>>32 < v.bits&math.MaxUint32 }

// Real makes it a number that need not be whole.
func (v *Value) Real(x float64) { v.set('0', formReal, ModelUnit, math.Float64bits(x)) }

// Bool makes it true or false.
func (v *Value) Bool(b bool) {
	if v.set('f', formJSON, ModelUnit, 0); b {
		v.kind = 't'
	}
}

// Object makes it an object, of which nothing is asked but its members.
func (v *Value) Object() { v.set('{', formString, ModelUnit, 0) }

// isNone reports whether there is no value, or null.
func (v *Value) isNone() bool { return v.kind == 0 || v.kind == 'n' }

// isText reports whether it is text in no quotes.
func (v *Value) isText() bool { return v.form == formString || v.form == formPlain }

// number returns the value of a number of any form, ±Inf where it has none; -0 is 0.
func (v *Value) number() float64 {
	switch v.form {
	case formWhole:
		return float64(int64(v.bits))
	case formUnsigned:
		return float64(v.bits)
	case formReal:
		return math.Float64frombits(v.bits) + 0
	}
	return parseNumber(v.raw)
}

// numeric turns text that is a number into that number, where it comes from a place in which everything is text.
func (v *Value) numeric() {
	if v.form == formPlain && len(v.raw) > 0 && numberEnd(v.raw, 0) == len(v.raw) {
		*v = Value{kind: '0', raw: v.raw}
	}
}

// appendJSON appends the value as JSON, for people to read.
func (s *Slots) appendJSON(dst []byte, v *Value) []byte {
	switch {
	case v.form == formList:
		dst = append(dst, '[')
		for i := range s.list(v) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = s.appendJSON(dst, &s.list(v)[i])
		}
		return append(dst, ']')
	case v.kind == 't' || v.kind == 'f':
		return strconv.AppendBool(dst, v.kind == 't')
	case v.form == formWhole:
		return strconv.AppendInt(dst, int64(v.bits), 10)
	case v.form == formUnsigned:
		return strconv.AppendUint(dst, v.bits, 10)
	case v.form == formReal:
		x := math.Float64frombits(v.bits)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return strconv.AppendQuote(dst, strconv.FormatFloat(x, 'g', -1, 64))
		}
		return strconv.AppendFloat(dst, x, 'g', -1, 64)
	case v.kind == '"' && v.isText():
		dst, _ = jsontext.AppendQuote(dst, v.raw)
		return dst
	case v.isNone():
		return append(dst, "null"...)
	case v.form == formString:
		return append(dst, "{}"...)
	}
	return append(dst, v.raw...)
}

// Slots hold what was asked of a record. Programs of binary formats fill them.
type Slots struct {
	maxList  int // longer lists are cut off behind one more, and too large for every field
	values   []Value
	elements []Value
	over     bool   // there were more elements than all fields may have together
	scratch  []byte // of text that the record does not hold as such
	texts    []textMember
	ofText   []bool // by slot: the value was in an object that was text; nil where none is looked for
	inText   bool   // what is read is an object that was text
}

// reset empties them.
func (s *Slots) reset() {
	for i := range s.values {
		s.values[i].kind, s.values[i].form = 0, formJSON
	}
	clear(s.ofText)
	if len(s.elements) > 0 {
		clear(s.elements)
	}
	s.elements, s.scratch, s.texts, s.inText = s.elements[:0], s.scratch[:0], s.texts[:0], false
	s.over = false
}

// At returns the value of a slot, to be set.
func (s *Slots) At(slot int) *Value { return &s.values[slot] }

// Begin begins a list, whose elements are added next.
func (s *Slots) Begin() (from int) { return len(s.elements) }

// Add adds an element, to be set before the next one, to the list that was begun last, at from. It returns nil where
// the list is too long for every field.
func (s *Slots) Add(from int) *Value {
	if len(s.elements)-from > s.maxList {
		return nil
	}
	if len(s.elements) >= (s.maxList+1)*(len(s.values)+1) { // the same list again and again
		s.over = true
		return nil
	}
	s.elements = append(s.elements, Value{})
	return &s.elements[len(s.elements)-1]
}

// End makes a value the list that was begun at from.
func (s *Slots) End(v *Value, from int) {
	v.set('[', formList, ModelUnit, uint64(from)<<32|uint64(len(s.elements)))
}

// list returns the elements of a formList.
func (s *Slots) list(v *Value) []Value { return s.elements[v.bits>>32 : uint32(v.bits)] }

// Scratch gives room for text that the record does not hold as such: write returns it with that text appended.
func (s *Slots) Scratch(write func(dst []byte) []byte) []byte {
	from := len(s.scratch)
	s.scratch = write(s.scratch)
	return s.scratch[from:len(s.scratch):len(s.scratch)]
}

// Decimal makes a value the number of an unscaled one, in two's complement with its big end first. It reports false for
// one that is too long.
func (s *Slots) Decimal(v *Value, unscaled []byte, scale int) bool {
	from := len(s.scratch)
	text, ok := appendDecimal(s.scratch, unscaled, scale)
	if ok {
		s.scratch = text
		v.Digits(text[from:len(text):len(text)])
	}
	return ok
}

// Base64 makes a value the text of bytes in base64, as JSON has them.
func (s *Slots) Base64(v *Value, b []byte) {
	from := len(s.scratch)
	s.scratch = base64.StdEncoding.AppendEncode(s.scratch, b)
	v.Text(s.scratch[from:len(s.scratch):len(s.scratch)])
}

// Document notes text at a place of which members are asked for: in an envelope of Debezium it may be an object that
// was written as text.
func (s *Slots) Document(text []byte, at *Member) {
	if s.ofText == nil {
		return
	}
	one := textMember{raw: text, isText: true, at: at}
	for i := range s.texts {
		if s.texts[i].at == at { // the last one counts
			s.texts[i] = one
			return
		}
	}
	s.texts = append(s.texts, one)
}
