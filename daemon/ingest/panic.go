package ingest

import (
	"slices"
	"time"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// A panic on one record must not become a crash loop: the record would be read again after every start. One that cannot
// be decoded is rejected. One that can is applied, whatever happens to those who learn from it: the state is a function
// of the log and never of the model, so replicas and verify, which learn nothing, agree with it.
//
// What ends the process all the same, as a fatal fault of the runtime does, is what package crash is for.

// decodeRecord decodes a record, once more if that panics.
func (r *reader) decodeRecord(
	p *sketch.Part,
	ev *event.Event,
	from *consumer.Record,
) (*event.Rejection, *event.Wait) {
	rejection, wait, panicked := r.tryDecode(p, ev, from)
	if panicked {
		rejection, wait, _ = r.tryDecode(p, ev, from)
	}
	return rejection, wait
}

func (r *reader) tryDecode(
	p *sketch.Part,
	ev *event.Event,
	from *consumer.Record,
) (rejection *event.Rejection, wait *event.Wait, panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			rejection, wait, panicked = &event.Rejection{Reason: event.Panicked}, nil, true
			r.ingest.panicked(p, from.Offset, v)
		}
	}()
	failpoint.AtRecord(failpoint.IngestRecord, p.Partition, from.Offset)
	if r.mapped != nil {
		rejection, wait = r.mapped.DecodeRecord(
			ev,
			&event.Record{Value: from.Value, Key: from.Key, Headers: from.Headers, Time: from.Timestamp},
		)
		return rejection, wait, false
	}
	return r.decode(ev, from.Value, from.Timestamp), nil, false
}

// observeRecords scores and learns the events of a part in order, and returns on how many that panicked. They are not
// tried again: what was changed before would be changed twice.
func (g *Ingest) observeRecords(p *sketch.Part, d *decoded, thin bool) (unlearned, passed int64) {
	g.run = g.run[:0]
	for i := range p.Records {
		r := &p.Records[i]
		if r.Fate != sketch.Applied || r.Replayed {
			continue
		}
		if thin && !isLearned(p.Partition, r.Offset) {
			if passed++; g.choices != nil {
				g.choices.note(&d.events[i])
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
			g.run = g.choices.observations(g.run, o)
		} else {
			g.run = append(g.run, o)
		}
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
		if g.catchUp.learned(len(g.run), time.Since(began)); thin {
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

// learnRow lets a row be learned again. What panics here would do so at every start: it is left out.
func learnRow(learn func() error) (panicked bool, err error) {
	defer func() { panicked = recover() != nil }()
	return false, learn()
}

// newestOf returns the newest time of the events of a part, in milliseconds.
func newestOf(p *sketch.Part) (newest int64) {
	for i := range p.Records {
		if r := &p.Records[i]; r.Fate == sketch.Applied {
			newest = max(newest, r.Time)
		}
	}
	return newest
}

func (g *Ingest) panicked(p *sketch.Part, offset int64, value any) {
	if g.OnPanic != nil {
		g.OnPanic(p.Topic, p.Partition, offset, value)
	}
}

// prescore scores the events of a part. One that panics has no score, and panics again when it is observed, which is
// reported then.
func (g *Ingest) prescore(p *sketch.Part, d *decoded, thin bool) {
	d.scores = d.scores[:0]
	if g.prescorer == nil || g.careful || !g.prescorer.Refresh() {
		return
	}
	d.scores = slices.Grow(d.scores, len(p.Records))[:len(p.Records)]
	for i := range p.Records {
		d.scores[i] = updates.Score{}
		r := &p.Records[i]
		if r.Fate == sketch.Applied && !r.Replayed && (!thin || isLearned(p.Partition, r.Offset)) {
			g.prescoreRecord(&d.scores[i], &d.events[i])
		}
	}
}

func (g *Ingest) prescoreRecord(dst *updates.Score, ev *event.Event) {
	defer func() {
		if recover() != nil {
			*dst = updates.Score{}
		}
	}()
	g.prescorer.Score(dst, ev)
}
