package sketch

import (
	"context"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// accounts are a consistent cut of ledger and counters. The ledger is ordered by topic and partition, the first current
// rows; those of incarnations that are over follow.
type accounts struct {
	ledger   []ledger.Account
	current  int
	markers  []Marker
	settings *policy.Settings
	found    []int64  // rows by sample, as in Store.all
	least    []uint64 // and the smallest rank among them
	codec.Counters
}

// A scanned row is valid during the call that gets it.
type scanned struct {
	codec.Row
	role       Role
	id         policy.Identity
	key, value []byte
	place      int // index of the partition in accounts.ledger
	sample     int // index in Store.all
	rank       uint64
}

func (row *scanned) size() uint32 { return uint32(len(row.key) + len(row.value)) }

// entryOf returns what is kept in memory of a row, whose partition has a place in Store.ledger.
func (s *Store) entryOf(row *scanned, place int32) reservoir.Entry {
	return reservoir.MakeEntry(row.rank, row.id, place, row.size(), uint32(s.costOf(row.Payload)))
}

// scan reads a cut: the accounts, then every sample row in the order of role and identity. It checks what can be
// checked along the way: checksums, that the accounts add up, that each row belongs to a partition and was applied, and
// that there are as many as the ledger says.
// A database that lost rows iterates without an error; the counts are what notices.
func (s *Store) scan(ctx context.Context, c storage.Cut, visit func(*scanned) error) (*accounts, error) {
	v := scanner{accounts: &accounts{}, store: s, places: map[ledger.Incarnation]int{},
		perGroup: map[policy.Identity]int{}}
	if err := v.readAccounts(c); err != nil {
		return nil, err
	}
	v.found, v.least, v.counts = make([]int64, len(s.samples.All)), make([]uint64,
		len(s.samples.All)), make([][NumRoles]int64, len(v.ledger))
	n, total := int64(0), v.numRows()
	err := c.Each([]byte{codec.PrefixRow}, func(key, value []byte) error {
		if n%storage.ProgressEvery == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			storage.Report(s.progress, "rows", n, total)
		}
		n++
		if err := v.readRow(key, value); err != nil {
			return err
		}
		return visit(&v.row)
	})
	if err != nil {
		return nil, err
	}
	return v.accounts, s.count(v.accounts, v.counts)
}

// numRows returns how many rows the ledger says there are.
func (a *accounts) numRows() (n int64) {
	for i := range a.ledger {
		for _, rows := range a.ledger[i].Rows {
			n += rows
		}
	}
	return n
}

// A scanner is the state of one scan.
type scanner struct {
	*accounts
	store    *Store
	places   map[ledger.Incarnation]int // in the ledger
	counts   [][NumRoles]int64          // rows by place
	perGroup map[policy.Identity]int
	row      scanned // the last one
}

// placeOf returns the place of a row's partition in the ledger. Neighbours are mostly of one partition.
func (v *scanner) placeOf(row *codec.Row) (place int, ok bool) {
	if last := &v.row; last.Topic != nil && last.Partition == row.Partition && last.Incarnation == row.Incarnation &&
		v.ledger[last.place].Topic == string(row.Topic) {
		return last.place, true
	}
	place, ok = v.places[ledger.Incarnation{Partition: ledger.Partition{Topic: string(row.Topic), Number: row.Partition},
		Count: row.Incarnation}]
	return place, ok
}

// readAccounts reads all but the rows.
func (v *scanner) readAccounts(c storage.Cut) error {
	addLedger := func(key, value []byte) error {
		l, err := codec.DecodeAccount(key, value)
		if err != nil {
			return err
		}
		v.places[l.At()] = len(v.ledger)
		v.ledger = append(v.ledger, l)
		return l.Audit()
	}
	if err := c.Each([]byte{codec.PrefixLedger}, addLedger); err != nil {
		return err
	}
	v.current = len(v.ledger)
	if err := c.Each([]byte{codec.PrefixArchive}, addLedger); err != nil {
		return err
	}
	settings, ok, err := storage.Stored(c, []byte{codec.PrefixSettings}, codec.DecodeSettings)
	if err != nil {
		return err
	}
	if !ok { // a new state
		settings = v.store.settings
	}
	v.settings = &settings
	err = c.Each([]byte{codec.PrefixMarker}, func(key, value []byte) error {
		m, err := codec.DecodeMarker(key, value)
		v.markers = append(v.markers, m)
		return err
	})
	if err != nil {
		return err
	}
	if v.Counters, ok, err = storage.Stored(c, []byte{codec.PrefixCounters}, codec.DecodeCounters); err != nil {
		return err
	}
	if !ok {
		v.Reasons = map[string]int64{}
	}
	if n := len(v.store.samples.All) - int(NumRoles); n != len(v.Classes) {
		if v.Classes != nil {
			return fault.Corrupt("counters are of %d classes, the quotas of %d", len(v.Classes), n)
		}
		v.Classes = make([]codec.ClassCount, n) // nothing was counted yet
	}
	return nil
}

// readRow reads and counts a row.
func (v *scanner) readRow(key, value []byte) error {
	stored, err := codec.DecodeRow(key, value)
	if err != nil {
		return err
	}
	role, id, ok := codec.ParseRowKey(key)
	if !ok {
		return fault.Corrupt("row has the key %x", key)
	}
	place, ok := v.placeOf(&stored)
	if !ok {
		return fault.Corrupt("row at key %x is of %s/%d, incarnation %d, which is not in the ledger", key, stored.Topic,
			stored.Partition, stored.Incarnation)
	}
	if v.settings.Grouped() != (stored.Group != policy.Identity{}) {
		return fault.Corrupt("row at key %x does not fit the quotas or the cap", key)
	}
	if l := &v.ledger[place]; stored.Offset < l.Start || stored.Offset >= l.Next {
		return fault.Corrupt("row of %s/%d has offset %d outside %d..%d", l.Topic, l.Partition, stored.Offset, l.Start,
			l.Next-1)
	}
	r := v.store.samples.Of(role, stored.Group)
	v.row = scanned{Row: stored, role: role, id: id, key: key, value: value, place: place, sample: r.Index,
		rank: r.Rank(id.H(), stored.Weight, stored.Time)}
	if evicted, threshold := v.Of(r.Index); evicted && v.row.rank < threshold {
		return fault.Corrupt("row at key %x has a priority below the threshold", key)
	}
	if r.PerGroup > 0 {
		of := stored.Group
		of[0] ^= byte(role) // the groups of another role are others
		if v.perGroup[of]++; v.perGroup[of] > r.PerGroup && !v.settings.Unsettled {
			return fault.Corrupt("row at key %x is more than the cap allows", key)
		}
	}
	v.counts[place][role]++
	if v.found[r.Index] == 0 || v.row.rank < v.least[r.Index] {
		v.least[r.Index] = v.row.rank
	}
	v.found[r.Index]++
	return nil
}

// count compares the rows found, by partition, with the ledger and with what the samples must hold (I4).
func (s *Store) count(acc *accounts, counts [][NumRoles]int64) error {
	eligible := make([]int64, len(s.samples.All))
	for i, l := range acc.ledger {
		if counts[i] != l.Rows {
			return fault.Corrupt("%s/%d has %d rows by role, the ledger says %d", l.Topic, l.Partition, counts[i], l.Rows)
		}
		for role := range NumRoles {
			eligible[role] += l.Eligible[role]
		}
	}
	for i, class := range acc.Classes {
		eligible[int(NumRoles)+i] = class.Eligible
		eligible[Train] -= class.Eligible
	}
	for i, r := range s.samples.All {
		capacity := int64(r.Capacity)
		evicted, _ := acc.Of(i)
		// Events of one identity share a row, a cap refuses some that there would be room for, and a sample that lost
		// rows to an erasure, or that was given more room, is not full: of those only the bounds are known. A sample
		// that costs as much as it may has fewer rows than there is room for.
		costs := evicted && r.MaxCost > 0
		exact := acc.settings.Identity == "" && r.PerGroup == 0 && !acc.settings.Partial && !costs
		if acc.settings.Unsettled { // more rows than that are on their way out
			capacity, exact = acc.found[i], false
		}
		if exact && acc.found[i] != min(capacity, eligible[i]) || acc.found[i] > min(capacity, eligible[i]) ||
			evicted && acc.found[i] < capacity && !acc.settings.Partial && !costs {
			return fault.Corrupt("sample %s has %d rows of %d events, capacity %d", r.Name(), acc.found[i], eligible[i],
				capacity)
		}
	}
	return nil
}
