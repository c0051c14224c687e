package ingest

import (
	"slices"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// A panic on one record must not become a crash loop: the record would be read again after every start. One that cannot be decoded is
// rejected. One that can is applied, whatever happens to those who learn from it: the state is a function of the log and never of the model, so
// replicas and verify, which learn nothing, agree with it.
//
// What ends the process all the same, as a fatal fault of the runtime does, is what package crash is for.

// decodeRecord decodes a record, once more if that panics.
func (r *reader) decodeRecord(p *sketch.Part, ev *event.Event, from *consumer.Record) *event.Rejection {
	rejection, panicked := r.tryDecode(p, ev, from)
	if panicked {
		rejection, _ = r.tryDecode(p, ev, from)
	}
	return rejection
}

func (r *reader) tryDecode(p *sketch.Part, ev *event.Event, from *consumer.Record) (rejection *event.Rejection, panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			rejection, panicked = &event.Rejection{Reason: event.Panicked}, true
			r.ingest.panicked(p, from.Offset, v)
		}
	}()
	failpoint.AtRecord(failpoint.IngestRecord, p.Partition, from.Offset)
	return r.decode(ev, from.Value, from.Timestamp), false
}

// observeRecord scores and learns an event, and reports whether that went without a panic. It is not tried again: what it changed before would be
// changed twice.
func (g *Ingest) observeRecord(p *sketch.Part, d *decoded, i int) (learned bool) {
	r := &p.Records[i]
	g.hold(p.Topic, p.Partition, r.Offset)
	defer g.release()
	defer func() {
		if v := recover(); v != nil {
			g.panicked(p, r.Offset, v)
		}
	}()
	var prescored *cycle.Score
	if i < len(d.scores) {
		prescored = &d.scores[i]
	}
	at := cycle.Position{Topic: p.Topic, Partition: p.Partition, Offset: r.Offset}
	g.observe(&d.events[i], !r.Forgotten, at, r.Payload, prescored)
	return true
}

// relearnRow folds a row in again. What panics here would do so at every start: it is left out.
func relearnRow(c *cycle.Cycle, r *sketch.Row) (panicked bool, err error) {
	defer func() { panicked = recover() != nil }()
	return false, c.Relearn(cycle.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}, r.Payload)
}

func (g *Ingest) panicked(p *sketch.Part, offset int64, value any) {
	if g.OnPanic != nil {
		g.OnPanic(p.Topic, p.Partition, offset, value)
	}
}

// prescore scores the events of a part. One that panics has no score, and panics again when it is observed, which is reported then.
func (g *Ingest) prescore(p *sketch.Part, d *decoded) {
	d.scores = d.scores[:0]
	if g.prescorer == nil || g.careful || !g.prescorer.Refresh() {
		return
	}
	d.scores = slices.Grow(d.scores, len(p.Records))[:len(p.Records)]
	for i := range p.Records {
		d.scores[i] = cycle.Score{}
		if r := &p.Records[i]; r.Fate == sketch.Applied && !r.Replayed {
			g.prescoreRecord(&d.scores[i], &d.events[i])
		}
	}
}

func (g *Ingest) prescoreRecord(dst *cycle.Score, ev *event.Event) {
	defer func() {
		if recover() != nil {
			*dst = cycle.Score{}
		}
	}()
	g.prescorer.Score(dst, ev)
}
