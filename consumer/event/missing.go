package event

import "sync/atomic"

// Missing counts, for decoders of one mapping together, the events that have nothing where the mapping says that a
// field is.
type Missing struct {
	Fields []string // of the mapping that have a path
	Events atomic.Int64
	counts []atomic.Int64
}

// NewMissing counts for a mapping.
func NewMissing(m *Mapping) *Missing {
	t := new(Missing)
	for i := range m.Fields {
		if !m.Fields[i].From.IsZero() {
			t.Fields = append(t.Fields, m.Fields[i].Name)
		}
	}
	t.counts = make([]atomic.Int64, len(t.Fields))
	return t
}

// Count returns how many of the events lacked the i-th of Fields.
func (t *Missing) Count(i int) int64 { return t.counts[i].Load() }
