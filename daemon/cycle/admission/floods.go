package admission

import (
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// Floods are the events of which copies were left out. It does not change.
type Floods struct {
	fields *givenFields
	most   map[uint64]int // of a key, as marked returns it
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

// marked returns the keys of which copies were left out, with the events of them that counted, and those of events that
// are alike, with how many of stuckMemory are usual: before the flood, or by now.
func (c *copies) marked() map[uint64]int {
	most := make(map[uint64]int)
	for of, marks := range map[uint64]recent[uint16]{0: c.flooded, likeKey: c.stuck.flooded} {
		for _, marked := range []map[uint64]uint16{marks.before, marks.now} {
			for key, events := range marked {
				if most[of|key] = int(events); of == likeKey { // a flood's first ones have counted
					most[of|key] = max(int(events), int(c.stuck.usual.count.of(uint32(key)))-copiesLeast)
				}
			}
		}
	}
	return most
}

// limitOf returns how many rows of a marked key count among so many of all. Events that are alike come before and after
// a flood, too.
func limitOf(key uint64, most, of int) int {
	if key < likeKey {
		return most
	}
	return max(copiesLeast, most*of/stuckMemory)
}

// marksOf returns the keys of an event by which copies of it may have been left out.
func (f *givenFields) marksOf(ev *event.Event) [2]uint64 {
	key, like := f.keys(ev)
	return [2]uint64{uint64(key), likeKey | uint64(like)}
}

// replay is what came of one so far.
type replay struct {
	marks   map[uint64]int // as they were before
	counted map[uint64]int // events of these keys
	events  int            // of all
}

// repeats reports whether an event of a replay is one of those that were left out, as far as that is remembered.
func (c *copies) repeats(ev *event.Event) bool {
	of := &c.again
	if of.marks == nil {
		of.marks, of.counted = c.marked(), make(map[uint64]int)
	}
	of.events++
	for _, key := range c.fields.marksOf(ev) {
		if most, ok := of.marks[key]; ok {
			if of.counted[key] >= limitOf(key, most, of.events) {
				return true
			}
			of.counted[key]++
			return false
		}
	}
	return false
}

// Find returns which rows of the parts of a sample do not count: of an event of which copies were left out, as many do
// as were learned, and of events that are alike as large a share as is usual. Those of one event are of any part
// alike, so that floods fill none, and no event that was learned once is both trained on and held out.
func (f *Floods) Find(parts ...[][]byte) (copies [][]bool) {
	type place struct{ part, row int }
	places, total := make(map[uint64][]place), 0
	copies = make([][]bool, len(parts))
	var ev event.Event
	names := make(rows.Interner)
	for p, payloads := range parts {
		copies[p] = make([]bool, len(payloads))
		for i, payload := range payloads {
			if rows.DecodeEvent(&ev, payload, names) != nil {
				continue // the refit finds it, too
			}
			total++
			for _, key := range f.fields.marksOf(&ev) {
				if _, marked := f.most[key]; marked {
					places[key] = append(places[key], place{p, i})
				}
			}
		}
	}
	for key, of := range places {
		for k := limitOf(key, f.most[key], total); k < len(of); k++ {
			at := of[(of[0].row+k)%len(of)] // the same rows in each process, which keys are not
			copies[at.part][at.row] = true
		}
	}
	return copies
}
