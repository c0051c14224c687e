package event

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxTime   = 253402300799999 // the last millisecond of the year 9999
	maxWeight = 1e6
	// smallestNormal is the least magnitude that float64 holds in full precision.
	smallestNormal = 0x1p-1022
)

// scalar stores a string, number, true or false.
func (p *parse) scalar(t target, kind jsontext.Kind, raw []byte) (r Reason) {
	ev := p.ev
	switch t.role {
	case roleLabel:
		return p.label(kind, raw)
	case roleTime:
		ev.Time, r = p.time(kind, raw)
	case roleWeight:
		ev.Weight, r = p.number(kind, raw)
		if r == "" && !(ev.Weight > 0 && ev.Weight <= maxWeight) {
			r = WeightInvalid
		}
	case roleIdentity:
		ev.Identity, r = p.id(kind, raw)
	case roleCategorical:
		ev.Categorical[t.index], r = p.id(kind, raw)
	case roleNumeric:
		ev.Numeric[t.index], r = p.number(kind, raw)
	case roleMulti:
		r = WrongType
	}
	return r
}

func (p *parse) label(kind jsontext.Kind, raw []byte) (r Reason) {
	s, ev := &p.d.schema, p.ev
	switch s.Task {
	case Multiclass:
		id, r := p.id(kind, raw)
		if r == "" {
			r = p.known(id)
		}
		ev.Classes = append(ev.Classes, id)
		return r
	case Multilabel:
		return WrongType
	}
	if s.Choices {
		return p.kindOfChoice(kind, raw)
	}
	if s.Task == Binary && s.Positive != "" {
		return p.named(kind, raw)
	}
	if s.Task == Binary && (kind == 't' || kind == 'f') {
		if kind == 't' {
			ev.Label = 1
		}
		return ""
	}
	if ev.Label, r = p.number(kind, raw); r != "" {
		return r
	}
	if !s.AcceptsLabel(ev.Label) {
		return LabelRange
	}
	return ""
}

// kindOfChoice reads the kind of a choice, which decides what it weighs.
func (p *parse) kindOfChoice(kind jsontext.Kind, raw []byte) Reason {
	name, r := p.id(kind, raw)
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
func (p *parse) named(kind jsontext.Kind, raw []byte) (r Reason) {
	name := string(raw) // true and false are names, too
	if kind != 't' && kind != 'f' {
		if name, r = p.id(kind, raw); r != "" {
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
func (p *parse) id(kind jsontext.Kind, raw []byte) (string, Reason) {
	switch kind {
	case '"':
		raw = p.unquote(raw)
	case '0':
		if bytes.ContainsAny(raw, ".eE") {
			return "", WrongType
		}
		if string(raw) == "-0" {
			raw = raw[1:]
		}
	default:
		return "", WrongType
	}
	switch {
	case len(raw) == 0:
		return "", IDEmpty
	case len(raw) > p.d.limits.MaxIDBytes:
		return "", IDTooLong
	}
	return p.d.intern(raw), ""
}

// number reads a finite number of at most MaxNumber.
func (p *parse) number(kind jsontext.Kind, raw []byte) (float64, Reason) {
	switch kind {
	case '"':
		if spellsNonFinite(p.unquote(raw)) {
			return 0, NotFinite
		}
		return 0, WrongType
	case '0':
	default:
		return 0, WrongType
	}
	x, r := parseNumber(raw), Reason("")
	if size := math.Abs(x); size > p.d.limits.MaxNumber || size != 0 && size < smallestNormal {
		r = NumberRange
	}
	return x, r
}

func (p *parse) time(kind jsontext.Kind, raw []byte) (int64, Reason) {
	var ms float64
	switch kind {
	case '0':
		ms = parseNumber(raw)
		switch p.d.schema.TimeUnit {
		case "s":
			ms *= 1000
		case "us":
			ms /= 1000
		case "ns":
			ms /= 1e6
		}
	case '"':
		t, err := time.Parse(time.RFC3339, string(p.unquote(raw)))
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
	at := int64(math.Round(ms))
	if p.recordTime >= 0 && at-p.recordTime > p.d.limits.MaxFutureSkew.Milliseconds() {
		at = p.recordTime
	}
	return at, ""
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
