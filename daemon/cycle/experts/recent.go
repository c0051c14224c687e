package experts

// recent remembers what came last: limit keys at least, and twice as many at most. Keys are hashes; 0 counts as 1.
type recent[V any] struct {
	now, before hashTable[V]
	limit       int
}

func newRecent[V any](limit int) recent[V] { return recent[V]{limit: limit} }

func (r *recent[V]) get(key uint64) (v V, ok bool) {
	if at := r.now.find(key); at != nil {
		return *at, true
	}
	if at := r.before.find(key); at != nil {
		return *at, true
	}
	return v, false
}

func (r *recent[V]) put(key uint64, v V) {
	if *r.now.place(key) = v; r.now.used >= r.limit {
		// The next ones take the memory of those that are forgotten.
		r.now, r.before = r.before, r.now
		r.now.clear()
	}
}

// hashTable has values by keys that are hashes already: linear probing, at most three quarters full. A map of Go, which
// hashes them once more, took three times as long. The zero value is empty.
type hashTable[V any] struct {
	entries []hashEntry[V] // a power of two
	used    int
}

// hashEntry is a key and its value. The key of an empty entry is noKey.
type hashEntry[V any] struct {
	key   uint64
	value V
}

// firstEntries is how many entries a table begins with. Chosen by hand.
const firstEntries = 64

// find returns the value of a key, nil if it has none. It is good until the next place.
func (t *hashTable[V]) find(key uint64) *V {
	if len(t.entries) == 0 {
		return nil
	}
	if e := t.entry(max(key, noKey+1)); e.key != noKey {
		return &e.value
	}
	return nil
}

// place returns the value of a key, which is new if it has none. It is good until the next place.
func (t *hashTable[V]) place(key uint64) *V {
	key = max(key, noKey+1)
	if len(t.entries) > 0 {
		if e := t.entry(key); e.key != noKey {
			return &e.value
		}
	}
	if t.used++; 4*t.used > 3*len(t.entries) {
		old := t.entries
		t.entries = make([]hashEntry[V], max(firstEntries, 2*len(old)))
		for i := range old {
			if old[i].key != noKey {
				*t.entry(old[i].key) = old[i]
			}
		}
	}
	e := t.entry(key)
	e.key = key
	return &e.value
}

// entry returns the entry of a key, or the free one where it would be.
func (t *hashTable[V]) entry(key uint64) *hashEntry[V] {
	mask := uint64(len(t.entries) - 1)
	for at := key & mask; ; at = (at + 1) & mask {
		if e := &t.entries[at]; e.key == key || e.key == noKey {
			return e
		}
	}
}

// clear empties the table. It keeps its memory.
func (t *hashTable[V]) clear() {
	clear(t.entries)
	t.used = 0
}
