package guard

import (
	"hash/maphash"
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// A name floods where more than floodShare of the latest events have it, and fewer than floodRare of the held-out rows.
// Hours, weekdays and days of a month are more frequent than that, and all of the latest events may have the same.
// A producer is stuck where stuckShare of the last events are copies of others: beyond copiesOfAny, and beyond
// copiesOfKnown times what follows from the held-out rows. All are chosen by hand.
const (
	floodShare    = 0.5
	floodRare     = 0.03
	stuckShare    = 0.25
	copiesOfAny   = 2
	copiesOfKnown = 2

	floodCandidates = 32 // rows whose names are asked about: more are working memory for nothing
)

// flood is what the latest events have in common that the held-out rows have not. What an update gains on such events
// shows no change of what labels mean.
type flood struct {
	labels bool // they have other labels
	gone   bool // some labels do not come any more
	name   bool // most of them have a name that hardly any row had
	stuck  bool // many of them are copies, beyond what there is among the held-out rows
	copies int  // of one event among the held-out rows; a producer that is stuck on a few events sends more
}

// findFlood compares the latest events with the held-out rows, whose sorted labels are given.
func (g *Guard) findFlood(labels []float64) (of flood) {
	of.labels, of.gone = g.compareLabels(labels)
	// A name that most rows have is in one of a few.
	asked := make(map[fieldName]bool)
	g.each(&g.latest, guardLatest/floodCandidates, func(ev *event.Event) {
		namesOf(ev, func(of fieldName) { asked[of] = true })
	})
	held, latest := g.tally(&g.Held, asked), g.tally(&g.latest, asked)
	of.copies = 1
	for _, n := range held.copies {
		of.copies = max(of.copies, n)
	}
	of.stuck = g.last.repeats(&held) > stuckShare || g.IsFlooded()
	for name, n := range latest.names {
		of.name = of.name || float64(n) > floodShare*float64(latest.n) &&
			float64(held.names[name]) < floodRare*float64(held.n)
	}
	return of
}

// IsFlooded reports whether copies are left out at present.
func (g *Guard) IsFlooded() bool { return g.Flooded != nil && g.Flooded() }

// fieldName is a name in a categorical field or a list.
type fieldName struct {
	field int
	name  string
}

// namesOf yields the names of an event.
func namesOf(ev *event.Event, yield func(of fieldName)) {
	for f, name := range ev.Categorical {
		yield(fieldName{f, name})
	}
	for f, names := range ev.Multi {
		for _, name := range names {
			yield(fieldName{len(ev.Categorical) + f, name})
		}
	}
}

// each decodes the rows that are held of a set; step leaves out those between. They are capped by entity, so that some
// may be older than the last events.
func (g *Guard) each(set *fitted.HoldoutSet, step int, visit func(ev *event.Event)) {
	var ev event.Event
	for s := range set {
		for i := 0; i < len(set[s].Rows); i += step {
			if rows.DecodeEvent(&ev, set[s].Rows[i].Payload, g.names) == nil {
				visit(&ev)
			}
		}
	}
}

// tally counts what the rows of a set have in common.
type tally struct {
	n      int
	copies map[uint64]int    // rows, by lastKeys.of
	names  map[fieldName]int // rows
}

// tally counts rows, and of names those that are asked about.
func (g *Guard) tally(set *fitted.HoldoutSet, asked map[fieldName]bool) tally {
	t := tally{copies: make(map[uint64]int), names: make(map[fieldName]int)}
	g.each(set, 1, func(ev *event.Event) {
		t.n++
		t.copies[g.last.of(ev)]++
		namesOf(ev, func(of fieldName) {
			if asked[of] {
				t.names[of]++
			}
		})
	})
	return t
}

// appendCopy appends what copies of an event have in common: all but their time, weight and label.
func appendCopy(dst []byte, ev *event.Event) []byte {
	same := *ev
	same.Time, same.Weight, same.Label, same.Classes = 0, 1, 0, nil
	return rows.AppendEvent(dst, &same)
}

// lastKeys are the keys of the last events, whether their rows are kept or not.
type lastKeys struct {
	seed maphash.Seed
	keys []uint64
	next int // place of the oldest key
	row  []byte
}

// of returns the key of an event: what it shares with its copies.
func (l *lastKeys) of(ev *event.Event) uint64 {
	l.row = appendCopy(l.row[:0], ev)
	return maphash.Bytes(l.seed, l.row)
}

// add takes up an event.
func (l *lastKeys) add(ev *event.Event) {
	key := l.of(ev)
	if len(l.keys) < guardLatest {
		l.keys = append(l.keys, key)
		return
	}
	l.keys[l.next] = key
	l.next = (l.next + 1) % guardLatest
}

// repeats returns which share of the last events are copies of others, beyond what is usual among held-out rows.
func (l *lastKeys) repeats(held *tally) float64 {
	if len(l.keys) < guardLatest || held.n == 0 {
		return 0
	}
	count, beyond := make(map[uint64]int, len(l.keys)), 0.0
	for _, key := range l.keys {
		count[key]++
	}
	usual := copiesOfKnown * float64(len(l.keys)) / float64(held.n)
	for key, n := range count {
		beyond += max(0, math.Ceil(float64(n)-copiesOfAny-usual*float64(held.copies[key]))) // whole: in any order
	}
	return beyond / float64(len(l.keys))
}
