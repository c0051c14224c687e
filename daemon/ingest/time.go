package ingest

import (
	"math"
	"sort"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/sketch"
)

// What time it is, a log does not say: the stamp of a record is what its producer wrote, unless the broker stamped it.
// Without a bound, stamps years ahead would own a sample that forgets, and move the watermark for good. So the clock of
// this machine decides whether a time can be true. It decides no more than that: the time that such an event gets
// instead is of the log, and the decision is stored with the event, in the sketch.TimeBound of its offsets, so that
// verify comes to the same rows later. Fates and digests of the ledger never depend on it.

// boundStep is the precision of bounds: coarse, so that there are few to store however many events are ahead.
const boundStep = 15 * time.Minute

// latest is the newest time, in milliseconds, that an event read now can have. It never goes back, so that the offsets
// of one bound are of one stretch of time.
func (g *Ingest) latest() int64 {
	at := time.Now().Add(g.model.Input.MaxFutureSkew.Std()).Truncate(boundStep).Add(boundStep)
	g.clock = max(g.clock, at.UnixMilli())
	return g.clock
}

// latestOf returns the newest time that a record of a part can have, by its offset: as is stored where the log is read
// again.
func (g *Ingest) latestOf(p *sketch.Part) func(offset int64) int64 {
	if g.Bounds != nil {
		return func(offset int64) int64 { return g.Bounds(p.Topic, p.Partition, offset) }
	}
	clock := g.latest()
	return func(int64) int64 { return clock }
}

// bound gives the events of a part whose time cannot be true the newest time of the partition's events before them,
// as if they had come without a time.
func (g *Ingest) bound(j *job, records []consumer.Record, d *decoded) {
	p := &j.part
	at := rows.Position{Topic: p.Topic, Partition: p.Partition}
	newest, known := g.newest[at]
	if !known {
		newest = g.store.Newest(p.Topic, p.Partition)
	}
	latestAt := g.latestOf(p)
	for i := range p.Records {
		r := &p.Records[i]
		if r.Fate != sketch.Applied || r.Replayed {
			continue
		}
		latest := latestAt(r.Offset)
		if !records[i].Appended && r.Time > latest {
			r.Time, r.Bound = max(0, newest), latest
			if p.Outcomes {
				continue // nothing else has its time
			}
			ev := &d.events[i]
			ev.Time = r.Time
			start := len(j.arenas[0])
			j.arenas[0] = rows.AppendEvent(j.arenas[0], ev)
			r.Payload = j.arenas[0][start:len(j.arenas[0]):len(j.arenas[0])]
		}
		newest = max(newest, r.Time)
	}
	g.newest[at] = newest
}

// ResumeAt says what the newest event time of a partition was when reading continues behind a gap of the log.
func (g *Ingest) ResumeAt(topic string, number int32, newest int64) {
	g.newest[rows.Position{Topic: topic, Partition: number}] = newest
}

// BoundsOf returns Bounds for reading a partition of a store again: the decisions that were made when it was read
// first.
func BoundsOf(store *sketch.Store, topic string,
	number int32) (func(topic string, partition int32, offset int64) int64, error) {
	bounds, err := store.TimeBounds(topic, number)
	if err != nil {
		return nil, err
	}
	return func(_ string, _ int32, offset int64) int64 {
		i := sort.Search(len(bounds), func(i int) bool { return bounds[i].To > offset })
		if i < len(bounds) && bounds[i].From <= offset {
			return bounds[i].Latest
		}
		return math.MaxInt64
	}, nil
}
