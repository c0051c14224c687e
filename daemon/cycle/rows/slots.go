package rows

import (
	"hash/maphash"
	"sync/atomic"
)

// Slots gives the most recently learned features a small number each, up to a limit; the least recently learned gives
// up its number when there are more. Both operations are O(1).
type Slots struct {
	index  SlotIndex
	Items  []Slot
	limit  int
	oldest int32
	Newest int32

	Evicted *atomic.Int64 // counts the names that gave up their number; nil counts none
	Touched []*Touched    // change lists of the subscribers
}

// Touched lists the slots that were touched since it was asked last, each once, in the order of their first touch.
// Adding takes O(1).
type Touched struct {
	List   []int32
	listed []bool // by slot
}

func (t *Touched) add(at int32) {
	for int(at) >= len(t.listed) {
		t.listed = append(t.listed, false)
	}
	if !t.listed[at] {
		t.listed[at] = true
		t.List = append(t.List, at)
	}
}

// Take moves the first slots, at most limit, to the end of dst.
func (t *Touched) Take(dst []int32, limit int) []int32 {
	n := min(limit, len(t.List))
	dst = append(dst, t.List[:n]...)
	for _, at := range t.List[:n] {
		t.listed[at] = false
	}
	t.List = t.List[:copy(t.List, t.List[n:])]
	return dst
}

type Slot struct {
	Name         string
	Field        int32
	newer, Older int32
	hash         uint32 // of its entry in the index
}

// SlotBytes is what a name in slots takes without its bytes: its place in the list and its entries in the index.
// Measured; tests compare it.
const SlotBytes = 110

// SlotsFootprint returns the bytes of n names, each of at most maxName bytes.
func SlotsFootprint(n, maxName int) int64 { return int64(n) * int64(SlotBytes+maxName) }

func NewSlots(limit int) *Slots {
	return &Slots{index: NewSlotIndex(), limit: max(limit, 2), oldest: -1, Newest: -1}
}

// Find returns the slot of a name, or -1.
func (s *Slots) Find(field int, name string) int32 {
	return s.index.Find(s.Items, int32(field), name)
}

// Touch returns the slot of a name, as the most recent, and whether the slot is new to it. last is where find saw the
// name last, or -1.
func (s *Slots) Touch(last int32, field int, name string) (at int32, fresh bool) {
	at, fresh = s.place(last, field, name)
	for _, list := range s.Touched {
		list.add(at)
	}
	return at, fresh
}

// place is touch without the list of what was touched.
func (s *Slots) place(last int32, field int, name string) (at int32, fresh bool) {
	if at = last; at < 0 || s.Items[at].Field != int32(field) ||
		s.Items[at].Name != name { // it lost the slot since, or got one
		at = s.Find(field, name)
	}
	if at >= 0 {
		if at != s.Newest {
			s.unlink(at)
			s.link(at)
		}
		return at, false
	}
	if len(s.Items) < s.limit {
		s.Items = append(s.Items, Slot{})
		at = int32(len(s.Items) - 1)
	} else {
		at = s.oldest
		s.index.remove(s.Items, at)
		if s.Evicted != nil {
			s.Evicted.Add(1)
		}
		s.unlink(at)
	}
	s.Items[at] = Slot{Name: name, Field: int32(field)}
	s.index.Add(s.Items, at)
	s.link(at)
	return at, true
}

func (s *Slots) unlink(at int32) {
	i := &s.Items[at]
	if i.Older >= 0 {
		s.Items[i.Older].newer = i.newer
	} else {
		s.oldest = i.newer
	}
	if i.newer >= 0 {
		s.Items[i.newer].Older = i.Older
	} else {
		s.Newest = i.Older
	}
}

func (s *Slots) link(at int32) {
	i := &s.Items[at]
	i.Older, i.newer = s.Newest, -1
	if s.Newest >= 0 {
		s.Items[s.Newest].newer = at
	} else {
		s.oldest = at
	}
	s.Newest = at
}

// SlotIndex finds slots by field and name: a hash table with linear probing, at most half full. An entry is eight
// bytes, so that a look-up among thousands of names finds it in a near cache and reads the name in its slot. The caller
// reads the slot next. A map of Go, which holds the names once more, took a tenth of the time in which an event is
// learned.
type SlotIndex struct {
	seed  maphash.Seed
	table []slotEntry // a power of two
	used  int
}

// slotEntry is the hash of a name and its slot plus 1, 0 of an entry that is free.
type slotEntry struct {
	hash uint32
	next int32
}

func NewSlotIndex() SlotIndex {
	const few = 16
	return SlotIndex{seed: maphash.MakeSeed(), table: make([]slotEntry, few)}
}

func (x *SlotIndex) hash(field int32, name string) uint32 {
	const odd = 0x9e3779b1 // Knuth's multiplicative hashing, of fields that share a name
	return uint32(maphash.String(x.seed, name)) ^ uint32(field)*odd
}

// Find returns the slot of a name, or -1.
func (x *SlotIndex) Find(items []Slot, field int32, name string) int32 {
	hash, mask := x.hash(field, name), uint32(len(x.table)-1)
	for place := hash & mask; ; place = (place + 1) & mask {
		e := x.table[place]
		if e.next == 0 {
			return -1
		}
		if e.hash == hash {
			if i := &items[e.next-1]; i.Field == field && i.Name == name {
				return e.next - 1
			}
		}
	}
}

// Add enters the name of a slot that is not there.
func (x *SlotIndex) Add(items []Slot, at int32) {
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
	i.hash = x.hash(i.Field, i.Name)
	x.table[x.free(i.hash)] = slotEntry{i.hash, at + 1}
}

// free returns the first free place for a hash.
func (x *SlotIndex) free(hash uint32) uint32 {
	mask := uint32(len(x.table) - 1)
	place := hash & mask
	for x.table[place].next != 0 {
		place = (place + 1) & mask
	}
	return place
}

// remove takes out the name of a slot that is there, and moves up the entries after it that would not be found any more
// (Knuth, volume 3, section 6.4, algorithm R).
func (x *SlotIndex) remove(items []Slot, at int32) {
	mask := uint32(len(x.table) - 1)
	gap := items[at].hash & mask
	for x.table[gap].next != at+1 {
		gap = (gap + 1) & mask
	}
	x.used--
	for place := (gap + 1) & mask; x.table[place].next != 0; place = (place + 1) & mask {
		if home := x.table[place].hash & mask; (place-home)&mask >= (place-gap)&mask {
			x.table[gap], gap = x.table[place], place
		}
	}
	x.table[gap] = slotEntry{}
}
