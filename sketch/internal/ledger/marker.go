package ledger

import (
	"crypto/sha256"
	"slices"
)

// A Marker says that the events of a subject are forgotten: those before Cut were taken out of the samples and are
// not let in again, also when the log is read from its beginning. Later ones are events like any other. The accounts
// count all of them.
type Marker struct {
	Field string     `json:"field"`
	Hash  Digest     `json:"hash"` // of field and value, see SubjectHash; the value itself is not kept
	Cut   []Position `json:"cut"`
	Rows  int64      `json:"rows"` // taken out so far
	Done  bool       `json:"done"` // all of them are
	// Row is the identity hash of the rows to take out, where the field is Options.Identity, whose value rows do not
	// carry.
	Row []byte `json:"row,omitempty"`
}

// SubjectHash is the digest of the value of a field.
func SubjectHash(field string, value []byte) Digest {
	b := append([]byte("refitd subject\x00"), field...)
	return sha256.Sum256(append(append(b, 0), value...))
}

// CutOf returns where the marker's events of a partition end, and in which incarnation; ok is false if it has none
// there.
func CutOf(m *Marker, topic string, number int32) (at Position, ok bool) {
	for _, p := range m.Cut {
		if p.Topic == topic && p.Partition == number {
			return p, true
		}
	}
	return at, false
}

// Extend moves the ends of a marker to where those of another one of the subject are further.
func Extend(m *Marker, cut []Position) (moved bool) {
	for _, p := range cut {
		i := slices.IndexFunc(m.Cut, func(q Position) bool { return q.Topic == p.Topic && q.Partition == p.Partition })
		switch {
		case i < 0:
			m.Cut, moved = append(m.Cut, p), true
		case p.Incarnation > m.Cut[i].Incarnation || p.Incarnation == m.Cut[i].Incarnation && p.Next > m.Cut[i].Next:
			m.Cut[i], moved = p, true
		}
	}
	return moved
}
