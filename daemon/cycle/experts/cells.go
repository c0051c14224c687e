package experts

import "math"

// cell is what is known of the weight of one name, or pair of names: a Gaussian likelihood of it.
type cell struct {
	key      uint64
	evidence float64 // precision, without the prior's
	right    float64
	count    uint32 // events it was in
	credit   uint16
	term     uint16
	names    [2]uint32 // the low halves of the hashes of the names of a pair: by these its names are found again
}

// add takes up an event.
func (c *cell) add(evidence, right float64) {
	c.evidence += evidence
	c.right += right
	c.count = min(c.count, math.MaxUint32-1) + 1
	c.credit = min(c.credit, math.MaxUint16-1) + 1
}

// noKey is that of an empty cell. That defines an empty cell.
const noKey = 0

// cellBytes is the size of a cell, bucketCells how many share a bucket. Measured: the sizes. The others are chosen by
// hand.
const (
	cellBytes   = 40
	bucketCells = 4
	firstCells  = 1024
	termBytes   = 400 // of a field or pair of fields
)

// cells has the cells of the keys that come most often, up to a limit: where a bucket is full a further key costs the
// cell that has come least often a credit, and takes its place when it has none left (after Misra and Gries 1982).
// Memory grows with the keys. All operations are O(1).
type cells struct {
	List  []cell
	limit int
}

// newCells returns an empty table of at most limit cells, or the power of two below that.
func newCells(limit int) cells {
	return cells{List: make([]cell, min(firstCells, cellLimit(limit))), limit: cellLimit(limit)}
}

// cellLimit returns the largest power of two up to limit, at least one bucket.
func cellLimit(limit int) int {
	n := bucketCells
	for 2*n <= limit {
		n *= 2
	}
	return n
}

func (t *cells) bucket(key uint64) []cell {
	at := int(key) & (len(t.List) - bucketCells)
	return t.List[at : at+bucketCells : at+bucketCells]
}

// find returns the cell of a key, nil if it has none. It is good until the next insert.
func (t *cells) find(key uint64) *cell {
	b := t.bucket(key)
	for i := range b {
		if b[i].key == key {
			return &b[i]
		}
	}
	return nil
}

// insert returns an empty cell for a key that has none, or nil where others come more often.
func (t *cells) insert(key uint64, term uint16) *cell {
	b := t.bucket(key)
	for i := range b {
		if b[i].key == noKey {
			b[i] = cell{key: key, credit: 1, term: term}
			return &b[i]
		}
	}
	if len(t.List) < t.limit {
		t.double()
		return t.insert(key, term)
	}
	least := &b[0]
	for i := range b {
		if b[i].credit < least.credit {
			least = &b[i]
		}
	}
	if least.credit > 0 {
		least.credit--
		return nil
	}
	*least = cell{key: key, credit: 1, term: term}
	return least
}

// double makes room for twice as many. No bucket gets more than it had.
func (t *cells) double() {
	old := t.List
	t.List = make([]cell, 2*len(old))
	for i := range old {
		if old[i].key == noKey {
			continue
		}
		b := t.bucket(old[i].key)
		for at := range b {
			if b[at].key == noKey {
				b[at] = old[i]
				break
			}
		}
	}
}

// remove empties the cells of a term.
func (t *cells) remove(term int) {
	for i := range t.List {
		if t.List[i].key != noKey && int(t.List[i].term) == term {
			t.List[i] = cell{}
		}
	}
}

// nameHash returns the FNV-1a hash of a name, as hash/fnv does, which would allocate. Which names a full table keeps
// depends on it: it has no seed.
func nameHash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}
