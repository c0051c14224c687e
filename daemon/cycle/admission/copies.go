package admission

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
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
	return copiesMemory*copyEntryBytes + 2*copiesMarked*markedBytes + stuckFootprint
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
	stuck   *stuck
	keys    []uint32 // of the last events that counted; their oldest is at next once there are copiesMemory
	next    int
	count   keyCounts      // events of a key in keys
	flooded recent[uint16] // keys of which copies were left out, with the events of them that counted
	single  int            // keys that came once
	isNew   [copiesWindow]bool
	events  int // of all
	news    int // in isNew
	leftOut int // in this flood

	replays bool // what comes was there before a restart
	again   replay
}

func newCopies(schema *event.Schema) *copies { return newCopiesOf(givenFieldsOf(schema)) }

func newCopiesOf(fields *givenFields) *copies {
	return &copies{fields: fields, stuck: newStuck(), flooded: newRecent[uint16](copiesMarked)}
}

// take takes up an event and reports whether it is a copy in a flood.
func (c *copies) take(ev *event.Event) bool {
	if c.replays {
		return c.repeats(ev)
	}
	key, like := c.fields.keys(ev)
	if c.stuck.take(like) {
		return true
	}
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
		marked := c.stuck
		*c = *newCopiesOf(c.fields)
		c.stuck = marked
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

// IsFlooded reports whether copies are left out at present.
func (c *EntityCap) IsFlooded() bool {
	return c.copies != nil && (c.copies.isFlood() || c.copies.stuck.isNow())
}
