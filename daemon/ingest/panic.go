package ingest

import (
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/sketch"
)

// A panic on one record must not become a crash loop: the record would be read again after every start. It is rejected instead.

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

// observeRecord scores and learns an event, and makes r a rejected record if that panics. It is not tried again: what it changed before
// would be changed twice.
func (g *Ingest) observeRecord(ev *consumer.Event, r *sketch.Record) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			r.Fate, r.Reason, r.Payload = sketch.Rejected, string(consumer.Panicked), nil // what the record held is in the topic
			g.told(r.Offset, v)
		}
	}()
	g.observe(ev, r.Role == sketch.Train && !r.Forgotten, cycle.Position{Topic: g.part.Topic, Partition: g.part.Partition, Offset: r.Offset}, r.Payload)
	return true
}

func (g *Ingest) told(offset int64, value any) {
	if g.OnPanic != nil {
		g.OnPanic(g.part.Topic, g.part.Partition, offset, value)
	}
}
