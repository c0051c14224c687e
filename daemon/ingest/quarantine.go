package ingest

import (
	"sort"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/sketch"
)

// outOfQuarantine returns what of a batch may be read, up to next. halt, a *consumer.HaltError, is nil if that is all
// of it.
func (g *Ingest) outOfQuarantine(b *consumer.Batch) (records []consumer.Record, next int64, halt error) {
	if g.Crashes == nil {
		return b.Records, b.Next, nil
	}
	offset, reason, ok := g.Crashes.Quarantined(b.Topic, b.Partition)
	if !ok || offset >= b.Next || offset < b.Base {
		return b.Records, b.Next, nil
	}
	n := sort.Search(len(b.Records), func(i int) bool { return b.Records[i].Offset >= offset })
	return b.Records[:n], offset, &consumer.HaltError{Next: offset, Reason: reason}
}

// suspects reports whether the process has died with records of a part in hand.
func (g *Ingest) suspects(p *sketch.Part) bool {
	return g.Crashes != nil && g.Crashes.Suspects(p.Topic, p.Partition, p.Base, p.Next)
}

// inHand notes that a part is being decoded or learned until done is called. Records that are held one at a time note
// themselves.
func (g *Ingest) inHand(stage crash.Stage, p *sketch.Part) (done func()) {
	if g.Crashes == nil || g.careful {
		return func() {}
	}
	g.Crashes.Take(stage, p.Topic, p.Partition, p.Base, p.Next)
	return func() { g.Crashes.Done(stage) }
}

// hold is called before a record is decoded or learned from, release after it.
func (g *Ingest) hold(topic string, partition int32, offset int64) {
	if g.careful {
		g.Crashes.Hold(topic, partition, offset)
	}
}

func (g *Ingest) release() {
	if g.careful {
		g.Crashes.Release()
	}
}
