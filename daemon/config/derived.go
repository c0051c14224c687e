package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// Derived is a field whose value follows from the events before; see event.Derived. Its name is among the last of
// Schema.Categorical, or of Schema.Multi where it is a list, and in Schema.Optional.
type Derived struct {
	Name  string `json:"name"`            // of the field, which no event has
	Kind  string `json:"kind"`            // previous_label, time_bin, age, count or last
	Of    string `json:"of,omitempty"`    // categorical field whose names are the entities; not of a time_bin
	Field string `json:"field,omitempty"` // last: categorical field whose names are kept; empty is the other of two
	Unit  string `json:"unit,omitempty"`  // time_bin: hour, weekday, day or month; age: second, minute, hour, day or week
	K     int    `json:"k,omitempty"`     // last: events; previous_label of a regression: bins from label_min to label_max
}

// The largest K of derived fields.
const (
	maxLast = 100
	maxBins = 1000
)

// isMulti reports whether a derived field of the schema is a list of names.
func (s *Schema) isMulti(d *Derived) bool {
	k := event.KindOf(event.Kind(d.Kind))
	return k != nil && k.HasField || d.Kind == string(event.PreviousLabel) && s.Task == string(event.Multilabel)
}

// takeDerived adds the names of derived fields to the lists that have all fields. Of two categorical fields, the one
// that is not the entity is that of last names.
func (s *Schema) takeDerived() {
	given := s.Categorical
	for i := range s.Derived {
		d := &s.Derived[i]
		if at := slices.Index(given, d.Of); d.Field == "" && len(given) == 2 && at >= 0 &&
			d.Kind == string(event.Last) {
			d.Field = given[1-at]
		}
		if s.isMulti(d) {
			s.Multi = append(slices.Clip(s.Multi), d.Name)
		} else {
			s.Categorical = append(slices.Clip(s.Categorical), d.Name)
		}
		if d.Name != "" {
			s.Optional = append(s.Optional, d.Name)
		}
	}
	slices.Sort(s.Optional)
}

// GivenFields returns the categorical and the multi fields that events bring: without those that are derived, or joined
// behind them.
func (s *Schema) GivenFields() (categorical, multi []string) {
	lists := 0
	for i := range s.Derived {
		if s.isMulti(&s.Derived[i]) {
			lists++
		}
	}
	names := len(s.Derived) - lists + s.numJoined(joinedCategorical)
	lists += s.numJoined(joinedMulti)
	return slices.Clip(
		s.Categorical[:max(0, len(s.Categorical)-names)]), slices.Clip(s.Multi[:max(0, len(s.Multi)-lists)])
}

// derivedFields returns the derived fields in the decoder's terms.
func (s *Schema) derivedFields() []event.Derived {
	var out []event.Derived
	for i := range s.Derived {
		d := &s.Derived[i]
		e := event.Derived{Kind: event.Kind(d.Kind), Of: slices.Index(s.Categorical, d.Of), Unit: d.Unit, K: d.K,
			Field: slices.Index(s.Categorical, d.Field), Multi: s.isMulti(d)}
		if e.At = slices.Index(s.Categorical, d.Name); e.Multi {
			e.At = slices.Index(s.Multi, d.Name)
		}
		out = append(out, e)
	}
	return out
}

// derived checks the derived fields, each of which has the keys of its kind and no other.
func (v *validator) derived(s *Schema, path string, claim func(key, field string)) {
	given, _ := s.GivenFields()
	for i := range s.Derived {
		d, at := &s.Derived[i], fmt.Sprintf("%s.derived[%d]", path, i)
		claim(at+".name", d.Name)
		kind := event.KindOf(event.Kind(d.Kind))
		if kind == nil {
			v.oneOf(at+".kind", d.Kind, event.KindNames()...)
			continue
		}
		if strings.Contains(d.Name, event.CrossSign) {
			v.bad(at+".name", d.Name, "a name without "+event.CrossSign+", which is of crosses")
		}
		if !kind.OfEntity {
			v.unused(at+".of", d.Of, d.Of != "", kind.Name)
		} else if !slices.Contains(given, d.Of) {
			v.oneOfFields(at+".of", d.Of, given)
		}
		if len(kind.Units) > 0 {
			v.oneOf(at+".unit", d.Unit, kind.Units...)
		} else {
			v.unused(at+".unit", d.Unit, d.Unit != "", kind.Name)
		}
		if kind.NeedsTime && s.Time == "" {
			v.bad(path+".time", s.Time,
				fmt.Sprintf("the field with the time of events: derived field %q is of that", d.Name))
		}
		switch {
		case !kind.HasField:
			v.unused(at+".field", d.Field, d.Field != "", kind.Name)
		case !slices.Contains(given, d.Field):
			v.oneOfFields(at+".field", d.Field, given)
		}
		v.derivedNumber(s, d, at)
	}
}

// derivedNumber checks k of a derived field.
func (v *validator) derivedNumber(s *Schema, d *Derived, at string) {
	kind := event.Kind(d.Kind)
	switch {
	case kind == event.Last:
		v.whole(at+".k", d.K, 1, maxLast)
	case kind == event.PreviousLabel && s.Task == string(event.Regression):
		if !(s.LabelMin < s.LabelMax) {
			v.bad(at+".kind", d.Kind, "schema.label_min and label_max with it, "+
				"between which the labels of a regression are put into k bins")
		}
		v.whole(at+".k", d.K, 2, maxBins)
	default:
		v.unused(at+".k", d.K, d.K != 0, kind)
	}
}

// unused refuses a key that a kind of derived field does not have.
func (v *validator) unused(path string, value any, isSet bool, kind event.Kind) {
	if isSet {
		v.bad(path, value, fmt.Sprintf("no value: a derived field of kind %s has none, leave it out", kind))
	}
}
