package experts

import (
	"hash/maphash"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// How floods of copies are found. All are chosen by hand, on seventeen kinds of streams: of none but the flood is an
// event left out, and no 512 events have less than 0.94 times as many new ones as is expected.
const (
	copiesWindow   = 512     // events that are compared with those before
	copiesShare    = 0.25    // of the new events that are expected, which has to be missing
	copiesErrors   = 4       // standard errors by which they have to be missing
	copiesMemory   = 1 << 15 // events that are remembered
	copyEntryBytes = 24      // of an event that is remembered; measured, a test compares it
)

// CopiesFootprint bounds the bytes of the events that are remembered.
const CopiesFootprint = copiesMemory * copyEntryBytes

// copies finds events that come again in a flood, as where a log is sent again or a producer is stuck. Of n events of
// which s came once, the next one is new with a chance of about s/n, in whatever way events repeat (Good 1953). Where
// far fewer of the last ones are new, a copy counts as the event that it is a copy of. A flood of more events than are
// remembered is what the stream has become. O(1) an event.
type copies struct {
	seed    maphash.Seed
	row     []byte
	keys    []uint32 // of the last events that counted; their oldest is at next once there are copiesMemory
	next    int
	count   map[uint32]int32 // of keys
	single  int              // keys that came once
	isNew   [copiesWindow]bool
	events  int // of all
	news    int // in isNew
	leftOut int // in this flood
}

func newCopies() *copies {
	return &copies{seed: maphash.MakeSeed(), count: make(map[uint32]int32)}
}

// key returns what copies of an event have in common: all but their time and weight.
func (c *copies) key(ev *event.Event) uint32 {
	same := *ev
	same.Time, same.Weight = 0, 1
	c.row = rows.AppendEvent(c.row[:0], &same)
	return uint32(maphash.Bytes(c.seed, c.row))
}

// take takes up an event and reports whether it is a copy in a flood.
func (c *copies) take(ev *event.Event) bool {
	key := c.key(ev)
	before := c.count[key] > 0
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
		return true
	case before:
		*c = copies{seed: c.seed, row: c.row, count: make(map[uint32]int32)}
	}
	c.remember(key)
	return false
}

// isFlood reports whether far fewer of the last events are new than is expected.
func (c *copies) isFlood() bool {
	if len(c.keys) < copiesWindow {
		return false
	}
	chance := float64(c.single) / float64(len(c.keys))
	expected := copiesWindow * chance
	missing := expected - float64(c.news)
	return missing > copiesShare*expected && missing > copiesErrors*math.Sqrt(expected*(1-chance)+1)
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
func (c *copies) add(key uint32, n int32) {
	if c.count[key] == 1 {
		c.single--
	}
	switch c.count[key] += n; c.count[key] {
	case 0:
		delete(c.count, key)
	case 1:
		c.single++
	}
}
