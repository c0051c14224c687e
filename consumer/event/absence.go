package event

import (
	"math"
	"slices"
)

// Absence finds the optional fields that events lack. It is safe for concurrent use.
type Absence []absentField

type absentField struct {
	name string
	target
}

// Absence returns the finder of the optional fields that an event lacks. It is empty if the schema has no optional
// fields.
func (s *Schema) Absence() Absence {
	var a Absence
	for _, list := range []struct {
		role  role
		names []string
	}{{roleCategorical, s.Categorical}, {roleNumeric, s.Numeric}, {roleMulti, s.Multi}} {
		for i, name := range list.names {
			if slices.Contains(s.Optional, name) {
				a = append(a, absentField{name, target{list.role, i, true}})
			}
		}
	}
	return a
}

// Each calls note with the name of each optional field that an event lacks. An empty list is one that it lacks.
func (a Absence) Each(ev *Event, note func(field string)) {
	for i := range a {
		f, absent := &a[i], false
		switch f.role {
		case roleCategorical:
			absent = ev.Categorical[f.index] == ""
		case roleNumeric:
			absent = math.IsNaN(ev.Numeric[f.index])
		case roleMulti:
			absent = len(ev.Multi[f.index]) == 0
		}
		if absent {
			note(f.name)
		}
	}
}
