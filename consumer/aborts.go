package consumer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Which records of an answer were aborted is said by a list before them, which no CRC covers. The markers at the ends
// of transactions say it too, and a CRC covers them. So the list is believed of transactions that end in the answer, if
// their markers say the same. An answer is cut before the first one that does not end in it, and the next one begins
// there, unless that leaves less than half of it: then all of it is believed after a second answer. What was believed
// of a transaction holds until its marker, so one of many answers is asked about once.

// An AbortedTransaction is a range of offsets of one producer that ends at its next abort marker.
type AbortedTransaction struct {
	Producer int64
	First    int64 // offset
}

// running is a transaction of which an answer has records, and not yet the marker.
type running struct {
	at      int // bytes of the answer before it
	base    int64
	aborted bool
	known   bool // it was believed of an answer before
}

// undecided looks at the transactions in the first bytes of the records that are not below an offset, at which those
// in known were running: whether they are aborted, by producer. The oddity has no kind if those that end do as the list
// and known say; sound is then where the first one begins that neither ends nor was known. left are those that run on.
func (a *partitionResponse) undecided(bytes int, from int64, known map[int64]bool) (o oddity, left map[int64]bool) {
	list := a.aborted
	var open map[int64]bool // producers inside a transaction that is said to be aborted
	begun := knownFrom(known, from)
	for rest := a.records[:bytes]; ; {
		batch, h, after, ok := nextBatch(rest)
		if !ok {
			break
		}
		for len(list) > 0 && list[0].First < h.next() {
			if open == nil {
				open = make(map[int64]bool)
			}
			open[list[0].Producer], list = true, list[1:]
		}
		was, runs := begun[h.producer]
		now := running{at: bytes - len(rest), base: h.base, aborted: open[h.producer]}
		if h.attributes&attrControl != 0 {
			abort, ok := abortMarker(batch)
			if runs && ok && abort != was.aborted {
				return oddity{kind: refusedAborted, at: was.base, sound: min(was.at, firstOf(begun, bytes).at),
					text: fmt.Sprintf("the transaction of producer %d at %d is said to be aborted: %t; its marker says %t",
						h.producer, was.base, was.aborted, abort)}, nil
			}
			delete(begun, h.producer)
			delete(open, h.producer)
		} else if h.attributes&attrTransactional != 0 && h.next() > from {
			if begun == nil {
				begun = make(map[int64]running)
			}
			if !runs {
				begun[h.producer] = now
			} else if was.aborted != now.aborted {
				return oddity{kind: refusedAborted, at: was.base, sound: min(was.at, firstOf(begun, bytes).at),
					text: fmt.Sprintf("the transaction of producer %d at %d is said to be aborted from %d on",
						h.producer, was.base, h.base)}, nil
			}
		}
		rest = after
	}
	first := firstOf(begun, bytes)
	return oddity{sound: first.at, at: first.base}, runningOn(begun)
}

// nextBatch splits the first batch off a record set. ok is false at its end, and at what scan refuses.
func nextBatch(records []byte) (batch []byte, h header, rest []byte, ok bool) {
	batch, rest, ok, err := cutBatch(records)
	if err != nil || !ok {
		return nil, h, nil, false
	}
	h, err = parseHeader(batch)
	return batch, h, rest, err == nil
}

// knownFrom returns transactions that were known to run at an offset, by producer, nil for none.
func knownFrom(known map[int64]bool, from int64) map[int64]running {
	if len(known) == 0 {
		return nil
	}
	begun := make(map[int64]running, len(known))
	for producer, aborted := range known {
		begun[producer] = running{base: from, aborted: aborted, known: true}
	}
	return begun
}

// runningOn returns by producer whether transactions are aborted, nil for none.
func runningOn(begun map[int64]running) map[int64]bool {
	if len(begun) == 0 {
		return nil
	}
	left := make(map[int64]bool, len(begun))
	for producer, t := range begun {
		left[producer] = t.aborted
	}
	return left
}

// firstOf returns the first of the transactions that were not known before, or one that begins behind so many bytes.
func firstOf(begun map[int64]running, bytes int) running {
	first := running{at: bytes}
	for _, t := range begun {
		if !t.known && t.at < first.at {
			first = t
		}
	}
	return first
}

// follow takes up in seen which transactions run on behind an answer, all of which is believed.
func (a *partitionResponse) follow(from int64, seen *Numbers) {
	_, left := a.undecided(len(a.records), from, seen.runningAt(from))
	a.next, a.left = extent(a.records, from), left
	seen.run(a.next, left)
}

// abortMarker reports whether a control batch ends a transaction by aborting it; ok is false if it ends none.
func abortMarker(batch []byte) (abort, ok bool) {
	b := batch[batchHeaderBytes:]
	size, n := varint(b)
	if n <= 0 || size < 0 || size > int64(len(b)-n) {
		return false, false
	}
	var r Record
	if _, err := r.parse(b[n : n+int(size)]); err != nil || len(r.Key) < 4 {
		return false, false
	}
	kind := binary.BigEndian.Uint16(r.Key[2:])
	return kind == 0, kind <= 1
}

// decide adds to what is odd of an answer what is of its list of aborted transactions, and cuts the answer where that
// leaves half of it.
func (a *partitionResponse) decide(o oddity, from int64, known map[int64]bool) oddity {
	bytes := len(a.records)
	if o.kind != "" {
		bytes = o.sound
	}
	u, _ := a.undecided(bytes, from, known)
	switch {
	case o.kind != "":
		o.sound = u.sound
		return o
	case u.kind != "" || u.sound == bytes:
		return u
	case 2*u.sound >= bytes && extent(a.records[:u.sound], from) > from:
		a.records = a.records[:u.sound]
		return oddity{}
	}
	u.kind = refusedAborted
	u.text = fmt.Sprintf("a transaction at %d does not end in the answer", u.at)
	return u
}

// sameAborted reports whether two answers have the same transactions aborted that begin below an offset.
func (a *partitionResponse) sameAborted(b *partitionResponse, below int64) bool {
	of := func(list []AbortedTransaction) []AbortedTransaction {
		list = slices.DeleteFunc(slices.Clone(list), func(t AbortedTransaction) bool { return t.First >= below })
		slices.SortFunc(list, func(x, y AbortedTransaction) int {
			return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(x.Producer, y.Producer))
		})
		return slices.Compact(list)
	}
	return slices.Equal(of(a.aborted), of(b.aborted))
}
