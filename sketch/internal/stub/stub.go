package stub

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// What one stub holds at most. A key of an event has few outcomes, in one partition of each of their topics; these
// bounds are for producers that err. Both are chosen by hand.
const (
	MaxOutcomes   = 32 // of a partition
	MaxPartitions = 8  // of all topics, the first by name and number
)

// An Order says which outcomes of a partition a stub keeps where there are more than MaxOutcomes.
type Order string

// The orders. The zero value is that of samples without outcomes.
const (
	Earliest Order = "earliest"
	Latest   Order = "latest"
)

// An Outcome is an event of another topic that says what came of an event of the sample.
type Outcome struct {
	Topic       string
	Partition   int32
	Incarnation uint32
	Offset      int64
	Time        int64   // event time, milliseconds
	Value       float64 // finite
}

// Compare orders outcomes by time, then topic, partition, incarnation and offset: a total order.
func (o *Outcome) Compare(p *Outcome) int {
	return cmp.Or(cmp.Compare(o.Time, p.Time), o.compareList(p), cmp.Compare(o.Offset, p.Offset))
}

// compareList orders the lists that outcomes are in.
func (o *Outcome) compareList(p *Outcome) int {
	return cmp.Or(cmp.Compare(o.Topic, p.Topic), cmp.Compare(o.Partition, p.Partition),
		cmp.Compare(o.Incarnation, p.Incarnation))
}

// A Stub has the outcomes of one key.
type Stub struct {
	lists []list // by topic, partition and incarnation
}

// list has the outcomes of one partition, by time and offset. It stays when it is empty: whether a partition has a list
// must not depend on what came of others first.
type list struct {
	Outcome  // topic, partition and incarnation alone
	outcomes []Outcome
}

// Add takes an outcome in and reports whether that changes the stub.
func (s *Stub) Add(o Outcome, order Order) bool {
	i, known := slices.BinarySearchFunc(s.lists, o, func(l list, o Outcome) int { return l.compareList(&o) })
	if !known {
		if i >= MaxPartitions {
			return false
		}
		of := Outcome{Topic: o.Topic, Partition: o.Partition, Incarnation: o.Incarnation}
		s.lists = slices.Insert(s.lists, i, list{Outcome: of})
		s.lists = s.lists[:min(len(s.lists), MaxPartitions)]
	}
	l := &s.lists[i]
	at, _ := slices.BinarySearchFunc(l.outcomes, o, func(a, b Outcome) int { return a.Compare(&b) })
	if full := len(l.outcomes) >= MaxOutcomes; full && order == Latest {
		if at == 0 {
			return false
		}
		l.outcomes = slices.Delete(slices.Insert(l.outcomes, at, o), 0, 1)
		return true
	} else if full && at == len(l.outcomes) {
		return false
	}
	l.outcomes = slices.Insert(l.outcomes, at, o)
	l.outcomes = l.outcomes[:min(len(l.outcomes), MaxOutcomes)]
	return true
}

// TakeBack takes out what a partition had so far, and reports whether that is anything.
func (s *Stub) TakeBack(topic string, partition int32, incarnation uint32) bool {
	of := Outcome{Topic: topic, Partition: partition, Incarnation: incarnation}
	i := slices.IndexFunc(s.lists, func(l list) bool { return l.compareList(&of) == 0 })
	if i < 0 || len(s.lists[i].outcomes) == 0 {
		return false
	}
	s.lists[i].outcomes = nil
	return true
}

// Merge takes in what a stub of other partitions has, in the place of what it had of them before. It reports whether
// that changes the stub.
func (s *Stub) Merge(o *Stub) (changed bool) {
	for _, l := range o.lists {
		i, known := slices.BinarySearchFunc(s.lists, l, func(a, b list) int { return a.compareList(&b.Outcome) })
		switch {
		case known && slices.Equal(s.lists[i].outcomes, l.outcomes) || i >= MaxPartitions:
			continue
		case known:
			s.lists[i] = l
		default:
			s.lists = slices.Insert(s.lists, i, l)
			s.lists = s.lists[:min(len(s.lists), MaxPartitions)]
		}
		changed = true
	}
	return changed
}

// Keep takes out the lists that only does not accept, and of the others the outcomes that is does not.
func (s *Stub) Keep(only func(topic string, partition int32) bool, is func(o *Outcome) bool) {
	s.lists = slices.DeleteFunc(s.lists, func(l list) bool { return !only(l.Topic, l.Partition) })
	for i := range s.lists {
		l := &s.lists[i]
		l.outcomes = slices.DeleteFunc(l.outcomes, func(o Outcome) bool { return !is(&o) })
	}
}

// Places returns the topic, partition and incarnation of each list.
func (s *Stub) Places() (out []Outcome) {
	for i := range s.lists {
		out = append(out, s.lists[i].Outcome)
	}
	return out
}

// Erase takes out the lists of partitions up to a cut, with the outcomes before it, and reports whether nothing is
// left.
func (s *Stub) Erase(m *ledger.Marker) (empty bool) {
	kept := s.lists[:0]
	for _, l := range s.lists {
		at, ok := ledger.CutOf(m, l.Topic, l.Partition)
		isBefore := func(o Outcome) bool {
			return l.Incarnation < at.Incarnation || l.Incarnation == at.Incarnation && o.Offset < at.Next
		}
		if !ok {
			kept = append(kept, l)
			continue
		}
		if l.outcomes = slices.DeleteFunc(l.outcomes, isBefore); len(l.outcomes) > 0 {
			kept = append(kept, l)
		}
	}
	s.lists = kept
	return len(kept) == 0
}

// Outcomes returns all of them in their order.
func (s *Stub) Outcomes() (out []Outcome) {
	for _, l := range s.lists {
		out = append(out, l.outcomes...)
	}
	slices.SortFunc(out, func(a, b Outcome) int { return a.Compare(&b) })
	return out
}

// Key is where the stub of an identity is stored.
func Key(role ledger.Role, id policy.Identity) codec.RowKey {
	k := codec.MakeRowKey(role, id)
	k[0] = codec.PrefixStub
	return k
}

// ParseKey reads what Key made; ok is false of another key.
func ParseKey(key []byte) (role ledger.Role, id policy.Identity, ok bool) {
	if len(key) != len(codec.RowKey{}) || key[0] != codec.PrefixStub || ledger.Role(key[1]) >= ledger.NumRoles {
		return 0, id, false
	}
	return ledger.Role(key[1]), policy.Identity(key[2:]), true
}

// headerBytes of a list, in addition to its topic; outcomeBytes of an outcome.
const (
	headerBytes  = 4 + 4 + 2 + 2
	outcomeBytes = 3 * 8
)

// MaxBytes bounds key and value of a stub.
const MaxBytes = len(codec.RowKey{}) + MaxPartitions*(headerBytes+249+MaxOutcomes*outcomeBytes) + codec.CRCBytes

// Size is that of the stored key and value.
func (s *Stub) Size() int {
	n := len(codec.RowKey{}) + codec.CRCBytes
	for _, l := range s.lists {
		n += headerBytes + len(l.Topic) + outcomeBytes*len(l.outcomes)
	}
	return n
}

// Append appends the value of a stub: for each list
//
//	incarnation u32 | partition u32 | topic length u16 | count u16 | topic | (time u64 | offset u64 | value f64)*
//
// and the CRC, big-endian.
func (s *Stub) Append(b, key []byte) []byte {
	from := len(b)
	for i := range s.lists {
		l := &s.lists[i]
		b = binary.BigEndian.AppendUint32(b, l.Incarnation)
		b = binary.BigEndian.AppendUint32(b, uint32(l.Partition))
		b = binary.BigEndian.AppendUint16(b, uint16(len(l.Topic)))
		b = binary.BigEndian.AppendUint16(b, uint16(len(l.outcomes)))
		b = append(b, l.Topic...)
		for j := range l.outcomes {
			o := &l.outcomes[j]
			b = binary.BigEndian.AppendUint64(b, uint64(o.Time))
			b = binary.BigEndian.AppendUint64(b, uint64(o.Offset))
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(o.Value))
		}
	}
	return codec.Seal(key, b, from)
}

// Decode reads what Append wrote. It checks what the value says of itself: lists and outcomes in their order, no more
// than there may be, finite values.
func Decode(key, value []byte) (*Stub, error) {
	b, err := codec.Unseal(key, value)
	if err != nil {
		return nil, err
	}
	bad := func() error { return fault.Corrupt("stub at key %x cannot be read", key) }
	s := new(Stub)
	for len(b) > 0 {
		if len(b) < headerBytes {
			return nil, bad()
		}
		l := list{Outcome: Outcome{Incarnation: binary.BigEndian.Uint32(b),
			Partition: int32(binary.BigEndian.Uint32(b[4:]))}}
		topic, n := int(binary.BigEndian.Uint16(b[8:])), int(binary.BigEndian.Uint16(b[10:]))
		if b = b[headerBytes:]; topic == 0 || n > MaxOutcomes || len(b) < topic+n*outcomeBytes {
			return nil, bad()
		}
		l.Topic, b = string(b[:topic]), b[topic:]
		if last := len(s.lists) - 1; last+1 >= MaxPartitions || last >= 0 && s.lists[last].compareList(&l.Outcome) >= 0 {
			return nil, bad()
		}
		for ; n > 0; n-- {
			o := l.Outcome
			o.Time, o.Offset = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
			o.Value = math.Float64frombits(binary.BigEndian.Uint64(b[16:]))
			if last := len(l.outcomes) - 1; math.IsNaN(o.Value-o.Value) || last >= 0 && l.outcomes[last].Compare(&o) >= 0 {
				return nil, bad()
			}
			l.outcomes, b = append(l.outcomes, o), b[outcomeBytes:]
		}
		s.lists = append(s.lists, l)
	}
	return s, nil
}

// Check returns an error unless all outcomes were applied, as the accounts say.
func (s *Stub) Check(at func(o *Outcome) *ledger.Account) error {
	for i := range s.lists {
		for j := range s.lists[i].outcomes {
			o := &s.lists[i].outcomes[j]
			if l := at(o); l == nil || o.Offset < l.Start || o.Offset >= l.Next {
				return fault.Corrupt("outcome of %s/%d, incarnation %d, has offset %d, which was not applied", o.Topic,
					o.Partition, o.Incarnation, o.Offset)
			}
		}
	}
	return nil
}
