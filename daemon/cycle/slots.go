package cycle

import (
	"hash/maphash"
	"sync/atomic"
)

// slots gives the most recently learned features a small number each, up to a limit; the least recently learned gives up its number
// when there are more. Both operations are O(1).
type slots struct {
	index  slotIndex
	items  []slot
	limit  int
	oldest int32
	newest int32

	evicted *atomic.Int64 // counts the names that gave up their number; nil counts none
	touched []*touched    // lists of what is touched, of whoever asks for one
}

// touched lists the slots that were touched since it was asked last, each once, in the order of their first touch. Adding takes O(1).
type touched struct {
	list   []int32
	listed []bool // by slot
}

func (t *touched) add(at int32) {
	for int(at) >= len(t.listed) {
		t.listed = append(t.listed, false)
	}
	if !t.listed[at] {
		t.listed[at] = true
		t.list = append(t.list, at)
	}
}

// take moves the first slots, at most limit, to the end of dst.
func (t *touched) take(dst []int32, limit int) []int32 {
	n := min(limit, len(t.list))
	dst = append(dst, t.list[:n]...)
	for _, at := range t.list[:n] {
		t.listed[at] = false
	}
	t.list = t.list[:copy(t.list, t.list[n:])]
	return dst
}

type slot struct {
	name         string
	field        int32
	newer, older int32
}

func newSlots(limit int) *slots {
	return &slots{index: newSlotIndex(), limit: max(limit, 2), oldest: -1, newest: -1}
}

// find returns the slot of a name, or -1.
func (s *slots) find(field int, name string) int32 {
	at, _ := s.index.find(s.items, int32(field), name)
	return at
}

// touch returns the slot of a name, as the most recent, and whether the slot is new to it. last is where find saw the name last, or -1.
func (s *slots) touch(last int32, field int, name string) (at int32, fresh bool) {
	at, fresh = s.place(last, field, name)
	for _, list := range s.touched {
		list.add(at)
	}
	return at, fresh
}

// place is touch without the list of what was touched.
func (s *slots) place(last int32, field int, name string) (at int32, fresh bool) {
	if at = last; at < 0 || s.items[at].field != int32(field) || s.items[at].name != name { // it lost the slot since, or got one
		at = s.find(field, name)
	}
	if at >= 0 {
		if at != s.newest {
			s.unlink(at)
			s.link(at)
		}
		return at, false
	}
	if len(s.items) < s.limit {
		s.items = append(s.items, slot{})
		at = int32(len(s.items) - 1)
	} else {
		at = s.oldest
		s.index.remove(s.items, at)
		if s.evicted != nil {
			s.evicted.Add(1)
		}
		s.unlink(at)
	}
	s.items[at] = slot{name: name, field: int32(field)}
	s.index.add(s.items, at)
	s.link(at)
	return at, true
}

func (s *slots) unlink(at int32) {
	i := &s.items[at]
	if i.older >= 0 {
		s.items[i.older].newer = i.newer
	} else {
		s.oldest = i.newer
	}
	if i.newer >= 0 {
		s.items[i.newer].older = i.older
	} else {
		s.newest = i.older
	}
}

func (s *slots) link(at int32) {
	i := &s.items[at]
	i.older, i.newer = s.newest, -1
	if s.newest >= 0 {
		s.items[s.newest].newer = at
	} else {
		s.oldest = at
	}
	s.newest = at
}

// slotIndex finds slots by field and name: a hash table with linear probing, at most half full. An entry is eight bytes, so that a look-up among
// thousands of names finds it in a near cache and reads the name in its slot, which whoever asks reads next; the map of the language, which holds the
// names once more, took a tenth of the time that an event is learned in.
type slotIndex struct {
	seed  maphash.Seed
	table []slotEntry // a power of two
	used  int
}

// slotEntry is the hash of a name and its slot plus 1, 0 of an entry that is free.
type slotEntry struct {
	hash uint32
	next int32
}

func newSlotIndex() slotIndex {
	const few = 16
	return slotIndex{seed: maphash.MakeSeed(), table: make([]slotEntry, few)}
}

func (x *slotIndex) hash(field int32, name string) uint32 {
	const odd = 0x9e3779b1 // Knuth's multiplicative hashing, of fields that share a name
	return uint32(maphash.String(x.seed, name)) ^ uint32(field)*odd
}

// find returns the slot of a name and the place of its entry, or -1 and that of the free entry where it would be.
func (x *slotIndex) find(items []slot, field int32, name string) (at int32, place uint32) {
	hash, mask := x.hash(field, name), uint32(len(x.table)-1)
	for place = hash & mask; ; place = (place + 1) & mask {
		e := x.table[place]
		if e.next == 0 {
			return -1, place
		}
		if e.hash == hash {
			if i := &items[e.next-1]; i.field == field && i.name == name {
				return e.next - 1, place
			}
		}
	}
}

// add enters the name of a slot that is not there.
func (x *slotIndex) add(items []slot, at int32) {
	if x.used++; 2*x.used > len(x.table) {
		old := x.table
		x.table = make([]slotEntry, 2*len(old))
		for _, e := range old {
			if e.next > 0 {
				x.table[x.free(e.hash)] = e
			}
		}
	}
	i := &items[at]
	hash := x.hash(i.field, i.name)
	x.table[x.free(hash)] = slotEntry{hash, at + 1}
}

// free returns the first free place for a hash.
func (x *slotIndex) free(hash uint32) uint32 {
	mask := uint32(len(x.table) - 1)
	place := hash & mask
	for x.table[place].next != 0 {
		place = (place + 1) & mask
	}
	return place
}

// remove takes out the name of a slot that is there, and moves up the entries after it that would not be found any more (Knuth, volume 3, section 6.4,
// algorithm R).
func (x *slotIndex) remove(items []slot, at int32) {
	_, gap := x.find(items, items[at].field, items[at].name)
	mask := uint32(len(x.table) - 1)
	x.used--
	for place := (gap + 1) & mask; x.table[place].next != 0; place = (place + 1) & mask {
		if home := x.table[place].hash & mask; (place-home)&mask >= (place-gap)&mask {
			x.table[gap], gap = x.table[place], place
		}
	}
	x.table[gap] = slotEntry{}
}
