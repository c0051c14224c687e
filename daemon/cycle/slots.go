package cycle

import "sync/atomic"

// slots gives the most recently learned features a small number each, up to a limit; the least recently learned gives up its number
// when there are more. Both operations are O(1).
type slots struct {
	index  []map[string]int32 // per field
	items  []slot
	limit  int
	oldest int32
	newest int32

	evicted *atomic.Int64 // counts the names that gave up their number; nil counts none
}

type slot struct {
	name         string
	field        int32
	newer, older int32
}

func newSlots(fields, limit int) *slots {
	s := &slots{index: make([]map[string]int32, fields), limit: max(limit, 2), oldest: -1, newest: -1}
	for f := range s.index {
		s.index[f] = make(map[string]int32)
	}
	return s
}

// find returns the slot of a name, or -1.
func (s *slots) find(field int, name string) int32 {
	if i, ok := s.index[field][name]; ok {
		return i
	}
	return -1
}

// touch returns the slot of a name, as the most recent, and whether the slot is new to it. last is where find saw the name last, or -1.
func (s *slots) touch(last int32, field int, name string) (at int32, fresh bool) {
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
		delete(s.index[s.items[at].field], s.items[at].name)
		if s.evicted != nil {
			s.evicted.Add(1)
		}
		s.unlink(at)
	}
	s.items[at] = slot{name: name, field: int32(field)}
	s.index[field][name] = at
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
