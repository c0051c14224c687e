package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/refitd/refitd/snapshot/backoff"
)

// Kafka's CRC does not cover the base offset of a batch, and nothing covers the log start, the high watermark or the
// errors of an answer. So what would skip records is believed only after a second answer on another connection says the
// same: a hole between batches, a batch above the high watermark, a log start above the next offset, a log end below
// it. In a log that is neither compacted nor truncated there is nothing to ask.
//
// A batch above the high watermark is not delivered from that answer. It is when a second answer has the same batch
// under a watermark that covers it: brokers read the watermark before the records, and records may be appended in
// between.

// The reasons for which an answer is refused, as in the metric.
const (
	refusedBatch       = "batch"
	refusedStart       = "log_start"
	refusedEnd         = "log_end"
	refusedFingerprint = "fingerprint"
	refusedAborted     = "aborted"
)

// An oddity is what has to be confirmed of an answer.
type oddity struct {
	kind  string // one of the reasons for a refusal; empty if nothing is odd
	text  string
	at    int64 // offset that is not as expected
	sound int   // bytes of records before it
	again bool  // what was read before does not fit: that, or this, is not what the log has
}

// odd looks at the headers of an answer to a fetch from an offset. What is below unread was read before: then the
// fingerprint finds a first batch that was moved down. What is not odd of the rest is noted in seen.
func (a *partitionResponse) odd(from, unread int64, seen *Numbers) oddity {
	if a.code != 0 { // an offset that is out of range is asked about by outOfRange
		return oddity{}
	}
	if a.logStart > from {
		return oddity{
			kind: refusedStart,
			at:   a.logStart,
			text: fmt.Sprintf("the log starts at %d, above the offset %d that was asked for", a.logStart, from),
		}
	}
	seen.begin(unread)
	next, rest := from, a.records
	for first := true; ; first = false {
		_, h, after, ok := nextBatch(rest)
		if !ok {
			return oddity{}
		}
		o := oddity{kind: refusedBatch, at: h.base, sound: len(a.records) - len(rest)}
		switch {
		case h.base > next:
			o.text = fmt.Sprintf("a batch begins at %d, %d offsets above the end of the one before", h.base,
				h.base-next)
			return o
		case !first && h.base < next:
			o.text = fmt.Sprintf("a batch begins at %d, below the end %d of the one before", h.base, next)
			return o
		case first && unread == from && h.base < from:
			o.text = fmt.Sprintf("the first batch begins at %d, below the offset %d that was asked for", h.base, from)
			return o
		case h.next() > a.high:
			o.text = fmt.Sprintf("a batch ends at %d, above the high watermark %d", h.next()-1, a.high)
			return o
		}
		if h.base >= unread {
			if o.text, o.again = seen.unlike(&h); o.text != "" {
				return o
			}
			seen.note(&h)
		}
		next, rest = max(next, h.next()), after
	}
}

// agreed returns how many bytes of a's records are in the same offsets in b, an answer to the same question. ok is
// false if the next batches of both differ, or are above both high watermarks, and if other transactions are aborted.
func (a *partitionResponse) agreed(b *partitionResponse, from int64) (same int, ok bool) {
	same, ok = a.alike(b)
	if !a.sameAborted(b, extent(a.records[:same], from)) {
		return 0, false
	}
	return same, ok
}

// alike is agreed but for transactions.
func (a *partitionResponse) alike(b *partitionResponse) (same int, ok bool) {
	high := max(a.high, b.high)
	for one, two := a.records, b.records; ; {
		first, restOne, more, err := cutBatch(one)
		if err != nil || !more {
			return len(a.records) - len(one), true
		}
		second, restTwo, more, err := cutBatch(two)
		if err != nil || !more {
			return len(a.records) - len(one), true
		}
		h, err := parseHeader(first)
		if err != nil {
			return len(a.records) - len(one), true // scan refuses it
		}
		if g, err := parseHeader(second); err != nil || g.base != h.base || g.lastDelta != h.lastDelta ||
			h.next() > high || g.crc != h.crc && !h.compacts(&g) {
			return len(a.records) - len(one), false
		}
		one, two = restOne, restTwo
	}
}

// compacts reports whether another batch may be what compaction has made of h since: one with fewer records, or with a
// note that it was there.
func (h *header) compacts(other *header) bool {
	return other.count < h.count || other.count == h.count && other.attributes^h.attributes == attrHorizon
}

// errContradicted: two answers differ, and nothing says which one is right.
var errContradicted = errors.New("a second answer on another connection contradicts it")

// confirm asks once more, on another connection, about the answers that have something odd, and takes out of them what
// the second answer does not confirm. What is left of an answer is whole; unconfirmed says why it is empty.
func (c *Consumer) confirm(ctx context.Context, questions []question, answers []partitionResponse) {
	var doubts []question
	var odd []oddity
	var which []*partitionResponse
	for i := range answers {
		a := &answers[i]
		if q := find(questions, a); q != nil {
			o := a.odd(q.at(), q.from, &q.p.numbers)
			if c.opts.Isolation == ReadCommitted {
				o = a.decide(o, q.from, q.p.numbers.runningAt(q.from))
			}
			if o.kind != "" {
				doubts, odd, which = append(doubts, *q), append(odd, o), append(which, a)
			} else if c.opts.Isolation == ReadCommitted {
				a.follow(q.from, &q.p.numbers)
			}
		}
	}
	if len(doubts) == 0 {
		return
	}
	c.metrics.confirmations.Inc()
	res, second, err := c.askAgain(ctx, doubts)
	if err == nil {
		defer res.release() // its records are compared here alone
	}
	contradicted := false
	for i, a := range which {
		if !c.settle(&doubts[i], a, odd[i], second, err) {
			contradicted = true
		}
		if c.opts.Isolation == ReadCommitted {
			a.follow(doubts[i].from, &doubts[i].p.numbers)
		}
	}
	if contradicted {
		c.source.forget() // nobody knows which connection it was
	}
}

// askAgain fetches on another connection. A broker with a quota answers with nothing at first: that it allows one
// answer does not say that it allows two.
func (c *Consumer) askAgain(ctx context.Context, doubts []question) (*fetchResponse, []partitionResponse, error) {
	for left := maxThrottle; ; {
		res, second, err := c.fetchFrom(ctx, c.source.second, doubts)
		if err != nil || len(second) > 0 {
			return res, second, err
		}
		pause := time.Duration(res.ThrottleTimeMs) * time.Millisecond
		if pause <= 0 || pause > left {
			return res, second, nil
		}
		res.release()
		left -= pause
		if err := backoff.Sleep(ctx, pause); err != nil {
			return nil, nil, err
		}
	}
}

// settle keeps of an answer what the second one confirms, and reports false if that contradicts it. failed is why there
// is no second one.
func (c *Consumer) settle(q *question, a *partitionResponse, o oddity, second []partitionResponse, failed error) bool {
	var b *partitionResponse
	for i := range second {
		if second[i].topic == a.topic && second[i].partition == a.partition {
			b = &second[i]
		}
	}
	if failed == nil && b == nil {
		failed = errors.New("the second answer is without the partition")
	}
	if failed == nil && b.code != 0 && (o.kind != refusedStart || kafka.Error(b.code) != kafka.OffsetOutOfRange) {
		failed = kafka.Error(b.code)
	}
	same, ok := o.sound, true
	switch {
	case failed != nil:
		a.unconfirmed = fmt.Errorf("%s, which could not be asked about on another connection: %w", o.text, failed)
	case o.kind == refusedStart && b.code != 0:
		a.code = b.code // the log starts above, and outOfRange asks where
		return true
	case o.kind == refusedStart:
		if ok = b.logStart > q.at(); ok {
			a.logStart = min(a.logStart, b.logStart)
			return true
		}
	default:
		if same, ok = a.agreed(b, q.at()); ok && same > o.sound {
			q.p.numbers.noteAll(a.records[o.sound:same], extent(a.records[:o.sound], q.from))
			if o.again && q.p.numbers.mayWarn(time.Now()) {
				c.opts.Logger.Warn("what was read does not fit what follows", "note",
					"a second answer on another connection has the same: refitd verify compares all of it",
					"topic", a.topic, "partition", a.partition, "offset", o.at, "reason", o.text)
			}
			a.records = a.records[:same]
			a.high, a.stable = max(a.high, b.high), max(a.stable, b.stable) // that cover the records
			return true
		}
		same = max(same, o.sound)
	}
	if !ok {
		c.refused(a.topic, a.partition, o.kind, o.at, o.text)
		a.unconfirmed = fmt.Errorf("%s: %w", o.text, errContradicted)
	} else if a.unconfirmed == nil {
		a.unconfirmed = fmt.Errorf("%s, which a second answer does not show", o.text)
	}
	if same > o.sound {
		q.p.numbers.noteAll(a.records[o.sound:same], extent(a.records[:o.sound], q.from))
	}
	if a.records = a.records[:same]; same > 0 {
		a.unconfirmed = nil // the rest is asked for with the next fetch
	}
	return ok
}

// bounds returns the first and the last offset of a partition, on which a position at an offset depends. An offset that
// is outside of them is so only after a second answer on another connection.
func (c *Consumer) bounds(ctx context.Context, tp TopicPartition, at int64) (start, end int64, err error) {
	ask := func(by *kafka.Client) (start, end int64, err error) {
		first, err := c.source.offsets(ctx, by, []TopicPartition{tp}, kafka.FirstOffset, kafka.ReadUncommitted)
		if err != nil {
			return 0, 0, err
		}
		last, err := c.source.offsets(ctx, by, []TopicPartition{tp}, kafka.LastOffset, kafka.ReadUncommitted)
		return first[tp], last[tp], err
	}
	if start, end, err = ask(c.source.client); err != nil || start <= at && at <= end {
		return start, end, err
	}
	c.metrics.confirmations.Inc()
	start2, end2, err := ask(c.source.witness)
	if err != nil {
		return 0, 0, err
	}
	if start > at && start2 <= at {
		c.refused(tp.Topic, tp.Partition, refusedStart, start,
			fmt.Sprintf("the log starts at %d, above the offset %d", start, at))
		c.source.forget()
	}
	if end < at && end2 >= at {
		c.refused(tp.Topic, tp.Partition, refusedEnd, end,
			fmt.Sprintf("the log ends at %d, below the offset %d", end, at))
		c.source.forget()
	}
	return min(start, start2), max(end, end2), nil
}

// confirmedOffsets returns the first or last offset of each partition. Where answers on two connections differ, a
// third is asked for.
func (c *Consumer) confirmedOffsets(ctx context.Context, parts []TopicPartition, when int64) (
	map[TopicPartition]int64, error) {
	ask := func(by *kafka.Client) (map[TopicPartition]int64, error) {
		return c.source.offsets(ctx, by, parts, when, c.opts.Isolation.level())
	}
	first, err := ask(c.source.client)
	if err != nil {
		return nil, err
	}
	second, err := ask(c.source.witness)
	if err != nil {
		return nil, err
	}
	parts = slices.DeleteFunc(slices.Clone(parts), func(tp TopicPartition) bool { return first[tp] == second[tp] })
	if len(parts) == 0 {
		return first, nil
	}
	c.source.forget() // so that the third answer is on a connection that has given neither of the others
	third, err := ask(c.source.client)
	if err != nil {
		return nil, err
	}
	for _, tp := range parts {
		offsets := [3]int64{first[tp], second[tp], third[tp]}
		which, falls := Settled(offsets)
		first[tp] = offsets[which]
		if falls {
			kind, text := refusedEnd, fmt.Sprintf("three answers about the log end are %d", offsets)
			if when == kafka.FirstOffset {
				kind, text = refusedStart, fmt.Sprintf("three answers about the log start are %d", offsets)
			}
			c.refused(tp.Topic, tp.Partition, kind, offsets[which], text)
		}
	}
	return first, nil
}

// refused counts and logs an answer that a second one contradicts.
func (c *Consumer) refused(topic string, partition int32, kind string, at int64, text string) {
	c.metrics.refused.WithLabelValues(kind).Inc()
	c.opts.Logger.Warn("answer of a broker refused",
		"note", "a second one on another connection contradicts it", "topic", topic,
		"partition", partition, "kind", kind, "offset", at, "reason", text)
}

// find returns the question that an answer belongs to, or nil.
func find(questions []question, a *partitionResponse) *question {
	for i := range questions {
		if q := &questions[i]; q.p.Partition == a.partition && q.p.Topic == a.topic {
			return q
		}
	}
	return nil
}
