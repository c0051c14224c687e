package event

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

// A Derived field has, in place of what a value says there, what follows from the time of the event and from the events
// before it of the same entity, never from its own label. Where nothing follows the event lacks the field, which is an
// optional one.
type Derived struct {
	Kind  Kind
	Of    int    // categorical field whose names are the entities; -1 for a TimeBin
	Unit  string // of TimeBins, or a key of AgeUnits
	K     int    // Last: events; PreviousLabel of a regression: bins between LabelMin and LabelMax
	Field int    // Last: a categorical field
	Multi bool   // whether it is a multi field: Last, and PreviousLabel of a multilabel task
	At    int    // index of the field itself, in Categorical or Multi
}

// A Past is what derived fields need of the events of one entity so far.
type Past struct {
	First, Time int64 // when its first and its last event were, in milliseconds
	Events      int64
	Label       []string // of the last one, as PreviousLabel has it
	// for each Last field of the entity, in the order of the schema, the names of its last K events, newest first
	Last [][]string
}

// IsDerived reports whether a categorical field, or a multi field, by its index, is a derived one.
func (s *Schema) IsDerived(field int, multi bool) bool {
	return slices.ContainsFunc(s.Derived, func(d Derived) bool { return d.At == field && d.Multi == multi })
}

// Entities returns the categorical fields of whose names Derive needs the past, in the order of the derived fields.
func (s *Schema) Entities() (fields []int) {
	for _, d := range s.Derived {
		if d.Of >= 0 && !slices.Contains(fields, d.Of) {
			fields = append(fields, d.Of)
		}
	}
	return fields
}

// Derive fills the derived fields of an event, and the crosses they are part of. past returns the Past of the name
// that the event has in a field of Entities. Nil means that this is the first event of the entity.
func (s *Schema) Derive(ev *Event, past func(field int) *Past) {
	lists := make([]int, len(s.Categorical)) // of names so far, by entity
	one := make([]string, 0, 1)
	for i := range s.Derived {
		d := &s.Derived[i]
		k := KindOf(d.Kind)
		var p *Past
		if d.Of >= 0 && ev.Categorical[d.Of] != "" {
			if p = past(d.Of); p == nil {
				p = &Past{First: ev.Time}
			}
		}
		list := 0
		if k.HasField {
			list = lists[d.Of]
			lists[d.Of]++
		}
		names := one
		if d.Multi {
			names = emptied(ev.Multi[d.At])
		}
		if !k.OfEntity || p != nil {
			names = k.names(names, d, ev, p, list)
		}
		switch {
		case d.Multi:
			ev.Multi[d.At] = names
		case len(names) > 0:
			ev.Categorical[d.At] = names[0]
		default:
			ev.Categorical[d.At] = ""
		}
	}
	s.Complete(ev)
}

// Underive empties the derived fields of an event, and the crosses they are part of.
func (s *Schema) Underive(ev *Event) {
	for _, d := range s.Derived {
		if d.Multi {
			ev.Multi[d.At] = emptied(ev.Multi[d.At])
		} else {
			ev.Categorical[d.At] = ""
		}
	}
	s.Complete(ev)
}

// Note adds an event to the past of the entity that it has in a field.
func (s *Schema) Note(p *Past, field int, ev *Event) {
	if p.Events == 0 {
		p.First = ev.Time
	}
	p.Time = ev.Time
	p.Events++
	list := 0
	for i := range s.Derived {
		d := &s.Derived[i]
		if d.Of != field {
			continue
		}
		k := KindOf(d.Kind)
		if k.note != nil {
			k.note(s, d, p, ev, list)
		}
		if k.HasField {
			list++
		}
	}
}

// ForgetNames takes the names for which is reports true out of the lists of names.
func (p *Past) ForgetNames(is func(name string) bool) {
	for i := range p.Last {
		p.Last[i] = slices.DeleteFunc(p.Last[i], is)
	}
}

// labelNames returns the label of an event as a list of names.
func (s *Schema) labelNames(ev *Event, bins int) []string {
	switch {
	case s.Task.HasClasses():
		return slices.Clone(ev.Classes)
	case s.Task == Regression:
		at := float64(bins) * ((ev.Label - s.LabelMin) / (s.LabelMax - s.LabelMin))
		return []string{strconv.Itoa(int(min(max(at, 0), float64(bins-1))))}
	}
	return []string{strconv.Itoa(int(ev.Label))}
}

// LogBin returns the name of the bin of a whole number from 0 on: 0, 1, 2-3, 4-7 and on by powers of two.
func LogBin(n int64) string {
	if n < 2 {
		return strconv.FormatInt(max(0, n), 10)
	}
	low := int64(1) << (bits.Len64(uint64(n)) - 1)
	return fmt.Sprintf("%d-%d", low, low+(low-1))
}

// appendDistinct appends the names of a list to dst, each that is not in it yet.
func appendDistinct(dst, list []string) []string {
	for _, name := range list {
		if !slices.Contains(dst, name) {
			dst = append(dst, name)
		}
	}
	return dst
}
