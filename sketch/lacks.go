package sketch

import (
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// A held row is of a shard, and here or about to be.
type held struct {
	role Role
	id   policy.Identity
}

// Lacks returns how many of the rows that a shard has, as the head of a share says, are neither here nor among its
// pairs: something of it was lost, or is below thresholds that the shard does not know yet. A share that cannot be
// read is an error of Merge. O(rows of the store and of the share), in a map.
func (s *Store) Lacks(m *Share) (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.read(m)
	if err != nil {
		return 0
	}
	rows, ends, of := map[ledger.Incarnation]int64{}, map[ledger.Incarnation]int64{}, map[held]ledger.Incarnation{}
	for i := range h.ledger {
		l := &h.ledger[i]
		at := l.At()
		rows[at], ends[at] = l.Rows[Train]+l.Rows[Select]+l.Rows[Gate], l.Next
	}
	for i, r := range s.samples.All[:int(NumRoles)+len(h.counters.Classes)] {
		evicted, threshold := h.counters.Of(i)
		for _, e := range r.Entries {
			l := s.ledger.At(e.Place)
			from := l.At()
			if _, ok := rows[from]; ok && (!evicted || e.Rank >= threshold) { // else the shard has put it out
				of[held{r.Role, e.ID}] = from
			}
		}
	}
	for i := range m.Pairs {
		p := &m.Pairs[i]
		role, id, ok := codec.ParseRowKey(p.Key)
		if !ok {
			continue
		}
		delete(of, held{role, id})
		row, err := codec.DecodeRow(p.Key, p.Value)
		if p.Value == nil || err != nil {
			continue
		}
		from := ledger.Incarnation{Partition: ledger.Partition{Topic: string(row.Topic), Number: row.Partition},
			Count: row.Incarnation}
		if next, ok := ends[from]; ok && row.Offset < next { // else it is of a process that ended before its head
			of[held{role, id}] = from
		}
	}
	for _, from := range of {
		rows[from]--
	}
	for _, missing := range rows {
		n += max(0, missing)
	}
	return n
}
