package sketch

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/refitd/refitd/sketch/internal/policy"
)

// maxRows bounds a sample so that positions fit 32 bits.
const maxRows = 1 << 30

// An entry is what is kept in memory of a sample row: 40 bytes. Samples by identity add a map entry of about 40 bytes,
// those with a cap two of them and 24 bytes.
type entry struct {
	ranked
	ledger int32  // index of the row's partition in Store.ledger
	size   uint32 // bytes of the stored key and value
	cost   uint32 // see Options.Cost
}

// ranked is what orders entries: by rank, then by identity.
type ranked struct {
	rank uint64
	id   policy.Identity
}

func (a *ranked) compare(b *ranked) int {
	if c := cmp.Compare(a.rank, b.rank); c != 0 {
		return c
	}
	return bytes.Compare(a.id[:], b.id[:])
}

func descending(a, b ranked) int { return -a.compare(&b) }

// A reservoir holds the entries of largest rank among all that were offered: a binary heap with the smallest on top.
// With a cap it holds the largest among the perGroup largest of each group. Either way it is a function of the set of
// offers: what left once had as many better ones ahead of it as there is room for, and they only ever leave for still
// better ones.
type reservoir struct {
	policy.Rule
	role      Role
	index     int    // in Store.all
	class     string // with a quota; "" elsewhere
	capacity  int
	perGroup  int // entries of one group at most; 0 = any number
	heap      []entry
	positions map[policy.Identity]int32      // of the entries in heap; nil unless they are looked up
	groups    map[policy.Identity]*groupRows // by group; nil without a cap
	owners    map[policy.Identity]*groupRows // by entry; nil without a cap
	bytes     int64                          // sum of the sizes
	cost      int64                          // sum of the costs
	maxCost   int64                          // 0 = any
	out       []entry                        // what the last offer put out
	evicted   bool                           // whether an entry was ever refused or put out for want of room
	threshold uint64                         // the largest rank among those, κ
	eligible  int64                          // events of a class with a quota; unused elsewhere
}

// groupRows are the entries of one group, the smallest last.
type groupRows struct {
	group policy.Identity
	rows  []ranked
}

// offer adds e unless better entries take all the room. It returns whether e was kept and which others that put out,
// valid until the next call. The threshold learns of the loser either way, so that it depends on the set of offers and
// not on their order; it learns nothing of what a cap puts out. A sample that erasure or a larger capacity left with
// room takes what is above its threshold alone:
// anything else would be kept with another chance than its equals, which were refused before.
func (r *reservoir) offer(e entry, group policy.Identity) (kept bool, out []entry) {
	r.out = r.out[:0]
	if g := r.groups[group]; g != nil && len(g.rows) >= r.perGroup {
		least := g.rows[len(g.rows)-1]
		if e.compare(&least) < 0 {
			return false, nil
		}
		r.out = append(r.out, r.remove(int(r.positions[least.id])))
		r.insert(e, group)
		return true, r.out
	}
	if len(r.heap) < r.capacity {
		if r.evicted && e.rank <= r.threshold {
			return false, nil
		}
		r.insert(e, group)
		return r.lighten(e.id)
	}
	if r.capacity == 0 || e.compare(&r.heap[0].ranked) < 0 {
		r.lose(e.rank)
		return false, nil
	}
	least := r.heap[0]
	r.out = append(r.out, least)
	r.lose(least.rank)
	r.forgetEntry(&least)
	r.bytes += int64(e.size) - int64(least.size)
	r.cost += int64(e.cost) - int64(least.cost)
	r.heap[0] = e
	r.join(&e, group)
	r.down(0)
	return r.lighten(e.id)
}

// lighten puts out the least entries until the rest cost no more than they may. Those that stay are the longest run,
// from the largest rank down, that costs as much at most: the first that is not in it, and what is below, never enters
// again, for it is not above the threshold. kept is whether the entry just added is among them.
func (r *reservoir) lighten(added policy.Identity) (kept bool, out []entry) {
	kept = true
	for r.maxCost > 0 && r.cost > r.maxCost {
		least := r.remove(0)
		r.lose(least.rank)
		if least.id == added {
			kept = false
		} else {
			r.out = append(r.out, least)
		}
	}
	return kept, r.out
}

func (r *reservoir) lose(rank uint64) {
	r.evicted = true
	r.threshold = max(r.threshold, rank)
}

func (r *reservoir) insert(e entry, group policy.Identity) {
	r.heap = append(r.heap, e)
	r.bytes += int64(e.size)
	r.cost += int64(e.cost)
	r.join(&e, group)
	r.up(len(r.heap) - 1)
}

// seal makes the threshold, which under a cap depends on the order of offers, the one that depends on their set: just
// below the least row of a full sample. It is called, and stored, before rows are taken out for another reason than a
// better one.
func (r *reservoir) seal() {
	if r.perGroup > 0 && r.evicted && len(r.heap) >= r.capacity && r.capacity > 0 {
		r.threshold = max(r.threshold, r.heap[0].rank-1)
	}
}

func (s *Store) sealAll() {
	for _, r := range s.all {
		r.seal()
	}
	s.pending.counted = true
}

// remove takes out the entry at heap[i].
func (r *reservoir) remove(i int) entry {
	out, last := r.heap[i], len(r.heap)-1
	r.forgetEntry(&out)
	r.bytes -= int64(out.size)
	r.cost -= int64(out.cost)
	r.heap[i] = r.heap[last]
	r.heap = r.heap[:last]
	if i < last {
		r.down(i)
		r.up(i)
	}
	return out
}

// join enters e into its group. It does nothing without a cap.
func (r *reservoir) join(e *entry, group policy.Identity) {
	if r.perGroup == 0 {
		return
	}
	g := r.groups[group]
	if g == nil {
		g = &groupRows{group: group}
		r.groups[group] = g
	}
	at, _ := slices.BinarySearchFunc(g.rows, e.ranked, descending)
	g.rows = slices.Insert(g.rows, at, e.ranked)
	r.owners[e.id] = g
}

func (r *reservoir) forgetEntry(e *entry) {
	delete(r.positions, e.id)
	g := r.owners[e.id]
	if g == nil {
		return
	}
	delete(r.owners, e.id)
	if at, ok := slices.BinarySearchFunc(g.rows, e.ranked, descending); ok {
		g.rows = slices.Delete(g.rows, at, at+1)
	}
	if len(g.rows) == 0 {
		delete(r.groups, g.group)
	}
}

// find returns the entry of an identity, or nil. The entry may be changed, but for its rank and id.
func (r *reservoir) find(id policy.Identity) *entry {
	if i, ok := r.positions[id]; ok {
		return &r.heap[i]
	}
	return nil
}

// name is for messages.
func (r *reservoir) name() string {
	if r.class != "" {
		return fmt.Sprintf("%s of class %q", r.role, r.class)
	}
	return r.role.String()
}

// load adds an entry of a stored row; restore makes a heap of all of them.
func (r *reservoir) load(e entry, group policy.Identity) {
	r.heap = append(r.heap, e)
	r.join(&e, group)
}

func (r *reservoir) restore() {
	r.bytes, r.cost = 0, 0
	for i := range r.heap {
		r.bytes += int64(r.heap[i].size)
		r.cost += int64(r.heap[i].cost)
		r.place(i)
	}
	for i := len(r.heap)/2 - 1; i >= 0; i-- {
		r.down(i)
	}
}

// surplus returns the entries that a smaller capacity or cap has no room for, the smallest first, and how many of them,
// at the end, are the losers of the whole sample, of which the threshold has to learn. They are still in the reservoir.
func (r *reservoir) surplus() (out []entry, losers int) {
	over := map[policy.Identity]bool{}
	for _, g := range r.groups {
		for _, row := range g.rows[min(len(g.rows), r.perGroup):] {
			over[row.id] = true
		}
	}
	var rest []entry
	for _, e := range r.heap {
		if over[e.id] {
			out = append(out, e)
		} else {
			rest = append(rest, e)
		}
	}
	smallest := func(a, b entry) int { return a.compare(&b.ranked) }
	slices.SortFunc(out, smallest) // in one order, whatever the heap's is
	if len(rest) <= r.capacity && !r.isOver() {
		return out, 0
	}
	slices.SortFunc(rest, smallest)
	cost := r.cost
	for losers = 0; len(rest)-losers > r.capacity || r.maxCost > 0 && cost > r.maxCost; losers++ {
		cost -= int64(rest[losers].cost)
	}
	return append(out, rest[:losers]...), losers
}

// isOver reports whether the entries cost more than they may.
func (r *reservoir) isOver() bool { return r.maxCost > 0 && r.cost > r.maxCost }

// discard removes entries, in O(n) at once.
func (r *reservoir) discard(ids map[policy.Identity]bool) {
	r.heap = slices.DeleteFunc(r.heap, func(e entry) bool {
		if ids[e.id] {
			r.forgetEntry(&e)
			return true
		}
		return false
	})
	r.restore()
}

func (r *reservoir) place(i int) {
	if r.positions != nil {
		r.positions[r.heap[i].id] = int32(i)
	}
}

func (r *reservoir) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if r.heap[parent].compare(&r.heap[i].ranked) <= 0 {
			break
		}
		r.heap[parent], r.heap[i] = r.heap[i], r.heap[parent]
		r.place(i)
		i = parent
	}
	r.place(i)
}

func (r *reservoir) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(r.heap) {
			break
		}
		if right := least + 1; right < len(r.heap) && r.heap[right].compare(&r.heap[least].ranked) < 0 {
			least = right
		}
		if r.heap[i].compare(&r.heap[least].ranked) <= 0 {
			break
		}
		r.heap[i], r.heap[least] = r.heap[least], r.heap[i]
		r.place(i)
		i = least
	}
	if i < len(r.heap) {
		r.place(i)
	}
}

// makeReservoirs makes the empty samples: one for each role, one for each class with a quota.
func (s *Store) makeReservoirs() {
	add := func(role Role, halfLife time.Duration, class string) *reservoir {
		r := &reservoir{Rule: policy.NewRule(&s.settings, halfLife), role: role, index: len(s.all), class: class}
		if s.settings.Identity != "" || s.settings.CapBy != "" || s.merges {
			r.positions = map[policy.Identity]int32{}
		}
		if s.settings.CapBy != "" {
			r.groups, r.owners = map[policy.Identity]*groupRows{}, map[policy.Identity]*groupRows{}
		}
		s.all = append(s.all, r)
		return r
	}
	add(Train, s.settings.HalfLife, "")
	add(Select, s.settings.HoldoutHalfLife, "")
	add(Gate, s.settings.HoldoutHalfLife, "")
	draw := policy.NewDrawer(s.settings.Seed, 0)
	for _, q := range s.settings.Quotas {
		sum := draw.ByBytes(policy.DomainGroup, []byte(q.Class))
		if s.classes == nil {
			s.classes = map[policy.Identity]*reservoir{}
		}
		s.classes[policy.Identity(sum[:16])] = add(Train, s.settings.HalfLife, q.Class)
	}
	resize(&s.settings, s.all)
}

// resize sets the capacities, caps and costs of samples, and reports whether one of them has room for more rows than
// before. The rows without a quota may have even when Size shrinks: those with one are rounded up, which may leave 0 of
// 10 rows but 1 of 9 to them. Select has one row more than Gate where HoldoutSize is odd.
func resize(s *policy.Settings, all []*reservoir) (grows bool) {
	was, cost := make([]int, len(all)), make([]int64, len(all))
	for i, r := range all {
		was[i], cost[i] = r.capacity, r.maxCost
	}
	all[Train].capacity, all[Select].capacity, all[Gate].capacity = s.Size, s.HoldoutSize-s.HoldoutSize/2, s.HoldoutSize/2
	for i, q := range s.Quotas {
		n := policy.ShareOf(q.Share, s.Size)
		all[int(NumRoles)+i].capacity = n
		all[Train].capacity = max(0, all[Train].capacity-n)
	}
	for _, r := range all {
		if s.CapBy != "" {
			r.perGroup = max(1, policy.ShareOf(s.CapShare, r.capacity))
		}
	}
	for i, r := range all {
		r.maxCost = 0
		if s.MaxCost > 0 && s.Identity == "" && s.CapBy == "" {
			r.maxCost = max(1, int64(float64(s.MaxCost)*float64(r.capacity)/float64(s.Size)))
		}
		lighter := cost[i] > 0 && (r.maxCost == 0 || r.maxCost > cost[i])
		grows = grows || r.capacity > was[i] || lighter && r.evicted && len(r.heap) < was[i]
	}
	return grows
}
