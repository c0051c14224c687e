package admission

import (
	"hash/maphash"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// How floods of copies are found. All are chosen by hand, on seventeen kinds of streams: of none but the flood is an
// event left out. In most no event comes again; where some do, 512 events have at most 2.8 standard errors more of them
// than is expected.
const (
	copiesWindow   = 512     // events that are compared with those before
	copiesShare    = 0.25    // of the new events that are expected, which has to be missing, or as many as come again
	copiesErrors   = 4       // standard errors, as which more have to be missing
	copiesLeast    = 16      // events, as which more have to be missing: of fewer nobody has to hear
	copiesMemory   = 1 << 15 // events that are remembered
	copyEntryBytes = 24      // of an event that is remembered; measured, a test compares it
	copiesMarked   = 1 << 13 // events of which copies were left out that are known at least; twice as many at most
	markedBytes    = 40      // of one of these
)

// CopiesFootprint bounds the bytes of the events that a model remembers to find copies.
func CopiesFootprint(m *config.Model) int64 {
	if !hasCopies(m) {
		return 0
	}
	return copiesMemory*copyEntryBytes + 2*copiesMarked*markedBytes
}

// hasCopies reports whether copies are looked for: a model of numbers has no share.
func hasCopies(m *config.Model) bool {
	return (m.Train.Cap.Share > 0 || len(m.Schema.Categorical) == 0) && m.ChosenField() < 0
}

// copies finds events that come again in a flood, as where a log is sent again or a producer is stuck. Of n events of
// which s came once, the next one is new with a chance of about s/n, in whatever way events repeat (Good 1953). Where
// too few of the last ones are new, a copy counts as the event that it is a copy of. A flood of more events than are
// remembered is what the stream has become. O(1) an event.
type copies struct {
	fields  *givenFields
	keys    []uint32 // of the last events that counted; their oldest is at next once there are copiesMemory
	next    int
	count   keyCounts      // events of a key in keys
	flooded recent[uint16] // keys of which copies were left out, with the events of them that counted
	single  int            // keys that came once
	isNew   [copiesWindow]bool
	events  int // of all
	news    int // in isNew
	leftOut int // in this flood
}

func newCopies(schema *event.Schema) *copies { return newCopiesOf(givenFieldsOf(schema)) }

func newCopiesOf(fields *givenFields) *copies {
	return &copies{fields: fields, flooded: newRecent[uint16](copiesMarked)}
}

// givenFields are what copies of an event have in common: its time and the fields that it came with. What comes in
// turns, as each shop on each day, has other times. Copies with other labels would teach the more the fewer of the
// right ones count. Fields that are derived or joined may be others by then.
type givenFields struct {
	seed                        maphash.Seed
	categorical, numeric, multi []int
}

func givenFieldsOf(s *event.Schema) *givenFields {
	f := &givenFields{seed: maphash.MakeSeed()}
	for i := range s.NumGiven() {
		if s.IsGivenName(i, false) {
			f.categorical = append(f.categorical, i)
		}
	}
	for i := range s.Numeric {
		if s.IsGivenNumber(i) {
			f.numeric = append(f.numeric, i)
		}
	}
	for i := range s.Multi {
		if s.IsGivenName(i, true) {
			f.multi = append(f.multi, i)
		}
	}
	return f
}

// key returns the key of an event. Names and the start are hashed with the seed: nobody else can say which events have
// one key.
func (f *givenFields) key(ev *event.Event) uint32 {
	h := rows.MixHash(maphash.String(f.seed, ""), uint64(ev.Time), 0)
	for _, i := range f.categorical {
		h = rows.MixHash(h, maphash.String(f.seed, ev.Categorical[i]), 0)
	}
	for _, i := range f.numeric {
		h = rows.MixHash(h, math.Float64bits(ev.Numeric[i]), 0)
	}
	for _, i := range f.multi {
		h = rows.MixHash(h, uint64(len(ev.Multi[i])), 0)
		for _, name := range ev.Multi[i] {
			h = rows.MixHash(h, maphash.String(f.seed, name), 0)
		}
	}
	return uint32(h)
}

// take takes up an event and reports whether it is a copy in a flood.
func (c *copies) take(ev *event.Event) bool {
	key := c.fields.key(ev)
	known := c.count.of(key)
	before := known > 0
	at := &c.isNew[c.events%copiesWindow]
	c.events++
	if *at {
		c.news--
	}
	if *at = !before; *at {
		c.news++
	}
	switch {
	case !c.isFlood():
		c.leftOut = 0
	case before && c.leftOut < copiesMemory:
		c.leftOut++
		c.flooded.put(uint64(key), known)
		return true
	case before:
		*c = *newCopiesOf(c.fields)
	}
	c.remember(key)
	return false
}

// isFlood reports whether fewer of the last events are new than is expected, by more than chance, and than where twice
// as many come again as usual.
func (c *copies) isFlood() bool {
	if len(c.keys) < copiesWindow {
		return false
	}
	n := float64(len(c.keys))
	fresh := float64(c.single) / n
	expected, again := copiesWindow*fresh, copiesWindow*(1-fresh)
	err := math.Sqrt(again * fresh * (1 + copiesWindow/n)) // of so many events, and of what is expected
	return expected-float64(c.news) > max(min(copiesShare*expected, again), copiesErrors*err, copiesLeast)
}

func (c *copies) remember(key uint32) {
	if len(c.keys) < copiesMemory {
		c.keys = append(c.keys, key)
	} else {
		c.add(c.keys[c.next], -1)
		c.keys[c.next] = key
		c.next = (c.next + 1) % copiesMemory
	}
	c.add(key, 1)
}

// add adds one event of a key, or takes it away.
func (c *copies) add(key uint32, n int) {
	of := c.count.add(key, n)
	if n > 0 && of == 2 || n < 0 && of == 0 {
		c.single--
	}
	if of == 1 {
		c.single++
	}
}

// keyCounts counts events of keys, which are hashes: a table with linear probing, at most half full. A map took
// three times as long.
type keyCounts struct {
	table []keyCount // a power of two
	used  int
}

// keyCount has no events where it is free.
type keyCount struct{ key, events uint32 }

// place returns where a key is, or would be.
func (k *keyCounts) place(key uint32) uint32 {
	mask := uint32(len(k.table) - 1)
	at := key & mask
	for k.table[at].events > 0 && k.table[at].key != key {
		at = (at + 1) & mask
	}
	return at
}

// of returns the events of a key.
func (k *keyCounts) of(key uint32) uint16 {
	if len(k.table) == 0 {
		return 0
	}
	return uint16(k.table[k.place(key)].events)
}

// add adds n events of a key, which has so many where n is negative, and returns how many it has then.
func (k *keyCounts) add(key uint32, n int) uint32 {
	if 2*(k.used+1) > len(k.table) && k.of(key) == 0 {
		old := k.table
		k.table = make([]keyCount, max(16, 2*len(old)))
		for _, of := range old {
			if of.events > 0 {
				k.table[k.place(of.key)] = of
			}
		}
	}
	at := k.place(key)
	of := &k.table[at]
	if of.events == 0 {
		of.key = key
		k.used++
	}
	if of.events = uint32(int(of.events) + n); of.events > 0 {
		return of.events
	}
	k.used--
	// Entries after it that would not be found any more move up (Knuth, volume 3, section 6.4, algorithm R).
	mask := uint32(len(k.table) - 1)
	for next := (at + 1) & mask; k.table[next].events > 0; next = (next + 1) & mask {
		if home := k.table[next].key & mask; (next-home)&mask >= (next-at)&mask {
			k.table[at], at = k.table[next], next
		}
	}
	k.table[at] = keyCount{}
	return 0
}

// IsFlooded reports whether copies are left out at present.
func (c *EntityCap) IsFlooded() bool { return c.copies != nil && c.copies.isFlood() }

// Floods are the events of which copies were left out. It does not change.
type Floods struct {
	fields *givenFields
	most   map[uint32]int // events of a key that counted
}

// Floods returns those that are remembered, nil for none.
func (c *EntityCap) Floods() *Floods {
	if c.copies == nil || c.Held[HeldCopy].Load() == 0 {
		return nil
	}
	f := &Floods{fields: c.copies.fields, most: make(map[uint32]int)}
	for _, marked := range []map[uint64]uint16{c.copies.flooded.before, c.copies.flooded.now} {
		for key, events := range marked {
			f.most[uint32(key)] = int(events)
		}
	}
	return f
}

// Find returns which rows of the parts of a sample do not count: of an event of which copies were left out, as many do
// as were learned. Those of one event are of any part alike, so that floods fill none, and no event that was learned
// once is both trained on and held out.
func (f *Floods) Find(parts ...[][]byte) (copies [][]bool) {
	type place struct{ part, row int }
	places := make(map[uint32][]place)
	copies = make([][]bool, len(parts))
	var ev event.Event
	names := make(rows.Interner)
	for p, payloads := range parts {
		copies[p] = make([]bool, len(payloads))
		for i, payload := range payloads {
			if rows.DecodeEvent(&ev, payload, names) != nil {
				continue // the refit finds it, too
			}
			if key := f.fields.key(&ev); f.most[key] > 0 {
				places[key] = append(places[key], place{p, i})
			}
		}
	}
	for key, of := range places {
		for k := f.most[key]; k < len(of); k++ {
			at := of[(of[0].row+k)%len(of)] // the same rows in each process, which keys are not
			copies[at.part][at.row] = true
		}
	}
	return copies
}
