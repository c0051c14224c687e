package ingest

import (
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/failpoint"
)

// Each function here calls one of record.go and recovers its panics. A panic on one record must not become a crash
// loop: the record would be read again after every start. One that cannot be decoded is rejected. One that can is
// applied, whatever happens to those who learn from it: the state is a function of the log and never of the model, so
// replicas and verify, which learn nothing, agree with it.
//
// What ends the process all the same, as a fatal fault of the runtime does, is what package crash is for.

// tryDecode decodes a record, or rejects it if that panics.
func (r *reader) tryDecode(p *sketch.Part, ev *event.Event,
	from *consumer.Record) (rejection *event.Rejection, wait *event.Wait, panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			rejection, wait, panicked = &event.Rejection{Reason: event.Panicked}, nil, true
			r.ingest.panicked(p, from.Offset, v)
		}
	}()
	failpoint.AtRecord(failpoint.IngestRecord, p.Partition, from.Offset)
	rejection, wait = r.decodeOnce(ev, from, p.Partition)
	return rejection, wait, false
}

// prescoreRecord scores an event, or leaves it without a score if that panics.
func (g *Ingest) prescoreRecord(dst *updates.Score, ev *event.Event) {
	defer func() {
		if recover() != nil {
			*dst = updates.Score{}
		}
	}()
	g.prescorer.Score(dst, ev)
}

// learnRow lets a row be learned again. What panics here would do so at every start: it is left out.
func learnRow(learn func() error) (panicked bool, err error) {
	defer func() { panicked = recover() != nil }()
	return false, learn()
}

func (g *Ingest) panicked(p *sketch.Part, offset int64, value any) {
	if g.OnPanic != nil {
		g.OnPanic(p.Topic, p.Partition, offset, value)
	}
}
