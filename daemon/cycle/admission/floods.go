package admission

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// Floods are the events of which copies were left out. It does not change.
type Floods struct {
	fields *givenFields
	most   map[uint64]int // events of a key that counted
}

// Floods returns those that are remembered, nil for none.
func (c *EntityCap) Floods() *Floods {
	if c.copies == nil {
		return nil
	}
	f := &Floods{fields: c.copies.fields, most: c.copies.marked()}
	if len(f.most) == 0 {
		return nil
	}
	return f
}

// likeKey sets the keys of events that are alike apart from those of copies. Derived: those have 32 bits.
const likeKey = 1 << 32

// marked returns the keys of which copies were left out, with the events of them that counted.
func (c *copies) marked() map[uint64]int {
	most := make(map[uint64]int)
	for of, marks := range map[uint64]recent[uint16]{0: c.flooded, likeKey: c.stuck.flooded} {
		for _, marked := range []map[uint64]uint16{marks.before, marks.now} {
			for key, events := range marked {
				most[of|key] = int(events)
			}
		}
	}
	return most
}

// marksOf returns the keys of an event by which copies of it may have been left out.
func (f *givenFields) marksOf(ev *event.Event) [2]uint64 {
	key, like := f.keys(ev)
	return [2]uint64{uint64(key), likeKey | uint64(like)}
}

// repeats reports whether an event of a replay is one of those that were left out, as far as that is remembered.
func (c *copies) repeats(ev *event.Event) bool {
	if c.again == nil {
		c.again = c.marked()
	}
	for _, key := range c.fields.marksOf(ev) {
		if most, ok := c.again[key]; ok {
			c.again[key]--
			return most <= 0
		}
	}
	return false
}

// Find returns which rows of the parts of a sample do not count: of an event of which copies were left out, as many do
// as were learned. Those of one event are of any part alike, so that floods fill none, and no event that was learned
// once is both trained on and held out.
func (f *Floods) Find(parts ...[][]byte) (copies [][]bool) {
	type place struct{ part, row int }
	places := make(map[uint64][]place)
	copies = make([][]bool, len(parts))
	var ev event.Event
	names := make(rows.Interner)
	for p, payloads := range parts {
		copies[p] = make([]bool, len(payloads))
		for i, payload := range payloads {
			if rows.DecodeEvent(&ev, payload, names) != nil {
				continue // the refit finds it, too
			}
			for _, key := range f.fields.marksOf(&ev) {
				if f.most[key] > 0 {
					places[key] = append(places[key], place{p, i})
				}
			}
		}
	}
	for key, of := range places {
		for k := f.most[key]; k < len(of); k++ {
			at := of[(of[0].row+k)%len(of)] // the same rows in each process, which keys are not
			copies[at.part][at.row] = true
		}
	}
	return copies
}
