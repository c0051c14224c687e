package tables

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// The values that a key of a table with as_of: event has had are in its row, newest first: each is its length, then its
// offset with a bit for the end of what was said, then the event as rows.AppendEvent does, whose time is the value's.
// An event is joined with the newest that is not newer than it, or with the oldest where all are newer.

// value is one of them.
type value struct {
	time, offset int64
	isEnd        bool // a tombstone: from then on nothing is known
	event        []byte
}

// values returns those of a row, newest first, and whether its bytes have them.
func (r *Row) values() (list []value, ok bool) {
	if r.History == nil { // another as_of wrote it
		one := *r
		one.begin()
		r = &one
	}
	for v, rest := range eachValue(r.History) {
		if list = append(list, v); len(rest) == 0 {
			return list, true
		}
	}
	return nil, false
}

// eachValue yields the values of a history, with the bytes behind each. It ends at the first that cannot be read.
func eachValue(b []byte) func(yield func(v value, rest []byte) bool) {
	return func(yield func(v value, rest []byte) bool) {
		for len(b) > 0 {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return
			}
			body := b[n : n+int(size)]
			b = b[n+int(size):]
			at, n := binary.Uvarint(body)
			if n <= 0 {
				return
			}
			v := value{offset: int64(at >> 1), isEnd: at&1 == 1, event: body[n:]}
			var ok bool
			if v.time, ok = rows.TimeOf(v.event); !ok || !yield(v, b) {
				return
			}
		}
	}
}

func appendValue(dst []byte, v *value) []byte {
	at := uint64(v.offset) << 1
	if v.isEnd {
		at |= 1
	}
	head := binary.AppendUvarint(nil, at)
	dst = binary.AppendUvarint(dst, uint64(len(head)+len(v.event)))
	return append(append(dst, head...), v.event...)
}

// says returns what a value says without its time: equal bytes say the same.
func (v *value) says() string {
	_, n := binary.Varint(v.event[rows.TimeAt:])
	if v.isEnd {
		return ""
	}
	return string(v.event[rows.TimeAt+n:])
}

// Follow makes r, which has its offset, the row of a key after a record, given the row before it, which may be nil,
// with at most keep values in at most limit bytes. A record without a value, whose event is nil, ends what the newest
// one says. Values are ordered by time, then offset; but whether there is one follows from the last record alone, as in
// a compacted topic. But for the newest, a value that says what the one before it says is left out. It reports whether
// the record changes anything.
func (r *Row) Follow(old *Row, time int64, ev *event.Event, keep, limit int, names rows.Interner) (changes bool) {
	var list []value
	if old != nil && (ev == nil || ev.Categorical[0] == old.Name()) {
		list, _ = old.values()
	}
	next := value{time: time, offset: r.Offset, isEnd: ev == nil}
	switch {
	case ev != nil:
		if len(list) > 0 && list[0].isEnd { // what was removed does not come back
			list = slices.DeleteFunc(list, func(v value) bool { return v.time > time })
		}
		next.event = rows.AppendEvent(nil, ev)
	case len(list) == 0 || list[0].isEnd:
		return false
	default:
		next.time = max(time, list[0].time)
		next.event = rows.AppendEvent(nil, ended(&old.Event, next.time))
	}
	at := 0
	for at < len(list) && list[at].time > next.time {
		at++
	}
	list = slices.Insert(list, at, next)
	for i := len(list) - 2; i > 0; i-- {
		if list[i].says() == list[i+1].says() {
			list = slices.Delete(list, i, i+1)
		}
	}
	for i := range list[:min(len(list), keep)] {
		more := appendValue(r.History, &list[i])
		if i > 0 && len(more) > limit-rowHead {
			break
		}
		r.History = more
	}
	return r.newest(names)
}

// Has reports whether a row says at the time of the newest value of another one what that says, or begins later.
func (r *Row) Has(other *Row) bool {
	list, _ := r.values()
	others, _ := other.values()
	switch {
	case len(list) == 0 || len(others) == 0:
		return len(others) == 0
	case others[0].isEnd: // its time follows from values that a compacted log lacks
		return list[0].isEnd
	}
	for i := range list {
		if list[i].time <= others[0].time {
			return list[i].says() == others[0].says()
		}
	}
	return true
}

// ended returns an event that says nothing of the entity of a row.
func ended(of *event.Event, time int64) *event.Event {
	ev := &event.Event{Time: time, Weight: 1, Categorical: make([]string, len(of.Categorical)),
		Numeric: make([]float64, len(of.Numeric)), Multi: make([][]string, len(of.Multi))}
	ev.Categorical[0] = of.Categorical[0]
	for i := range ev.Numeric {
		ev.Numeric[i] = math.NaN()
	}
	return ev
}

// begin makes a history of what the row says.
func (r *Row) begin() {
	v := value{r.Event.Time, r.Offset, false, rows.AppendEvent(nil, &r.Event)}
	r.History, r.since = appendValue(nil, &v), r.Offset
}

// newest reads the newest value of the history into the row, with names that others share unless it is nil.
func (r *Row) newest(names rows.Interner) bool {
	list, ok := r.values()
	if names == nil {
		names = make(rows.Interner)
	}
	if !ok || rows.DecodeEvent(&r.Event, list[0].event, names) != nil || len(r.Event.Categorical) == 0 {
		return false
	}
	r.Ended, r.since = list[0].isEnd, list[0].offset
	return true
}

// at returns what some rows of a name say at a time in milliseconds since 1970, nil for nothing: of the values of each
// row that are in force, the newest. Where all that is kept is newer it is the oldest, and isEarlier. into may be used.
func at(of []*Row, time int64, into *event.Event) (ev *event.Event, isEarlier bool) {
	if r := of[0]; len(of) == 1 && r.Event.Time <= time {
		if r.Ended {
			return nil, false
		}
		return &r.Event, false
	}
	var found, oldest *value
	var by, first *Row
	isEarlier = true
	for _, r := range of {
		var last value
		for v := range eachValue(r.History) {
			if last = v; v.time <= time {
				isEarlier = false
				break
			}
		}
		if last.time <= time && !last.isEnd && (found == nil || before(found, by, &last, r)) {
			found, by = &last, r
		}
		if oldest == nil || before(&last, r, oldest, first) {
			oldest, first = &last, r
		}
	}
	if isEarlier {
		found = oldest
	}
	if found == nil || found.isEnd || rows.DecodeEvent(into, found.event, make(rows.Interner)) != nil {
		return nil, isEarlier
	}
	return into, isEarlier
}

// before orders values of rows by time, topic, partition and offset.
func before(a *value, of *Row, b *value, other *Row) bool {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(of.Topic, other.Topic),
		cmp.Compare(of.Partition, other.Partition), cmp.Compare(a.offset, b.offset)) < 0
}
