package event

import "strings"

// CrossSign joins the names of the fields of a cross, and their values: user×item has the name u1×i2. It is the sign
// of package snapshot, so that consumers compute the same names. Names are not escaped: two crosses of names that
// contain the sign may get the same name.
const CrossSign = "×"

// A Cross is a categorical field that joins the names of other fields of the event. Each combination that occurs gets
// a separate weight. An event that lacks one of them lacks the cross. Its parts are indices of Schema.Categorical,
// two or more.
type Cross []int

// CrossName returns the name of the cross of fields, and the name that it has where they have values.
func CrossName(parts ...string) string { return strings.Join(parts, CrossSign) }

// NumGiven returns how many of the categorical fields are those of values; the others are crosses.
func (s *Schema) NumGiven() int { return len(s.Categorical) - len(s.Cross) }

// IsCross reports whether a categorical field, by its index, is a cross. It is false for the fields behind those.
func (s *Schema) IsCross(field int) bool { return field >= s.NumGiven() && field < len(s.Categorical) }

// Complete fills the crosses of an event that has the fields of a value.
func (s *Schema) Complete(ev *Event) {
	for len(ev.Categorical) < len(s.Categorical) {
		ev.Categorical = append(ev.Categorical, "")
	}
	s.crosses(ev, nil, func(name []byte) string { return string(name) })
}

// crosses stores the crosses of an event, whose names it makes in joined, which is returned.
func (s *Schema) crosses(ev *Event, joined []byte, intern func([]byte) string) []byte {
	for c, parts := range s.Cross {
		joined = joined[:0]
		for i, f := range parts {
			name := ev.Categorical[f]
			if name == "" {
				joined = joined[:0]
				break
			}
			if i > 0 {
				joined = append(joined, CrossSign...)
			}
			joined = append(joined, name...)
		}
		at := &ev.Categorical[s.NumGiven()+c]
		if *at = ""; len(joined) > 0 {
			*at = intern(joined)
		}
	}
	return joined
}
