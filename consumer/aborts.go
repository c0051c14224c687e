package consumer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Which records of an answer were aborted is said by a list before them, which no CRC covers. The markers at the ends
// of transactions say it too, and a CRC covers them. So the list is believed of transactions that end in the answer, if
// their markers say the same. An answer is cut before the first one that does not end in it: the next one begins there.
// One that is longer than an answer, or has no marker any more, is believed after a second answer.

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
}

// undecided looks at the transactions in the first bytes of the records that are not below an offset. The oddity has
// no kind if those that end in them do as the list says; sound is then where the first one begins that does not end.
func (a *partitionResponse) undecided(bytes int, from int64) oddity {
	list := a.aborted
	var open map[int64]bool     // producers inside a transaction that is said to be aborted
	var begun map[int64]running // by producer
	for rest := a.records[:bytes]; ; {
		batch, after, ok, err := cutBatch(rest)
		if err != nil || !ok {
			break
		}
		h, err := parseHeader(batch)
		if err != nil {
			break // scan refuses it
		}
		for len(list) > 0 && list[0].First < h.next() {
			if open == nil {
				open = make(map[int64]bool)
			}
			open[list[0].Producer], list = true, list[1:]
		}
		was, known := begun[h.producer]
		now := running{bytes - len(rest), h.base, open[h.producer]}
		if h.attributes&attrControl != 0 {
			abort, ok := abortMarker(batch)
			if known && ok && abort != was.aborted {
				return oddity{kind: refusedAborted, at: was.base, sound: was.at,
					text: fmt.Sprintf("the transaction of producer %d at %d is said to be aborted: %t; its marker says %t",
						h.producer, was.base, was.aborted, abort)}
			}
			delete(begun, h.producer)
			delete(open, h.producer)
		} else if h.attributes&attrTransactional != 0 && h.next() > from {
			if begun == nil {
				begun = make(map[int64]running)
			}
			if !known {
				begun[h.producer] = now
			} else if was.aborted != now.aborted {
				return oddity{kind: refusedAborted, at: was.base, sound: was.at,
					text: fmt.Sprintf("the transaction of producer %d at %d is said to be aborted from %d on",
						h.producer, was.base, h.base)}
			}
		}
		rest = after
	}
	first := running{at: bytes}
	for _, t := range begun {
		if t.at < first.at {
			first = t
		}
	}
	return oddity{sound: first.at, at: first.base}
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
// is enough.
func (a *partitionResponse) decide(o oddity, from int64) oddity {
	bytes := len(a.records)
	if o.kind != "" {
		bytes = o.sound
	}
	u := a.undecided(bytes, from)
	switch {
	case o.kind != "":
		o.sound = u.sound
		return o
	case u.kind != "" || u.sound == bytes:
		return u
	case extent(a.records[:u.sound], from) > from:
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
