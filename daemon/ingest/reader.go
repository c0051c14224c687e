package ingest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/sketch"
)

// Decoding is shared out among at most maxReaders goroutines, in runs of at least minRun records, as far as learning
// from the part before leaves processors: that takes longest, and is what everything else waits for.
const (
	maxReaders = 2
	minRun     = 256
)

// What the configuration lets through has room in the state, but for events of many numbers, which can be longer there
// than in JSON.
const _ = uint64(sketch.MaxPayloadBytes - config.MaxEventBytes)

// reader turns records into events and rows, in parallel with other readers.
type reader struct {
	ingest *Ingest
	decode func(ev *event.Event, value []byte, recordTime int64) *event.Rejection
	// borrow is decode for an event that is stored alone.
	borrow func(ev *event.Event, value []byte, recordTime int64) *event.Rejection
	mapped *event.Mapped // in place of decode where the model has a mapping, else nil
	// outcomes decodes what came of events, nil where labels come with these.
	outcomes *outcomeDecoder
	thin     bool // a share of the part is learned, and nothing else keeps names
}

// read decodes the records of a batch into the part of a job, and classifies them, which needs no order. Where one
// waits for its schema the part ends before it.
func (g *Ingest) read(j *job, records []consumer.Record) (waiting *event.Wait) {
	n, d := len(records), &g.parts[g.turn]
	if short := n - len(d.events); short > 0 {
		d.events = append(d.events, make([]event.Event, short)...)
	}
	events := d.events
	if d.formats = d.formats[:0]; g.schemas != nil && g.readers[0].mappedOf(&j.part) != nil {
		d.formats = slices.Grow(d.formats, n)[:n]
	}
	for k := range events[n:] { // of a longer part before: no more than one part is held
		events[n+k].Empty()
	}
	j.part.Records = j.part.Records[:n]
	defer g.inHand(crash.Decoding, &j.part)()
	if g.Traces {
		j.counts.trace(records)
	}
	readers := max(1, min(len(g.readers), n/minRun))
	switch {
	case g.careful:
		readers = 1
	case len(g.ahead) > 0 && !j.thin:
		readers = max(1, min(readers, runtime.GOMAXPROCS(0)-1))
	}
	for i := range readers {
		j.arena(i)
	}
	ends, waits := make([]int, readers), make([]*event.Wait, readers)
	var wg sync.WaitGroup
	for i, r := range g.readers[:readers] {
		from, to := i*n/readers, (i+1)*n/readers
		r.thin = j.thin && g.choices == nil && g.pasts == nil
		run := func() {
			arena := j.arenas[i]
			ends[i] = to
			for k := from; k < to; k++ {
				arena, waits[i] = r.read(&j.part.Records[k], &events[k], &j.part, &records[k], arena)
				if len(d.formats) > 0 {
					d.formats[k] = r.mappedOf(&j.part).Format()
				}
				if waits[i] != nil {
					ends[i] = k
					break
				}
			}
			j.arenas[i] = arena
		}
		if i == readers-1 {
			run()
			break
		}
		wg.Go(run)
	}
	wg.Wait()
	for i, w := range waits {
		if w != nil {
			waiting = w
			j.part.Records = j.part.Records[:ends[i]]
			j.part.Next, j.counts.Next = records[ends[i]].Offset, records[ends[i]].Offset
			break
		}
	}
	if waiting == nil && g.schemas != nil {
		g.schemas.Arrived()
	}
	g.store.Classify(&j.part)
	if r := g.readers[0]; r.thin && g.open != nil && !j.part.Outcomes {
		g.own(&j.part, events)
	}
	return waiting
}

// own gives the events of a thin part that are learned names that last, now that it is known which these are.
func (g *Ingest) own(p *sketch.Part, events []event.Event) {
	if len(g.names) >= maxOpenNames {
		clear(g.names)
	}
	for i := range p.Records {
		if r := &p.Records[i]; r.Fate == sketch.Applied && !r.Replayed && g.isLearned(p.Partition, r) {
			_ = rows.DecodeEvent(&events[i], r.Payload, g.names) // which AppendEvent has just written
		}
	}
}

// isLearned reports whether an event is of the share that is learned during a catch-up: of offsets, or of keys where
// these are joined to what comes later.
func (g *Ingest) isLearned(partition int32, r *sketch.Record) bool {
	if g.open != nil {
		return hashOf(r.ID()) <= thinLimit
	}
	return isLearned(partition, r.Offset)
}

// mappedOf returns what decodes the records of a part, nil where that reads JSON as it is.
func (r *reader) mappedOf(p *sketch.Part) *event.Mapped {
	if p.Outcomes {
		return r.outcomes.mapped
	}
	return r.mapped
}

// isStorable reports whether the state has room for a row.
func (g *Ingest) isStorable(payload []byte) bool {
	return len(payload) <= sketch.MaxPayloadBytes &&
		(rows.MaxRowBytes(len(payload)) <= g.rowLimit || rows.RowBytes(payload) <= g.rowLimit)
}

// read decodes one record. What the row keeps of it goes into arena, which is returned, unless it waits for its schema.
func (r *reader) read(to *sketch.Record, ev *event.Event, p *sketch.Part, from *consumer.Record,
	arena []byte) ([]byte, *event.Wait) {
	switch from.Fate {
	case consumer.Control:
		*to = sketch.Record{Offset: from.Offset, Fate: sketch.Control}
		return arena, nil
	case consumer.Aborted:
		*to = sketch.Record{Offset: from.Offset, Fate: sketch.Aborted}
		return arena, nil
	}
	r.ingest.hold(p.Topic, p.Partition, from.Offset)
	var rejection *event.Rejection
	var wait *event.Wait
	if p.Outcomes {
		rejection, wait = r.tryOutcome(to, p, from)
	} else {
		rejection, wait = r.decodeRecord(p, ev, from)
	}
	r.ingest.release()
	if wait != nil || p.Outcomes && rejection == nil {
		return arena, wait
	}
	if rejection == nil {
		start := len(arena)
		if arena = r.ingest.fill(to, p, from.Offset, from.CRC, ev, arena); r.ingest.isStorable(to.Payload) {
			return arena, nil
		}
		arena = arena[:start]
		rejection = &event.Rejection{
			Reason:   event.TooLarge,
			Expected: fmt.Sprintf("a row of at most %d bytes", sketch.MaxPayloadBytes),
			Got:      "more",
		}
	}
	return reject(to, from, rejection, arena), nil
}

// reject fills in a record that is none, with what a dead letter has of it.
func reject(to *sketch.Record, from *consumer.Record, rejection *event.Rejection, arena []byte) []byte {
	*to = sketch.Record{Offset: from.Offset, Fate: sketch.Rejected, CRC: from.CRC, Reason: string(rejection.Reason),
		Detail: &sketch.Detail{
			Field:    rejection.Field,
			Expected: rejection.Expected,
			Got:      rejection.Got,
			KeySize:  sizeOf(from.Key),
		}, Time: from.Timestamp, Size: sizeOf(from.Value),
		Quiet: rejection.Reason == event.Filtered}
	if to.Quiet {
		return arena
	}
	return keepRejected(to, from, arena)
}

// sizeOf returns the bytes of a key or a value, -1 if the record has none.
func sizeOf(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// keepRejected copies what a dead letter has of a record: half of the room is for its key and then for whole headers,
// the rest for its value.
func keepRejected(to *sketch.Record, from *consumer.Record, arena []byte) []byte {
	keep := func(b []byte) []byte {
		start := len(arena)
		arena = append(arena, b...)
		return arena[start:len(arena):len(arena)]
	}
	const half = sketch.MaxDeadLetterBytes / 2
	if from.Key != nil {
		to.Detail.Key = keep(from.Key[:min(len(from.Key), half)])
	}
	if headers := framing.CutHeaders(from.Headers, half-len(to.Detail.Key)); headers != nil {
		to.Detail.Headers = keep(headers)
	}
	room := sketch.MaxDeadLetterBytes - len(to.Detail.Key) - len(to.Detail.Headers)
	to.Payload = keep(from.Value[:min(len(from.Value), room)])
	return arena
}

// fill makes the row of an event.
func (g *Ingest) fill(to *sketch.Record, p *sketch.Part, offset int64, crc uint32, ev *event.Event,
	arena []byte) []byte {
	start := len(arena)
	arena = rows.AppendEvent(arena, ev)
	*to = sketch.Record{
		Offset:  offset,
		Fate:    sketch.Applied,
		CRC:     crc,
		Time:    ev.Time,
		Weight:  ev.Weight,
		Payload: arena[start:len(arena):len(arena)],
	}
	if g.identity {
		from := len(arena)
		arena = append(arena, ev.Identity...)
		to.Identity = arena[from:len(arena):len(arena)]
	}
	if g.group != nil {
		to.Group = g.group(ev)
	}
	for _, field := range g.forgotten {
		for _, value := range valuesOf(g.model, field, ev) {
			to.Forgotten = to.Forgotten || g.store.Forgets(p.Topic, p.Partition, offset, field, []byte(value))
		}
	}
	if g.holdoutField >= 0 {
		to.HoldoutKey = []byte(ev.Categorical[g.holdoutField])
	}
	return arena
}
