package consumer

import (
	"fmt"
	"time"
)

// MadeAnew is in the text of every halt of a partition whose log may not be the one that was read.
const MadeAnew = "made anew"

// fingerprint is the last record that was applied of a partition. Offsets alone do not distinguish a topic from one
// that was deleted and made anew under its name, from a log that was cut back and written again by another leader, or
// from that of another cluster. So the broker has to show this record again before anything after it is applied: at
// the start, and when the connection was lost, the leader changed, the log moved backwards, or nothing was heard for
// a while. It costs no request: the next fetch begins at the record in place of after it. Only records that come
// after a pause are asked for a second time so.
type fingerprint struct {
	offset int64 // -1 if no record was applied yet, or retention took it, so that there is nothing to compare
	crc    uint32
}

// staleAfter is how long a partition may go without an answer, and anewAfter without a record, before its log may be
// another one. Within anewAfter a topic would have to be deleted, made anew and filled past our place, between two
// fetches that both go well. One that was filled just to our place between two fetches is noticed with its next record.
const (
	staleAfter = 5 * time.Second
	anewAfter  = time.Second
)

// maxMismatches is how often the record has to be another one, on as many connections, before the log counts as another
// one.
const maxMismatches = 2

// mismatched reports whether a partition has to halt because of what compare says, or has the record compared again on
// another connection.
func (c *Consumer) mismatched(p *partition, text string) bool {
	c.mu.Lock()
	p.mismatches++
	if p.mismatches >= maxMismatches {
		c.mu.Unlock()
		return true
	}
	p.fetched, p.waiting = p.applied, false
	p.doubt()
	at := p.last.offset
	c.mu.Unlock()
	c.source.forget()
	c.opts.Logger.Warn("fingerprint is compared again on another connection", "topic", p.Topic, "partition",
		p.Partition, "offset", at, "reason", text)
	return false
}

// doubt has the fingerprint of a partition compared again. The caller holds mu.
func (p *partition) doubt() { p.check = p.last.offset >= 0 }

// rested reports whether a partition had no record for a while, and was asked. The caller holds mu.
func (p *partition) rested() bool { return p.empty && time.Since(p.heard) > anewAfter }

// doubtAll has the fingerprints of the partitions of a broker compared again.
func (c *Consumer) doubtAll(broker int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parts {
		if p.leader == broker {
			p.doubt()
		}
	}
}

// backwards reports whether an answer belongs to a log that is shorter than the one seen before. The caller holds mu.
func (p *partition) backwards(a *partitionResponse) bool {
	return a.high < p.end || a.logStart >= 0 && a.logStart < p.start
}

// compare looks for the fingerprint in a record set that was fetched from its offset on. It returns why reading
// cannot continue, or an empty string. A record that was compacted away cannot be compared.
func (c *Consumer) compare(o *portion) string {
	c.walker.reset(o.records, o.check.offset, o.check.offset+1, o.aborted)
	var err error
	if c.records, _, _, err = c.walker.walk(c.records[:0], 1); err != nil {
		return fmt.Sprintf("fingerprint not found: %v", err)
	}
	if len(c.records) == 0 {
		c.metrics.fingerprints.WithLabelValues("skipped").Inc()
		c.opts.Logger.Info("fingerprint not compared", "topic", o.p.Topic, "partition", o.p.Partition, "offset",
			o.check.offset, "reason", "the record was compacted away")
		return ""
	}
	if r := &c.records[0]; r.Fate != Delivered || r.CRC != o.check.crc {
		c.metrics.fingerprints.WithLabelValues("mismatch").Inc()
		return c.opts.advise(
			fmt.Sprintf(
				"fingerprint mismatch: the record at offset %d is not the one that was applied (its CRC is %08x, was %08x): "+
					"the topic was deleted and "+MadeAnew+", its log was cut back, or this is another cluster",
				o.check.offset,
				r.CRC,
				o.check.crc,
			),
			CauseOtherLog,
		)
	}
	c.metrics.fingerprints.WithLabelValues("match").Inc()
	return ""
}
