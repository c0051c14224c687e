package ingest

import (
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/sketch"
)

// A panic on one record must not become a crash loop: the record would be read again after every start. One that cannot be decoded is
// rejected. One that can is applied, whatever happens to those who learn from it: the state is a function of the log and never of the model, so
// replicas and verify, which learn nothing, agree with it.

// decodeRecord decodes a record, once more if that panics.
func (g *Ingest) decodeRecord(ev *consumer.Event, r *consumer.Record) consumer.Reason {
	reason, panicked := g.tryDecode(ev, r)
	if panicked {
		reason, _ = g.tryDecode(ev, r)
	}
	return reason
}

func (g *Ingest) tryDecode(ev *consumer.Event, r *consumer.Record) (reason consumer.Reason, panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			reason, panicked = consumer.Panicked, true
			g.told(r.Offset, v)
		}
	}()
	return g.decode(ev, r.Value, r.Timestamp), false
}

// observeRecord scores and learns an event, as far as that goes without a panic. It is not tried again: what it changed before would be changed
// twice.
func (g *Ingest) observeRecord(ev *consumer.Event, r *sketch.Record) {
	defer func() {
		if v := recover(); v != nil {
			g.counts.Unlearned++
			g.told(r.Offset, v)
		}
	}()
	g.observe(ev, r.Role == sketch.Train && !r.Forgotten, cycle.Position{Topic: g.part.Topic, Partition: g.part.Partition, Offset: r.Offset}, r.Payload)
}

// relearnRow folds a row in again. What panics here would do so at every start: it is left out.
func relearnRow(c *cycle.Cycle, r *sketch.Row) (panicked bool, err error) {
	defer func() { panicked = recover() != nil }()
	return false, c.Relearn(cycle.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}, r.Payload)
}

func (g *Ingest) told(offset int64, value any) {
	if g.OnPanic != nil {
		g.OnPanic(g.part.Topic, g.part.Partition, offset, value)
	}
}
