package event

import "slices"

// A Joined field has what a table knows of the entity that the event has in another field.
type Joined struct {
	Of      int  // categorical field whose names are the entities
	Numeric bool // whether it is a numeric field
	Multi   bool // whether it is a multi field; neither is a categorical one
	At      int  // index of the field itself, in Categorical, Numeric or Multi
}

// isJoined reports whether a field, by its role and index, is a joined one.
func (s *Schema) isJoined(r role, field int) bool {
	return slices.ContainsFunc(s.Joined, func(j Joined) bool {
		return j.At == field && j.Numeric == (r == roleNumeric) && j.Multi == (r == roleMulti)
	})
}

// IsGivenName reports whether values give a categorical field, or a multi field, by its index: it is neither derived
// nor joined.
func (s *Schema) IsGivenName(field int, multi bool) bool {
	r := roleCategorical
	if multi {
		r = roleMulti
	}
	return !s.IsDerived(field, multi) && !s.isJoined(r, field)
}

// IsGivenNumber reports whether values give a numeric field, by its index.
func (s *Schema) IsGivenNumber(field int) bool { return !s.isJoined(roleNumeric, field) }
