package event

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

const (
	maxTime   = 253402300799999 // the last millisecond of the year 9999
	maxWeight = 1e6
	// smallestNormal is the least magnitude that float64 holds in full precision.
	smallestNormal = 0x1p-1022
)

// scalar stores a string, number, true or false.
func (p *parse) scalar(t target, v *Value) (r Reason) {
	ev := p.ev
	switch t.role {
	case roleLabel:
		return p.label(v)
	case roleTime:
		ev.Time, r = p.time(v)
	case roleWeight:
		ev.Weight, r = p.number(v)
		if r == "" && !(ev.Weight > 0 && ev.Weight <= maxWeight) {
			r = WeightInvalid
		}
	case roleIdentity:
		ev.Identity, r = p.id(v)
	case roleCategorical:
		ev.Categorical[t.index], r = p.id(v)
	case roleNumeric:
		ev.Numeric[t.index], r = p.number(v)
	case roleMulti:
		r = WrongType
	}
	return r
}

func (p *parse) label(v *Value) (r Reason) {
	s, ev := &p.d.schema, p.ev
	switch s.Task {
	case Multiclass:
		id, r := p.id(v)
		if r == "" {
			r = p.known(id)
		}
		ev.Classes = append(ev.Classes, id)
		return r
	case Multilabel:
		return WrongType
	}
	if s.Choices {
		return p.kindOfChoice(v)
	}
	if s.Task == Binary && s.Positive != "" {
		return p.named(v)
	}
	if s.Task == Binary && (v.kind == 't' || v.kind == 'f') {
		if v.kind == 't' {
			ev.Label = 1
		}
		return ""
	}
	if ev.Label, r = p.number(v); r != "" {
		return r
	}
	if !s.AcceptsLabel(ev.Label) {
		return LabelRange
	}
	return ""
}

// kindOfChoice reads the kind of a choice, which decides what it weighs.
func (p *parse) kindOfChoice(v *Value) Reason {
	name, r := p.id(v)
	if r != "" {
		return r
	}
	weight, known := p.d.schema.Kinds[name]
	switch {
	case !known:
		return LabelUnknown
	case weight == 0:
		return Filtered
	}
	p.d.kindWeight = weight
	return ""
}

// named reads a binary label that is a name.
func (p *parse) named(v *Value) (r Reason) {
	name := "false" // true and false are names, too
	switch v.kind {
	case 't':
		name = "true"
	case 'f':
	default:
		if name, r = p.id(v); r != "" {
			return r
		}
	}
	label, ok := p.d.schema.NamedLabel(name)
	if !ok {
		return LabelUnknown
	}
	p.ev.Label = label
	return ""
}

func (p *parse) known(class string) Reason {
	if len(p.d.classes) > 0 && !p.d.classes[class] {
		return LabelUnknown
	}
	return ""
}

// id reads a string or a whole number.
func (p *parse) id(v *Value) (string, Reason) {
	raw := v.raw
	switch {
	case v.kind == '"':
		raw = p.text(v)
	case v.kind == '0' && v.form == formWhole:
		p.d.scratch = strconv.AppendInt(p.d.scratch[:0], int64(v.bits), 10)
		raw = p.d.scratch
	case v.kind == '0' && v.form == formUnsigned:
		p.d.scratch = strconv.AppendUint(p.d.scratch[:0], v.bits, 10)
		raw = p.d.scratch
	case v.kind == '0' && v.form == formJSON && !bytes.ContainsAny(raw, ".eE"):
		if string(raw) == "-0" {
			raw = raw[1:]
		}
	case p.d.schema.Flags && v.kind == 't':
		return "true", ""
	case p.d.schema.Flags && v.kind == 'f':
		return "false", ""
	default:
		return "", WrongType
	}
	switch {
	case len(raw) == 0:
		return "", IDEmpty
	case len(raw) > p.d.limits.MaxIDBytes:
		return "", IDTooLong
	}
	if p.borrows || p.borrowsText && v.form == formString {
		return unsafe.String(unsafe.SliceData(raw), len(raw)), ""
	}
	return p.d.intern(raw), ""
}

// number reads a finite number of at most MaxNumber.
func (p *parse) number(v *Value) (float64, Reason) {
	switch v.kind {
	case '"':
		if spellsNonFinite(p.text(v)) {
			return 0, NotFinite
		}
		return 0, WrongType
	case '0':
	default:
		return 0, WrongType
	}
	x, r := v.number(), Reason("")
	if v.form == formReal && (math.IsNaN(x) || math.IsInf(x, 0)) {
		return 0, NotFinite
	}
	if size := math.Abs(x); size > p.d.limits.MaxNumber || size != 0 && size < smallestNormal {
		r = NumberRange
	}
	return x, r
}

func (p *parse) time(v *Value) (int64, Reason) {
	var ms float64
	switch v.kind {
	case '0':
		unit := v.unit
		if unit == ModelUnit {
			unit = p.d.unit
		}
		if unit == Milliseconds && v.form == formWhole && v.bits <= maxTime {
			return p.skewed(int64(v.bits)), ""
		}
		ms = unit.milliseconds(v.number())
	case '"':
		t, err := time.Parse(time.RFC3339, string(p.text(v)))
		if err != nil {
			return 0, TimeInvalid
		}
		ms = float64(t.UnixMilli())
	default:
		return 0, WrongType
	}
	if !(ms >= 0 && ms <= maxTime) {
		return 0, TimeInvalid
	}
	return p.skewed(int64(math.Round(ms))), ""
}

// skewed returns a time, or that of the record for one further ahead of it than a clock may be.
func (p *parse) skewed(at int64) int64 {
	if p.recordTime >= 0 && at-p.recordTime > p.d.limits.MaxFutureSkew.Milliseconds() {
		return p.recordTime
	}
	return at
}

// parseNumber returns the value of a JSON number, ±Inf if it has none; -0 is 0.
func parseNumber(raw []byte) float64 {
	digits := raw
	negative := raw[0] == '-'
	if negative {
		digits = raw[1:]
	}
	if len(digits) <= 15 { // whole numbers of 15 digits are exact in float64
		var n int64
		whole := true
		for _, c := range digits {
			if c < '0' || c > '9' {
				whole = false
				break
			}
			n = n*10 + int64(c-'0')
		}
		if whole {
			if negative {
				n = -n
			}
			return float64(n)
		}
	}
	x, _ := strconv.ParseFloat(string(raw), 64) // ±Inf when out of range, and no other error: raw was validated
	return x + 0                                // -0 + 0 is 0
}

// spellsNonFinite knows what the common JSON writers put in place of NaN and the infinities.
func spellsNonFinite(s []byte) bool {
	if len(s) > len("-infinity") {
		return false
	}
	switch strings.TrimLeft(strings.ToLower(string(s)), "+-") {
	case "nan", "inf", "infinity":
		return true
	}
	return false
}
