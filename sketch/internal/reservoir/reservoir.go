package reservoir

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/policy"
)

// MaxRows bounds a sample so that positions fit 32 bits.
const MaxRows = 1 << 30

// An Entry is what is kept in memory of a sample row: 40 bytes. Samples by identity add a map entry of about 40 bytes,
// those with a cap two of them and 24 bytes.
type Entry struct {
	ranked
	Place int32  // of the row's partition in the ledger
	size  uint32 // bytes of the stored key and value
	Cost  uint32 // see Options.Cost
}

// MakeEntry returns the entry of a row of a partition's place in the ledger, with what it takes stored and costs.
func MakeEntry(rank uint64, id policy.Identity, place int32, size, cost uint32) Entry {
	return Entry{ranked: ranked{Rank: rank, ID: id}, Place: place, size: size, Cost: cost}
}

// ranked is what orders entries: by rank, then by identity.
type ranked struct {
	Rank uint64
	ID   policy.Identity
}

func (a *ranked) compare(b *ranked) int {
	if c := cmp.Compare(a.Rank, b.Rank); c != 0 {
		return c
	}
	return bytes.Compare(a.ID[:], b.ID[:])
}

func descending(a, b ranked) int { return -a.compare(&b) }

// BySmallest orders entries, the one that leaves first as the first.
func BySmallest(a, b Entry) int { return a.compare(&b.ranked) }

// A Reservoir holds the entries of largest rank among all that were offered: a binary heap with the smallest on top.
// With a cap it holds the largest among the perGroup largest of each group. Either way it is a function of the set of
// offers: what left once had as many better ones ahead of it as there is room for, and they only ever leave for still
// better ones.
type Reservoir struct {
	policy.Rule
	Role      ledger.Role
	Index     int    // in Samples.All
	Class     string // with a quota; "" elsewhere
	Stubs     bool   // its entries are keys of outcomes, not rows
	Capacity  int
	PerGroup  int // entries of one group at most; 0 = any number
	Entries   []Entry
	positions map[policy.Identity]int32      // of the entries in heap; nil unless they are looked up
	groups    map[policy.Identity]*groupRows // by group; nil without a cap
	owners    map[policy.Identity]*groupRows // by entry; nil without a cap
	Bytes     int64                          // sum of the sizes
	cost      int64                          // sum of the costs
	MaxCost   int64                          // 0 = any
	out       []Entry                        // what the last offer put out
	Evicted   bool                           // whether an entry was ever refused or put out for want of room
	Threshold uint64                         // the largest rank among those, κ
	Eligible  int64                          // events of a class with a quota; unused elsewhere
}

// groupRows are the entries of one group, the smallest last.
type groupRows struct {
	group policy.Identity
	rows  []ranked
}

// Offer adds e unless better entries take all the room. It returns whether e was kept and which others that put out,
// valid until the next call. The threshold learns of the loser either way, so that it depends on the set of offers and
// not on their order; it learns nothing of what a cap puts out. A sample that erasure or a larger capacity left with
// room takes what is above its threshold alone:
// anything else would be kept with another chance than its equals, which were refused before.
func (r *Reservoir) Offer(e Entry, group policy.Identity) (kept bool, out []Entry) {
	r.out = r.out[:0]
	if g := r.groups[group]; g != nil && len(g.rows) >= r.PerGroup {
		least := g.rows[len(g.rows)-1]
		if e.compare(&least) < 0 {
			return false, nil
		}
		r.out = append(r.out, r.remove(int(r.positions[least.ID])))
		r.insert(e, group)
		return true, r.out
	}
	if r.refuse(&e.ranked) {
		return false, nil
	}
	if r.hasRoom() {
		r.insert(e, group)
		return r.lighten(e.ID)
	}
	least := r.Entries[0]
	r.out = append(r.out, least)
	r.Lose(least.Rank)
	r.forgetEntry(&least)
	r.Bytes += int64(e.size) - int64(least.size)
	r.cost += int64(e.Cost) - int64(least.Cost)
	r.Entries[0] = e
	r.join(&e, group)
	r.down(0)
	return r.lighten(e.ID)
}

// Refuse is Offer for an entry that the reservoir does not take. It reports whether it is one, for which Offer need not
// be called; false where that takes more than rank and identity to say. An event of an identity that has an entry has
// its rank, which is no less than the least, nor than the threshold.
func (r *Reservoir) Refuse(rank uint64, id policy.Identity) bool {
	isTie := r.positions != nil && rank == r.Threshold
	return !isTie && r.PerGroup == 0 && r.refuse(&ranked{Rank: rank, ID: id})
}

func (r *Reservoir) hasRoom() bool { return len(r.Entries) < r.Capacity }

// refuse reports whether an entry has too small a rank, and has the threshold learn of it.
func (r *Reservoir) refuse(e *ranked) bool {
	if r.hasRoom() {
		return r.Evicted && e.Rank <= r.Threshold
	}
	if r.Capacity > 0 && e.compare(&r.Entries[0].ranked) >= 0 {
		return false
	}
	r.Lose(e.Rank)
	return true
}

// lighten puts out the least entries until the rest cost no more than they may. Those that stay are the longest run,
// from the largest rank down, that costs as much at most: the first that is not in it, and what is below, never enters
// again, for it is not above the threshold. kept is whether the entry just added is among them.
func (r *Reservoir) lighten(added policy.Identity) (kept bool, out []Entry) {
	kept = true
	for r.MaxCost > 0 && r.cost > r.MaxCost {
		least := r.remove(0)
		r.Lose(least.Rank)
		if least.ID == added {
			kept = false
		} else {
			r.out = append(r.out, least)
		}
	}
	return kept, r.out
}

// Lose has the threshold learn of a rank that was refused or put out.
func (r *Reservoir) Lose(rank uint64) {
	r.Evicted = true
	r.Threshold = max(r.Threshold, rank)
}

func (r *Reservoir) insert(e Entry, group policy.Identity) {
	r.Entries = append(r.Entries, e)
	r.Bytes += int64(e.size)
	r.cost += int64(e.Cost)
	r.join(&e, group)
	r.up(len(r.Entries) - 1)
}

// seal makes the threshold, which under a cap depends on the order of offers, the one that depends on their set: just
// below the least row of a full sample. It is called, and stored, before rows are taken out for another reason than a
// better one.
func (r *Reservoir) seal() { r.Threshold = r.Sealed() }

// Sealed returns what seal makes the threshold.
func (r *Reservoir) Sealed() uint64 {
	if r.PerGroup > 0 && r.Evicted && len(r.Entries) >= r.Capacity && r.Capacity > 0 {
		return max(r.Threshold, r.Entries[0].Rank-1)
	}
	return r.Threshold
}

// IsFull reports whether the reservoir has all the rows that it may have, after more offers than those.
func (r *Reservoir) IsFull() bool {
	heavy := r.MaxCost > 0 && r.cost > r.MaxCost-r.MaxCost/8 // what was put out last left at most a row's room
	return r.Evicted && r.Capacity > 0 && (len(r.Entries) >= r.Capacity || heavy)
}

// Below returns the entries below a rank, the one that leaves first as the first. They are still in the reservoir.
func (r *Reservoir) Below(rank uint64) []Entry {
	var below []Entry
	for _, e := range r.Entries {
		if e.Rank < rank {
			below = append(below, e)
		}
	}
	slices.SortFunc(below, BySmallest)
	return below
}

// Least returns the entry that leaves first; nil of an empty reservoir.
func (r *Reservoir) Least() *Entry {
	if len(r.Entries) == 0 {
		return nil
	}
	return &r.Entries[0]
}

// Lift takes out the entry that leaves first, of which the threshold learns.
func (r *Reservoir) Lift() Entry {
	least := r.remove(0)
	r.Lose(least.Rank)
	return least
}

// Excludes reports whether the threshold is at a rank or above it.
func (r *Reservoir) Excludes(rank uint64) bool { return r.Evicted && rank <= r.Threshold }

// Take takes out the entry of an identity, if there is one, of which the threshold does not learn.
func (r *Reservoir) Take(id policy.Identity) bool {
	i, ok := r.positions[id]
	if ok {
		r.remove(int(i))
	}
	return ok
}

// remove takes out the entry at heap[i].
func (r *Reservoir) remove(i int) Entry {
	out, last := r.Entries[i], len(r.Entries)-1
	r.forgetEntry(&out)
	r.Bytes -= int64(out.size)
	r.cost -= int64(out.Cost)
	r.Entries[i] = r.Entries[last]
	r.Entries = r.Entries[:last]
	if i < last {
		r.down(i)
		r.up(i)
	}
	return out
}

// join enters e into its group. It does nothing without a cap.
func (r *Reservoir) join(e *Entry, group policy.Identity) {
	if r.PerGroup == 0 {
		return
	}
	g := r.groups[group]
	if g == nil {
		g = &groupRows{group: group}
		r.groups[group] = g
	}
	at, _ := slices.BinarySearchFunc(g.rows, e.ranked, descending)
	g.rows = slices.Insert(g.rows, at, e.ranked)
	r.owners[e.ID] = g
}

func (r *Reservoir) forgetEntry(e *Entry) {
	delete(r.positions, e.ID)
	g := r.owners[e.ID]
	if g == nil {
		return
	}
	delete(r.owners, e.ID)
	if at, ok := slices.BinarySearchFunc(g.rows, e.ranked, descending); ok {
		g.rows = slices.Delete(g.rows, at, at+1)
	}
	if len(g.rows) == 0 {
		delete(r.groups, g.group)
	}
}

// Find returns the entry of an identity, or nil. The entry may be changed, but for its rank and id.
func (r *Reservoir) Find(id policy.Identity) *Entry {
	if i, ok := r.positions[id]; ok {
		return &r.Entries[i]
	}
	return nil
}

// Replace makes an entry that find returned that of another row of its identity: its rank is the same.
func (r *Reservoir) Replace(old *Entry, by *Entry) {
	r.Bytes += int64(by.size) - int64(old.size)
	r.cost += int64(by.Cost) - int64(old.Cost)
	old.Place, old.size, old.Cost = by.Place, by.size, by.Cost
}

// Name is for messages.
func (r *Reservoir) Name() string {
	if r.Stubs {
		return "outcomes of " + r.Role.String()
	}
	if r.Class != "" {
		return fmt.Sprintf("%s of class %q", r.Role, r.Class)
	}
	return r.Role.String()
}

// Load adds an entry of a stored row; restore makes a heap of all of them.
func (r *Reservoir) Load(e Entry, group policy.Identity) {
	r.Entries = append(r.Entries, e)
	r.join(&e, group)
}

// Restore makes a heap of what Load has added.
func (r *Reservoir) Restore() {
	r.Bytes, r.cost = 0, 0
	for i := range r.Entries {
		r.Bytes += int64(r.Entries[i].size)
		r.cost += int64(r.Entries[i].Cost)
		r.place(i)
	}
	for i := len(r.Entries)/2 - 1; i >= 0; i-- {
		r.down(i)
	}
}

// Surplus returns the entries that a smaller capacity or cap has no room for, the smallest first, and how many of them,
// at the end, are the losers of the whole sample, of which the threshold has to learn. They are still in the reservoir.
func (r *Reservoir) Surplus() (out []Entry, losers int) {
	over := map[policy.Identity]bool{}
	for _, g := range r.groups {
		for _, row := range g.rows[min(len(g.rows), r.PerGroup):] {
			over[row.ID] = true
		}
	}
	var rest []Entry
	for _, e := range r.Entries {
		if over[e.ID] {
			out = append(out, e)
		} else {
			rest = append(rest, e)
		}
	}
	slices.SortFunc(out, BySmallest) // in one order, whatever the heap's is
	if len(rest) <= r.Capacity && !r.IsOver() {
		return out, 0
	}
	slices.SortFunc(rest, BySmallest)
	cost := r.cost
	for losers = 0; len(rest)-losers > r.Capacity || r.MaxCost > 0 && cost > r.MaxCost; losers++ {
		cost -= int64(rest[losers].Cost)
	}
	return append(out, rest[:losers]...), losers
}

// IsOver reports whether the entries cost more than they may.
func (r *Reservoir) IsOver() bool { return r.MaxCost > 0 && r.cost > r.MaxCost }

// Discard removes entries, in O(n) at once.
func (r *Reservoir) Discard(ids map[policy.Identity]bool) {
	r.Entries = slices.DeleteFunc(r.Entries, func(e Entry) bool {
		if ids[e.ID] {
			r.forgetEntry(&e)
			return true
		}
		return false
	})
	r.Restore()
}

func (r *Reservoir) place(i int) {
	if r.positions != nil {
		r.positions[r.Entries[i].ID] = int32(i)
	}
}

func (r *Reservoir) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if r.Entries[parent].compare(&r.Entries[i].ranked) <= 0 {
			break
		}
		r.Entries[parent], r.Entries[i] = r.Entries[i], r.Entries[parent]
		r.place(i)
		i = parent
	}
	r.place(i)
}

func (r *Reservoir) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(r.Entries) {
			break
		}
		if right := least + 1; right < len(r.Entries) && r.Entries[right].compare(&r.Entries[least].ranked) < 0 {
			least = right
		}
		if r.Entries[i].compare(&r.Entries[least].ranked) <= 0 {
			break
		}
		r.Entries[i], r.Entries[least] = r.Entries[least], r.Entries[i]
		r.place(i)
		i = least
	}
	if i < len(r.Entries) {
		r.place(i)
	}
}
