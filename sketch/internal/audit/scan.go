package audit

import (
	"context"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// A Frame is what the cuts of a store are compared with. What it points to must not be resized while it is used; the
// settings count alone where a cut has none, as that of a new state, and in check and state.
type Frame struct {
	Samples  *reservoir.Samples
	Settings *policy.Settings
	Progress storage.Progress // may be nil
}

// Accounts are a consistent cut of ledger and counters. The ledger is ordered by topic and partition, the first current
// rows; those of incarnations that are over follow.
type Accounts struct {
	Ledger   []ledger.Account
	Current  int
	Markers  []ledger.Marker
	Settings *policy.Settings
	Found    []int64  // rows by sample, as in reservoir.Samples
	Least    []uint64 // and the smallest rank among them
	codec.Counters
}

// A Scanned row is valid during the call that gets it.
type Scanned struct {
	codec.Row
	Role       ledger.Role
	ID         policy.Identity
	key, value []byte
	Place      int // index of the partition in accounts.ledger
	Sample     int // index in reservoir.Samples
	Rank       uint64
}

// Size returns the bytes of the stored key and value.
func (row *Scanned) Size() uint32 { return uint32(len(row.key) + len(row.value)) }

// Scan reads a cut: the accounts, then every sample row in the order of role and identity. It checks what can be
// checked along the way: checksums, that the accounts add up, that each row belongs to a partition and was applied, and
// that there are as many as the ledger says.
// A database that lost rows iterates without an error; the counts are what notices.
func (f *Frame) Scan(ctx context.Context, c storage.Cut, visit func(*Scanned) error) (*Accounts, error) {
	v := scanner{Accounts: &Accounts{}, of: f, places: map[ledger.Incarnation]int{},
		perGroup: map[policy.Identity]int{}}
	if err := v.readAccounts(c); err != nil {
		return nil, err
	}
	v.Found, v.Least, v.counts = make([]int64, len(f.Samples.All)), make([]uint64,
		len(f.Samples.All)), make([][ledger.NumRoles]int64, len(v.Ledger))
	n, total := int64(0), v.numRows()
	err := c.Each([]byte{codec.PrefixRow}, func(key, value []byte) error {
		if n%storage.ProgressEvery == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			storage.Report(f.Progress, "rows", n, total)
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
	return v.Accounts, f.count(v.Accounts, v.counts)
}

// numRows returns how many rows the ledger says there are.
func (a *Accounts) numRows() (n int64) {
	for i := range a.Ledger {
		for _, rows := range a.Ledger[i].Rows {
			n += rows
		}
	}
	return n
}

// A scanner is the state of one scan.
type scanner struct {
	*Accounts
	of       *Frame
	places   map[ledger.Incarnation]int // in the ledger
	counts   [][ledger.NumRoles]int64   // rows by place
	perGroup map[policy.Identity]int
	row      Scanned // the last one
}

// placeOf returns the place of a row's partition in the ledger. Neighbours are mostly of one partition.
func (v *scanner) placeOf(row *codec.Row) (place int, ok bool) {
	if last := &v.row; last.Topic != nil && last.Partition == row.Partition && last.Incarnation == row.Incarnation &&
		v.Ledger[last.Place].Topic == string(row.Topic) {
		return last.Place, true
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
		v.places[l.At()] = len(v.Ledger)
		v.Ledger = append(v.Ledger, l)
		return l.Audit()
	}
	if err := c.Each([]byte{codec.PrefixLedger}, addLedger); err != nil {
		return err
	}
	v.Current = len(v.Ledger)
	if err := c.Each([]byte{codec.PrefixArchive}, addLedger); err != nil {
		return err
	}
	settings, ok, err := storage.Stored(c, []byte{codec.PrefixSettings}, codec.DecodeSettings)
	if err != nil {
		return err
	}
	if !ok { // a new state
		settings = *v.of.Settings
	}
	v.Settings = &settings
	err = c.Each([]byte{codec.PrefixMarker}, func(key, value []byte) error {
		m, err := codec.DecodeMarker(key, value)
		v.Markers = append(v.Markers, m)
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
	if n := len(v.of.Samples.All) - int(ledger.NumRoles); n != len(v.Classes) {
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
	if v.Settings.Grouped() != (stored.Group != policy.Identity{}) {
		return fault.Corrupt("row at key %x does not fit the quotas or the cap", key)
	}
	if l := &v.Ledger[place]; stored.Offset < l.Start || stored.Offset >= l.Next {
		return fault.Corrupt("row of %s/%d has offset %d outside %d..%d", l.Topic, l.Partition, stored.Offset, l.Start,
			l.Next-1)
	}
	r := v.of.Samples.Of(role, stored.Group)
	v.row = Scanned{Row: stored, Role: role, ID: id, key: key, value: value, Place: place, Sample: r.Index,
		Rank: r.Rank(id.H(), stored.Weight, stored.Time)}
	if evicted, threshold := v.Of(r.Index); evicted && v.row.Rank < threshold {
		return fault.Corrupt("row at key %x has a priority below the threshold", key)
	}
	if stubs := v.of.Samples.StubsOf(role); stubs != nil {
		if evicted, threshold := v.Of(stubs.Index); evicted && v.row.Rank <= threshold && !v.Settings.Unsettled {
			return fault.Corrupt("row at key %x has a priority below the threshold of outcomes", key)
		}
	}
	if r.PerGroup > 0 {
		of := stored.Group
		of[0] ^= byte(role) // the groups of another role are others
		if v.perGroup[of]++; v.perGroup[of] > r.PerGroup && !v.Settings.Unsettled {
			return fault.Corrupt("row at key %x is more than the cap allows", key)
		}
	}
	v.counts[place][role]++
	if v.Found[r.Index] == 0 || v.row.Rank < v.Least[r.Index] {
		v.Least[r.Index] = v.row.Rank
	}
	v.Found[r.Index]++
	return nil
}

// count compares the rows found, by partition, with the ledger and with what the samples must hold (I4).
func (f *Frame) count(acc *Accounts, counts [][ledger.NumRoles]int64) error {
	eligible := make([]int64, len(f.Samples.All))
	for i, l := range acc.Ledger {
		if counts[i] != l.Rows {
			return fault.Corrupt("%s/%d has %d rows by role, the ledger says %d", l.Topic, l.Partition, counts[i], l.Rows)
		}
		for role := range ledger.NumRoles {
			eligible[role] += l.Eligible[role]
		}
	}
	for i, class := range acc.Classes {
		if f.Samples.All[int(ledger.NumRoles)+i].Stubs {
			continue
		}
		eligible[int(ledger.NumRoles)+i] = class.Eligible
		eligible[ledger.Train] -= class.Eligible
	}
	for i, r := range f.Samples.All {
		if r.Stubs {
			continue
		}
		capacity := int64(r.Capacity)
		evicted, _ := acc.Of(i)
		// What came of an event may have been given up, and the event with it: see package sketch, join.go.
		joined := f.Settings.Joined()
		// Events of one identity share a row, a cap refuses some that there would be room for, and a sample that lost
		// rows to an erasure, or that was given more room, is not full: of those only the bounds are known. A sample
		// that costs as much as it may has fewer rows than there is room for.
		costs := evicted && r.MaxCost > 0
		exact := acc.Settings.Identity == "" && r.PerGroup == 0 && !acc.Settings.Partial && !costs
		if acc.Settings.Unsettled { // more rows than that are on their way out
			capacity, exact = acc.Found[i], false
		}
		if exact && acc.Found[i] != min(capacity, eligible[i]) || acc.Found[i] > min(capacity, eligible[i]) ||
			evicted && acc.Found[i] < capacity && !acc.Settings.Partial && !costs && !joined {
			return fault.Corrupt("sample %s has %d rows of %d events, capacity %d", r.Name(), acc.Found[i], eligible[i],
				capacity)
		}
	}
	return nil
}
