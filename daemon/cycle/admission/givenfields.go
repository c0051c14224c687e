package admission

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// givenFields are what copies of an event have in common: its time and the fields that it came with. What comes in
// turns, as each shop on each day, has other times. Copies with other labels would teach the more the fewer of the
// right ones count. Fields that are derived or joined may be others by then.
type givenFields struct {
	seed                        uint64 // at random, and kept over restarts
	categorical, numeric, multi []int
	names                       []string // of all fields
}

func givenFieldsOf(s *event.Schema) *givenFields {
	f := &givenFields{seed: rand.Uint64()}
	for i := range s.NumGiven() {
		if s.IsGivenName(i, false) {
			f.categorical, f.names = append(f.categorical, i), append(f.names, s.Categorical[i])
		}
	}
	for i, name := range s.Numeric {
		if s.IsGivenNumber(i) {
			f.numeric, f.names = append(f.numeric, i), append(f.names, name)
		}
	}
	for i, name := range s.Multi {
		if s.IsGivenName(i, true) {
			f.multi, f.names = append(f.multi, i), append(f.names, name)
		}
	}
	return f
}

// alikeBits are those of a number that events which are alike may differ in: without them it has three digits. Chosen
// by hand.
const alikeBits = 42

// keys returns the key of an event, and one that events have in common which differ in their time, or in their
// numbers by a thousandth.
func (f *givenFields) keys(ev *event.Event) (key, like uint32) {
	h := f.seed
	for _, i := range f.categorical {
		h = hashText(h, ev.Categorical[i])
	}
	for _, i := range f.multi {
		for _, name := range ev.Multi[i] {
			h = hashText(h, name)
		}
		h = rows.MixHash(h, 0, 1)
	}
	alike := h
	for _, i := range f.numeric {
		bits := math.Float64bits(ev.Numeric[i])
		h, alike = rows.MixHash(h, bits, 2), rows.MixHash(alike, bits>>alikeBits, 2)
	}
	return uint32(rows.MixHash(h, uint64(ev.Time), 3)), uint32(alike)
}

// hashText adds a text to a hash, eight bytes at a time. A text says where it ends.
func hashText(h uint64, s string) uint64 {
	n := len(s)
	for ; len(s) >= 8; s = s[8:] {
		h = rows.MixHash(h, binary.LittleEndian.Uint64([]byte(s[:8])), 4)
	}
	var rest [8]byte
	copy(rest[:], s)
	return rows.MixHash(h, binary.LittleEndian.Uint64(rest[:]), uint64(5+n))
}
