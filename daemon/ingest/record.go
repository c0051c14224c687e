package ingest

import (
	"iter"
	"slices"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/ingest/pasts"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// The path of a record through the ingest: it is decoded, its event is scored, and observed.

// decodeRecord decodes a record, once more if that panics.
func (r *reader) decodeRecord(p *sketch.Part, ev *event.Event, from *consumer.Record) (*event.Rejection, *event.Wait) {
	rejection, wait, panicked := r.tryDecode(p, ev, from)
	if panicked {
		rejection, wait, _ = r.tryDecode(p, ev, from)
	}
	return rejection, wait
}

// decodeOnce decodes a record of a partition, as the mapping of the model says if it has one. The row of an event that
// is passed over is made before the next batch comes, so that its names need no memory.
func (r *reader) decodeOnce(ev *event.Event, from *consumer.Record, partition int32) (*event.Rejection, *event.Wait) {
	isPassed := r.thin && (r.outcomes != nil || !isLearned(partition, from.Offset))
	switch {
	case r.mapped != nil:
	case isPassed:
		return r.borrow(ev, from.Value, from.Timestamp), nil
	default:
		return r.decode(ev, from.Value, from.Timestamp), nil
	}
	record := event.Record{Value: from.Value, Key: from.Key, Headers: from.Headers, Time: from.Timestamp}
	if isPassed {
		return r.mapped.BorrowRecord(ev, &record)
	}
	return r.mapped.DecodeRecord(ev, &record)
}

// prescore scores the events of a part. One that panics has no score, and panics again when it is observed, which is
// reported then. Of a thin part a share is scored.
func (g *Ingest) prescore(p *sketch.Part, d *decoded, thin bool) {
	d.scores = d.scores[:0]
	if g.prescorer == nil || g.careful || !g.prescorer.Refresh() {
		return
	}
	d.scores = slices.Grow(d.scores, len(p.Records))[:len(p.Records)]
	for i := range p.Records {
		d.scores[i] = updates.Score{}
		r := &p.Records[i]
		if r.Fate == sketch.Applied && !r.Replayed && (!thin || g.isLearned(p.Partition, r)) {
			g.prescoreRecord(&d.scores[i], &d.events[i])
		}
	}
}

// observeRecords scores and learns the events of a part in order, and returns on how many that panicked. They are not
// tried again: what was changed before would be changed twice.
func (g *Ingest) observeRecords(p *sketch.Part, d *decoded, thin bool) (unlearned, passed int64) {
	if g.open != nil {
		g.run, passed = g.openRun(p, d, thin)
	} else {
		passed = g.wholeRun(p, d, thin)
	}
	var last rows.Position
	observe := func(run []cycle.Observation) {
		g.observe(run, func(i int, value any) {
			if run[i].Position != last { // else another one of the negatives of the event
				unlearned++
				last = run[i].Position
			}
			g.panicked(p, run[i].Position.Offset, value)
		})
	}
	if !g.careful {
		began := time.Now()
		observe(g.run)
		if g.catchUp.learned(len(g.run), time.Since(began)); thin || g.open != nil {
			g.cycle.Reach([]report.Cut{{Topic: p.Topic, Partition: p.Partition, Next: p.Next}}, newestOf(p))
		}
		return unlearned, passed
	}
	for i := range g.run {
		g.hold(p.Topic, p.Partition, g.run[i].Position.Offset)
		observe(g.run[i : i+1])
		g.release()
	}
	return unlearned, passed
}

// wholeRun makes g.run the events of a part, which come with their labels. It returns how many are passed over.
func (g *Ingest) wholeRun(p *sketch.Part, d *decoded, thin bool) (passed int64) {
	g.run = g.run[:0]
	for i := range p.Records {
		r := &p.Records[i]
		if r.Fate != sketch.Applied || r.Replayed {
			continue
		}
		if thin && !isLearned(p.Partition, r.Offset) {
			if passed++; g.choices != nil {
				g.choices.Note(&d.events[i])
			}
			continue
		}
		o := cycle.Observation{Event: &d.events[i], Learn: !r.Forgotten, Payload: r.Payload,
			Position: rows.Position{Topic: p.Topic, Partition: p.Partition, Offset: r.Offset}}
		if i < len(d.scores) {
			o.Prescored = &d.scores[i]
		}
		if g.choices != nil {
			if g.OnChoice != nil && o.Learn {
				g.OnChoice(o.Event, false)
			}
			g.run = g.choices.Observations(g.run, o)
		} else {
			g.run = append(g.run, o)
		}
	}
	return passed
}

// newestOf returns the newest time of the events of a part, in milliseconds; 0 of outcomes.
func newestOf(p *sketch.Part) (newest int64) {
	if p.Outcomes {
		return 0
	}
	for i := range p.Records {
		if r := &p.Records[i]; r.Fate == sketch.Applied {
			newest = max(newest, r.Time)
		}
	}
	return newest
}

// Pasts returns what is known for derived fields, nil for a model that has none.
func (g *Ingest) Pasts() *pasts.Pasts { return g.pasts }

// derive fills the derived fields of the events of a part, in order, and makes their rows again. One that has no room
// for them lacks them.
func (g *Ingest) derive(j *job, d *decoded) error {
	if g.pasts == nil || j.part.Outcomes {
		return nil
	}
	for i := range j.part.Records {
		r := &j.part.Records[i]
		if r.Fate != sketch.Applied || r.Replayed {
			continue
		}
		ev, err := &d.events[i], error(nil)
		j.arenas[0], r.Entities, err = g.pasts.Take(j.part.Topic, j.part.Partition, r.Offset, ev, !r.Forgotten,
			j.arenas[0])
		if err != nil {
			return err
		}
		start := len(j.arenas[0])
		if j.arenas[0] = rows.AppendEvent(j.arenas[0], ev); !g.isStorable(j.arenas[0][start:]) {
			g.pasts.Underive(ev)
			j.arenas[0] = rows.AppendEvent(j.arenas[0][:start], ev)
		}
		r.Payload = j.arenas[0][start:len(j.arenas[0]):len(j.arenas[0])]
	}
	return nil
}

// Negatives yields names that were not chosen, for a choice at a place of the log. They are drawn uniformly from the
// last choices, as a consumer draws them. A model whose events have labels has none.
func (g *Ingest) Negatives(ev *event.Event, at rows.Position) iter.Seq[*event.Event] {
	if g.choices == nil {
		return func(func(*event.Event) bool) {}
	}
	return g.choices.Alike(ev, at)
}

// IsFirst reports whether the name of a choice has not been chosen before: no negative that is drawn for it is as new.
func (g *Ingest) IsFirst(ev *event.Event) bool { return g.choices != nil && !g.choices.Knows(ev) }
