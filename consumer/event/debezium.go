package event

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/bits"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Debezium writes values that JSON has no type for in other types. What they mean is read here, where the envelope is
// Debezium's:
//
//   - DECIMAL and NUMERIC, by default: the unscaled number in two's complement, big end first, as base64. The scale is in the
//     schema around the payload (connect.go), else in the mapping (as: decimal:2).
//   - NUMERIC without a scale: {"scale": 2, "value": "AcI="} (io.debezium.data.VariableScaleDecimal).
//   - rows of MongoDB: after is text, an object of Extended JSON, such as {"rating": {"$numberInt": "4"}}.

// maxUnscaledBytes is the longest unscaled number that is read as a DECIMAL: 77 digits, of which databases have at most
// 65 (MySQL) or 38 (Oracle, SQL Server). MaxDecimalScale bounds the zeros that its text may have, and negative scales.
const (
	maxUnscaledBytes = 32
	MaxDecimalScale  = 127
)

// noScale says that a mapping gives no scale.
const noScale = MaxDecimalScale + 1

// decimalText appends the decimal of an unscaled number in base64. It reports false for what is none.
func decimalText(dst, encoded []byte, scale int) ([]byte, bool) {
	var buffer [maxUnscaledBytes + 3]byte
	if len(encoded) == 0 || base64.StdEncoding.DecodedLen(len(encoded)) > len(buffer) || scale < -MaxDecimalScale ||
		scale > MaxDecimalScale {
		return dst, false
	}
	n, err := base64.StdEncoding.Decode(buffer[:], encoded)
	if err != nil {
		return dst, false
	}
	return appendDecimal(dst, buffer[:n], scale)
}

// appendDecimal appends the decimal of an unscaled number in two's complement. It reports false for what is none.
func appendDecimal(dst, number []byte, scale int) ([]byte, bool) {
	if len(number) == 0 || len(number) > maxUnscaledBytes || scale < -MaxDecimalScale || scale > MaxDecimalScale {
		return dst, false
	}
	var limbs [maxUnscaledBytes / 8]uint64 // the magnitude, its little end first
	negative := number[0]&0x80 != 0
	for i := range maxUnscaledBytes {
		b := byte(0)
		if at := len(number) - 1 - i; at >= 0 {
			b = number[at]
		} else if negative {
			b = 0xff
		}
		limbs[i/8] |= uint64(b) << (8 * (i % 8))
	}
	if negative {
		carry := uint64(1)
		for i := range limbs {
			limbs[i], carry = bits.Add64(^limbs[i], 0, carry)
		}
		dst = append(dst, '-')
	}
	var digits [maxDecimalDigits]byte
	first := len(digits)
	for limbs != [len(limbs)]uint64{} {
		var rest uint64
		for i := len(limbs) - 1; i >= 0; i-- {
			limbs[i], rest = bits.Div64(rest, limbs[i], 10)
		}
		first--
		digits[first] = '0' + byte(rest)
	}
	text := digits[first:]
	switch {
	case len(text) == 0 && scale <= 0:
		return append(dst, '0'), true
	case scale <= 0:
		dst = append(dst, text...)
		for range -scale {
			dst = append(dst, '0')
		}
		return dst, true
	}
	whole := len(text) - scale
	if whole <= 0 {
		dst = append(dst, '0', '.')
		for range -whole {
			dst = append(dst, '0')
		}
		return append(dst, text...), true
	}
	return append(append(append(dst, text[:whole]...), '.'), text[whole:]...), true
}

// maxDecimalDigits are those of the longest unscaled number, with one to spare.
const maxDecimalDigits = 80

// meant returns what a value in a Debezium envelope means.
func (d *Mapped) meant(p *place, v Value) Value {
	switch {
	case v.kind == '{' && v.form == formJSON && d.slots.ofText[p.slot]:
		return d.extended(v)
	case v.kind == '{' && v.form == formJSON:
		var variable struct {
			Scale *int
			Value []byte // which is base64
		}
		if json.Unmarshal(v.raw, &variable) != nil || variable.Scale == nil {
			return v
		}
		encoded := base64.StdEncoding.AppendEncode(nil, variable.Value)
		if text, ok := decimalText(nil, encoded, *variable.Scale); ok {
			return plainValue(text)
		}
		return v
	case v.kind != '"' || v.form == formPlain:
		return v
	}
	if p.scale == noScale {
		return v
	}
	if text, ok := decimalText(nil, d.textOf(&v), p.scale); ok {
		return plainValue(text)
	}
	return v
}

// extended returns what an object of MongoDB's Extended JSON v2 means, if it is one: an id, a number, or a time.
func (d *Mapped) extended(v Value) Value {
	var object map[string]json.RawMessage
	if v.kind != '{' || json.Unmarshal(v.raw, &object) != nil || len(object) != 1 {
		return v
	}
	for name, inner := range object {
		var text string
		isString := json.Unmarshal(inner, &text) == nil && inner[0] == '"'
		switch {
		case name == "$date" && isString: // as RFC 3339 has it
			return jsonValue(inner)
		case name == "$date":
			ms := d.extended(jsonValue(inner))
			if at, err := strconv.ParseInt(string(ms.raw), 10, 64); err == nil {
				ms.Whole(stampIn(at, d.json.schema.TimeUnit), ModelUnit)
				return ms
			}
		case isString && (name == "$oid" || name == "$numberInt" || name == "$numberLong" || name == "$numberDouble" ||
			name == "$numberDecimal" || name == "$symbol"):
			return plainValue([]byte(text))
		}
	}
	return v
}

// readTexts reads the objects that were written as text where members of theirs are asked for.
func (d *Mapped) readTexts() *Rejection {
	for _, next := range d.slots.texts {
		text := next.raw
		if !next.isText {
			text, _ = jsontext.AppendUnquote(nil, next.raw) // it was read as JSON
		}
		if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
			continue // other text has no members
		}
		d.slots.inText = true
		rejection := d.read(text, next.at)
		if d.slots.inText = false; rejection != nil {
			return rejection
		}
	}
	return nil
}

// textMember is a text where an object is asked for.
type textMember struct {
	raw    []byte // a JSON string
	isText bool   // raw is the text itself
	at     *Member
}

// isConnectNull reports whether a value is how Kafka Connect's JSON converter writes null with its schema: nothing in
// both parts.
func isConnectNull(value []byte) bool {
	var envelope map[string]json.RawMessage
	if len(value) > maxConnectNull || json.Unmarshal(value, &envelope) != nil || len(envelope) != 2 {
		return false
	}
	return string(envelope["schema"]) == "null" && string(envelope["payload"]) == "null"
}

// maxConnectNull is longer than such a null, with white space.
const maxConnectNull = 100

// isUnscaled reports whether a value may be a DECIMAL whose scale is not known.
func (d *Mapped) isUnscaled(v *Value) bool {
	if v.kind != '"' || v.form == formPlain {
		return false
	}
	_, ok := decimalText(nil, d.textOf(v), 0)
	return ok
}
