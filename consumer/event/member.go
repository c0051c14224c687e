package event

import (
	"maps"
	"slices"
)

// A Member is a member of an object that is asked for, or leads to one. The root is the object itself.
type Member struct {
	slot    int // -1 for none
	members map[string]*Member
}

// Slot returns the slot of its value, -1 if it only leads to others, and for nil.
func (m *Member) Slot() int {
	if m == nil {
		return -1
	}
	return m.slot
}

// Member returns the member of it that has a name, nil where it is not asked for.
func (m *Member) Member(name string) *Member {
	if m == nil {
		return nil
	}
	return m.members[name]
}

// Names returns the names of the members that are asked for, in their order.
func (m *Member) Names() []string {
	if m == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(m.members))
}

// Leads reports whether members of it are asked for.
func (m *Member) Leads() bool { return m != nil && len(m.members) > 0 }

func newMember() *Member { return &Member{slot: -1, members: make(map[string]*Member)} }

// add says which slot a path leads to.
func (m *Member) add(slot int, path ...string) {
	for _, name := range path {
		if m.members[name] == nil {
			m.members[name] = newMember()
		}
		m = m.members[name]
	}
	m.slot = slot
}

// at returns the slot of a path, -1 if it has none yet.
func (m *Member) at(path ...string) int {
	for _, name := range path {
		if m = m.members[name]; m == nil {
			return -1
		}
	}
	return m.slot
}
