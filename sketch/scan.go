package sketch

import "context"

// accounts are a consistent cut of ledger and counters. The ledger is ordered by topic and partition.
type accounts struct {
	ledger []LedgerRow
	counters
}

// A scanned row is valid during the call that gets it.
type scanned struct {
	storedRow
	role       Role
	id         identity
	key, value []byte
	place      int // index of the partition in accounts.ledger
}

// scan reads a cut: the accounts, then every sample row in the order of role and identity. It checks what can be checked along the way:
// checksums, that the accounts add up, that each row belongs to a partition and was applied, and that there are as many as the ledger says.
// A database that lost rows iterates without an error; the counts are what notices.
func (s *Store) scan(ctx context.Context, c cut, visit func(*scanned) error) (*accounts, error) {
	acc := &accounts{counters: counters{reasons: map[string]int64{}}}
	places := map[partition]int{}
	err := c.each([]byte{prefixLedger}, func(key, value []byte) error {
		l, err := decodeLedger(key, value)
		if err != nil {
			return err
		}
		places[partition{l.Topic, l.Partition}] = len(acc.ledger)
		acc.ledger = append(acc.ledger, l)
		return l.audit()
	})
	if err != nil {
		return nil, err
	}
	key := []byte{prefixCounters}
	if value, err := c.get(key); err != nil {
		return nil, err
	} else if value != nil {
		if acc.counters, err = decodeCounters(key, value); err != nil {
			return nil, err
		}
	}

	counts := make([][NumRoles]int64, len(acc.ledger))
	var n int
	var row scanned
	err = c.each([]byte{prefixRow}, func(key, value []byte) error {
		if n++; n&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		stored, err := decodeRow(key, value)
		if err != nil {
			return err
		}
		role, id, ok := parseRowKey(key)
		if !ok {
			return corrupt("row has the key %x", key)
		}
		place, ok := places[partition{string(stored.topic), stored.partition}]
		if !ok {
			return corrupt("row at key %x is of %s/%d, which is not in the ledger", key, stored.topic, stored.partition)
		}
		if l := &acc.ledger[place]; stored.offset < l.Start || stored.offset >= l.Next {
			return corrupt("row of %s/%d has offset %d outside %d..%d", l.Topic, l.Partition, stored.offset, l.Start, l.Next-1)
		}
		r := s.reservoirs[role]
		if acc.evicted[role] && r.rank(id.h(), stored.weight, stored.time) < acc.threshold[role] {
			return corrupt("row at key %x has a priority below the threshold", key)
		}
		counts[place][role]++
		row = scanned{storedRow: stored, role: role, id: id, key: key, value: value, place: place}
		return visit(&row)
	})
	if err != nil {
		return nil, err
	}
	return acc, s.count(acc, counts)
}

// count compares the rows found with the ledger and with what the samples must hold (I4).
func (s *Store) count(acc *accounts, counts [][NumRoles]int64) error {
	var rows, eligible [NumRoles]int64
	for i, l := range acc.ledger {
		if counts[i] != l.Rows {
			return corrupt("%s/%d has %d rows by role, the ledger says %d", l.Topic, l.Partition, counts[i], l.Rows)
		}
		for role := range NumRoles {
			rows[role] += l.Rows[role]
			eligible[role] += l.Eligible[role]
		}
	}
	for role, r := range s.reservoirs {
		capacity := int64(r.capacity)
		full := rows[role] == capacity
		// Events of one identity share a row, so that only the bounds are known.
		if s.settings.Identity == "" && rows[role] != min(capacity, eligible[role]) || rows[role] > capacity || acc.evicted[role] && !full {
			return corrupt("sample %s has %d rows of %d events, capacity %d", Role(role), rows[role], eligible[role], capacity)
		}
	}
	return nil
}
