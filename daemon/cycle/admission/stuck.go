package admission

// How stuck producers are found. Chosen by hand; a test compares the bytes.
const (
	stuckMemory    = 1 << 12 // events by which it is known how often fields usually come
	stuckFactor    = 4       // times as often as usual, as which fields have to come
	stuckAgain     = 0.25    // share of the events above which it is usual that fields come again at once
	stuckMarked    = 1 << 9  // keys of events that were left out, at least; twice as many at most
	stuckFootprint = 160<<10 + 2*stuckMarked*markedBytes
)

// stuck finds events that are alike but for their time and come again and again, where a producer with a clock is
// stuck: more than copiesLeast of the last copiesWindow, and stuckFactor times as many as usual, of a stream where
// fields seldom come again as soon as that. Those after the first copiesLeast are left out, until as many were as are
// remembered of copies: this is what the stream has become, and until that is usual all are learned. O(1) an event.
type stuck struct {
	last    tally
	usual   tally
	again   [stuckMemory]bool // which of usual were in last when they came
	agains  int               // in again
	leftOut int               // in this flood
	quiet   int               // events since the last one that was left out
	flooded recent[uint16]    // keys of which events were left out, with how many of stuckMemory came before
}

func newStuck() *stuck {
	return &stuck{last: newTally(copiesWindow), usual: newTally(stuckMemory), flooded: newRecent[uint16](stuckMarked)}
}

// take takes up an event by its key and reports whether it is left out.
func (s *stuck) take(key uint32) bool {
	before := s.last.count.of(key)
	s.last.add(key)
	over := copiesWindow
	if s.leftOut == copiesMemory {
		over = stuckMemory
	}
	if s.quiet++; s.quiet > over {
		s.leftOut = 0
	}
	known := s.usual.count.of(key)
	if n := float64(len(s.usual.keys)); n >= copiesWindow && before >= copiesLeast && float64(s.agains) < stuckAgain*n &&
		float64(before)*n > stuckFactor*copiesWindow*float64(known) && s.leftOut < copiesMemory {
		s.quiet = 0
		if s.leftOut++; s.leftOut == copiesMemory {
			s.flooded = newRecent[uint16](stuckMarked)
			return true
		}
		usual, marked := s.flooded.get(uint64(key))
		if !marked { // all of those that came are in both
			usual = uint16(stuckMemory * max(0, int(known)-int(before)) / max(copiesWindow, len(s.usual.keys)-copiesWindow))
		}
		s.flooded.put(uint64(key), usual)
		return true
	}
	at := &s.again[s.usual.add(key)]
	if *at {
		s.agains--
	}
	if *at = before > 0; *at {
		s.agains++
	}
	return false
}

// isNow reports whether events are left out at present.
func (s *stuck) isNow() bool { return s.leftOut > 0 && s.quiet <= copiesWindow }

// A tally counts the last events by key.
type tally struct {
	keys  []uint32 // their oldest is at next once there are most
	next  int
	most  int
	count keyCounts
}

func newTally(most int) tally { return tally{most: most} }

// add adds an event, in the place of the oldest one, and returns the place.
func (t *tally) add(key uint32) int {
	t.count.add(key, 1)
	if len(t.keys) < t.most {
		t.keys = append(t.keys, key)
		return len(t.keys) - 1
	}
	at := t.next
	t.count.add(t.keys[at], -1)
	t.keys[at], t.next = key, (at+1)%t.most
	return at
}
