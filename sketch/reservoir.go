package sketch

import (
	"bytes"
	"cmp"
)

// maxRows bounds a sample so that positions fit 32 bits.
const maxRows = 1 << 30

// An entry is what is kept in memory of a sample row: 32 bytes. Samples by identity add a map entry of about 40 bytes.
type entry struct {
	rank   uint64
	id     identity
	ledger int32  // index of the row's partition in Store.ledger
	size   uint32 // bytes of the stored key and value
}

// compare orders entries by rank, then by identity.
func (e *entry) compare(o *entry) int {
	if c := cmp.Compare(e.rank, o.rank); c != 0 {
		return c
	}
	return bytes.Compare(e.id[:], o.id[:])
}

// A reservoir holds the entries of largest rank among all that were offered: a binary heap with the smallest on top.
type reservoir struct {
	rule
	capacity  int
	heap      []entry
	positions map[identity]int32 // of the entries in heap; nil unless events are known by identity
	bytes     int64              // sum of the sizes
	evicted   bool               // whether an entry was ever refused or put out
	threshold uint64             // the largest rank among those, κ
}

// offer adds e unless a full sample holds better entries. It returns whether e was kept and, if that put another one out, which.
// The threshold learns of the loser either way, so that it depends on the set of offers and not on their order.
func (r *reservoir) offer(e entry) (kept bool, out entry, evicted bool) {
	if len(r.heap) < r.capacity {
		r.heap = append(r.heap, e)
		r.bytes += int64(e.size)
		r.up(len(r.heap) - 1)
		return true, entry{}, false
	}
	if r.capacity == 0 || e.compare(&r.heap[0]) < 0 {
		r.lose(e.rank)
		return false, entry{}, false
	}
	out = r.heap[0]
	r.lose(out.rank)
	delete(r.positions, out.id)
	r.bytes += int64(e.size) - int64(out.size)
	r.heap[0] = e
	r.down(0)
	return true, out, true
}

func (r *reservoir) lose(rank uint64) {
	r.evicted = true
	r.threshold = max(r.threshold, rank)
}

// find returns the entry of an identity, or nil. The entry may be changed, but for its rank and id.
func (r *reservoir) find(id identity) *entry {
	if i, ok := r.positions[id]; ok {
		return &r.heap[i]
	}
	return nil
}

// restore makes a heap of the loaded entries.
func (r *reservoir) restore() {
	for i := range r.heap {
		r.bytes += int64(r.heap[i].size)
		r.place(i)
	}
	for i := len(r.heap)/2 - 1; i >= 0; i-- {
		r.down(i)
	}
}

func (r *reservoir) place(i int) {
	if r.positions != nil {
		r.positions[r.heap[i].id] = int32(i)
	}
}

func (r *reservoir) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if r.heap[parent].compare(&r.heap[i]) <= 0 {
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
		if right := least + 1; right < len(r.heap) && r.heap[right].compare(&r.heap[least]) < 0 {
			least = right
		}
		if r.heap[i].compare(&r.heap[least]) <= 0 {
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
