package event

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// whole says what is expected and what came where the reason is about a value as a whole.
var whole = map[Reason][2]string{
	NullValue:    {"a value", "none"},
	NotUTF8:      {"UTF-8", "other bytes"},
	NotJSON:      {"JSON", "something else"},
	DuplicateKey: {"each name once in an object", "a name twice"},
	TrailingData: {"one JSON object", "more behind it"},
	TimeInvalid:  {"a record with a time stamp from 1970 to 9999", "one without"},
}

// rejection returns the rejection of a value as a whole.
func (d *JSON) rejection(r Reason) *Rejection {
	out := &Rejection{Reason: r, Expected: whole[r][0], Got: whole[r][1]}
	switch r {
	case TooLarge:
		out.Expected, out.Got = fmt.Sprintf("at most %d bytes, and %d names in an object", d.limits.MaxEventBytes,
			d.names), "more"
	case TooDeep:
		out.Expected, out.Got = fmt.Sprintf("at most %d levels of nesting", d.limits.MaxDepth), "more"
	}
	return out
}

// NoObject is the rejection of a JSON value of another kind than an object.
func NoObject(kind jsontext.Kind) *Rejection {
	return &Rejection{Reason: NotObject, Expected: "an object", Got: kindName(kind)}
}

// rejection returns the rejection of the first field that is not as it should be.
func (p *parse) rejection() *Rejection {
	out := &Rejection{Reason: p.first, Field: p.field.name, Expected: p.d.expected(p.role, p.first), Got: p.got()}
	if p.role == roleVector && p.first == WrongType {
		out.Expected = fmt.Sprintf("a list of %d numbers", p.d.schema.dimOf(p.field))
		if p.kind == '[' && !p.isElement {
			out.Got = fmt.Sprintf("a list of %d", p.length)
		}
	}
	return out
}

// missing returns the rejection for the first field, in the order of the schema, that should be there and is not.
func (p *parse) missing() *Rejection {
	out := &Rejection{Reason: MissingField, Got: "nothing"}
	for _, f := range p.d.order {
		i := slices.IndexFunc(f.targets, func(t target) bool { return p.d.needs(t) })
		if i < 0 || f.turn == p.d.turn {
			continue
		}
		out.Field, out.Expected = f.name, p.d.expected(f.targets[i].role, MissingField)
		if f.null == p.d.turn {
			out.Got = kindName('n')
		}
		break
	}
	return out
}

// expected says what a field may be, as far as the reason is about that.
func (d *JSON) expected(as role, r Reason) string {
	const id, list, number = "a string or a whole number", "a list of strings or whole numbers", "a number"
	s := &d.schema
	switch r {
	case NumberRange:
		return fmt.Sprintf("a number of magnitude up to %g, and not a subnormal one", d.limits.MaxNumber)
	case Filtered:
		return "a kind of event whose weight is not 0"
	case LabelUnknown:
		if s.Choices {
			return "one of the kinds of schema.event_weights"
		}
		if s.Task == Binary {
			return s.ExpectedLabel()
		}
		return "one of the classes of the schema"
	case WeightInvalid:
		return fmt.Sprintf("a number above 0, at most %d", int(maxWeight))
	case IDEmpty:
		return "a string that is not empty"
	case IDTooLong:
		return fmt.Sprintf("at most %d bytes", d.limits.MaxIDBytes)
	case TooLarge:
		return fmt.Sprintf("a list of at most %d", d.limits.MaxMulti)
	}
	switch as {
	case roleTime:
		unit := s.TimeUnit
		if unit == "" {
			unit = "ms"
		}
		return fmt.Sprintf("a time from 1970 to 9999, a number of %s or an RFC 3339 string", unit)
	case roleIdentity, roleCategorical:
		return id
	case roleMulti:
		return list
	case roleLabel:
		if s.Choices {
			return id
		}
		switch s.Task {
		case Multiclass:
			return id
		case Multilabel:
			return list
		case Binary:
			if s.Positive == "" {
				return "0, 1, false or true"
			}
		}
		return s.ExpectedLabel()
	}
	return number
}

// ExpectedLabel says in words which numbers AcceptsLabel accepts, or NamedLabel which names.
func (s *Schema) ExpectedLabel() string {
	switch {
	case s.Task == Binary && s.Negative != "":
		return fmt.Sprintf("%s or %s", s.Positive, s.Negative)
	case s.Task == Binary && s.Positive != "":
		return fmt.Sprintf("%s or another name", s.Positive)
	case s.Task == Binary:
		return "0 or 1"
	case s.Task == Ordinal:
		return fmt.Sprintf("a whole number from 1 to %d", s.Levels)
	case s.LabelMin != 0 || s.LabelMax != 0:
		return fmt.Sprintf("a number from %g to %g", s.LabelMin, s.LabelMax)
	}
	return fmt.Sprintf("a number from %g to %g", -MaxLabel, MaxLabel)
}

// got says what kind of value the first bad field has.
func (p *parse) got() string {
	switch p.first {
	case NotFinite:
		return "a string that spells NaN or an infinity"
	case NumberRange, LabelRange, WeightInvalid:
		return "another number"
	case LabelUnknown, Filtered:
		return "another class"
	case TimeInvalid:
		return "another " + kindNoun(p.kind)
	case IDEmpty:
		return "an empty one"
	case IDTooLong, TooLarge:
		return "more"
	}
	name := kindName(p.kind)
	isList := p.role == roleMulti || p.role == roleLabel && p.d.schema.Task == Multilabel
	if p.kind == '0' && (p.isElement || !isList) { // where an id may be a whole number
		name = "a number with a point or an exponent"
	}
	if p.isElement {
		return "a list with " + name
	}
	return name
}

func kindNoun(kind jsontext.Kind) string {
	switch kind {
	case '"':
		return "string"
	case '0':
		return "number"
	}
	return "value"
}

// kindName names a kind of JSON value.
func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '[':
		return "a list"
	case '{':
		return "an object"
	}
	return "a " + kindNoun(kind)
}

// Causes lists every cause for which a value of the schema can be rejected: those about values as a whole, then those
// of each field, in the order of the schema.
func (s *Schema) Causes() []Cause {
	var list []Cause
	for _, r := range []Reason{NullValue, TooLarge, NotUTF8, NotJSON, NotObject, TooDeep, DuplicateKey, TrailingData} {
		list = append(list, Cause{Reason: r})
	}
	if s.Time == "" {
		list = append(list, Cause{Reason: TimeInvalid})
	}
	seen := make(map[Cause]bool) // a field may have two roles
	add := func(field string, reasons ...Reason) {
		for _, r := range reasons {
			if c := (Cause{r, field}); field != "" && !seen[c] {
				seen[c] = true
				list = append(list, c)
			}
		}
	}
	id, number := []Reason{WrongType, IDEmpty, IDTooLong}, []Reason{WrongType, NotFinite, NumberRange}
	needed := append(slices.Clone(id), MissingField)
	add(s.Label, MissingField)
	switch {
	case s.Task.HasClasses():
		add(s.Label, id...)
		if len(s.Classes) > 0 {
			add(s.Label, LabelUnknown)
		}
		if s.Task == Multilabel {
			add(s.Label, TooLarge)
		}
	case s.Choices:
		add(s.Label, append(slices.Clone(id), LabelUnknown, Filtered)...)
	case s.Task == Binary && s.Positive != "":
		add(s.Label, id...)
		if s.Negative != "" {
			add(s.Label, LabelUnknown)
		}
	default:
		add(s.Label, append(slices.Clone(number), LabelRange)...)
	}
	add(s.Time, WrongType, TimeInvalid, MissingField)
	add(s.Identity, needed...)
	add(s.Weight, append(slices.Clone(number), WeightInvalid)...)
	feature := func(name string, reasons []Reason) {
		add(name, reasons...)
		if !slices.Contains(s.Optional, name) {
			add(name, MissingField)
		}
	}
	for i, f := range s.Categorical[:s.NumGiven()] {
		if s.IsGivenName(i, false) {
			feature(f, id)
		}
	}
	for i, f := range s.Numeric {
		if s.IsGivenNumber(i) {
			feature(f, number)
		}
	}
	for i, f := range s.Multi {
		if s.IsGivenName(i, true) {
			feature(f, append(slices.Clone(id), TooLarge))
		}
	}
	for i := range s.Vectors {
		feature(s.Vectors[i].Name, number)
	}
	return list
}
