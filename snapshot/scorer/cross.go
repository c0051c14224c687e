package scorer

import (
	"slices"

	"github.com/refitd/refitd/snapshot/format"
)

// indexCrosses notes where the parts of each cross are among the categorical fields.
func (m *Model) indexCrosses() {
	s := &m.contents.Schema
	for _, parts := range s.Cross {
		fields := make([]int, len(parts))
		for i, name := range parts {
			fields[i] = slices.Index(s.Categorical, name)
		}
		m.crosses = append(m.crosses, fields)
	}
}

// encodeCrosses adds the columns of the crosses of an event that has categorical fields. The vocabulary has few of all
// pairs there could be, so that one which it does not have is nothing to count.
func (m *Model) encodeCrosses(in *format.Input, s *Scratch) {
	for c, parts := range m.crosses {
		s.joined = s.joined[:0]
		for i, f := range parts {
			name := in.Categorical[f]
			if name == "" {
				s.joined = s.joined[:0]
				break
			}
			if i > 0 {
				s.joined = append(s.joined, format.CrossSign...)
			}
			s.joined = append(s.joined, name...)
		}
		if len(s.joined) == 0 {
			continue
		}
		if j, ok := m.columnOfBytes(len(in.Categorical)+c, s.joined); ok {
			s.index, s.value = append(s.index, j), append(s.value, 1)
		}
	}
}

// isCrossed reports whether a categorical field is part of a cross.
func (m *Model) isCrossed(field int) bool {
	return slices.ContainsFunc(m.crosses, func(parts []int) bool { return slices.Contains(parts, field) })
}
